package oracle

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// driver is the C program on the other end of a pipe: one line in, one line out.
type driver struct {
	mu  sync.Mutex
	in  io.WriteCloser
	out *bufio.Reader
}

var (
	buildDir  string // of this run
	buildOnce sync.Once
	missing   string // the tool that is not there
	buildErr  error
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "oracle")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	buildDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// build makes the program in dir.
func build(dir string) error {
	for _, tool := range []string{"rpcgen", "cc"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = tool
			return nil
		}
	}
	cflags := []string{"-I/usr/include/tirpc"}
	libs := []string{"-ltirpc"}
	if out, err := exec.Command("pkg-config", "--cflags", "libtirpc").Output(); err == nil {
		cflags = strings.Fields(string(out))
	}
	probe := filepath.Join(dir, "probe.c")
	if err := os.WriteFile(probe, []byte("#include <rpc/rpc.h>\nint main(void) { return xdr_void() != TRUE; }\n"), 0o644); err != nil {
		return err
	}
	args := append(append([]string{"-o", filepath.Join(dir, "probe"), probe}, cflags...), libs...)
	if exec.Command("cc", args...).Run() != nil {
		missing = "libtirpc"
		return nil
	}

	var objects []string
	for _, v := range []string{"1", "2"} {
		name := "rpcrdma_v" + v
		text, err := os.ReadFile("../../core/wire/xdr/" + name + ".x")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name+".x"), text, 0o644); err != nil {
			return err
		}
		if err := run(dir, "rpcgen", "-h", "-o", name+".h", name+".x"); err != nil {
			return err
		}
		if err := run(dir, "rpcgen", "-c", "-o", name+"_xdr.c", name+".x"); err != nil {
			return err
		}
		// Both files define xdr_uint32 and xdr_uint64; -w, because rpcgen's code has unused variables.
		if err := run(dir, "cc", append([]string{"-w", "-O1", "-c", "-Dxdr_uint32=xdr_uint32_v" + v,
			"-Dxdr_uint64=xdr_uint64_v" + v, name + "_xdr.c"}, cflags...)...); err != nil {
			return err
		}
		objects = append(objects, filepath.Join(dir, name+"_xdr.o"))
	}
	sources, err := filepath.Glob("testdata/*.c")
	if err != nil {
		return err
	}
	args = []string{"-O1", "-Wall", "-o", filepath.Join(dir, "driver"), "-I" + dir}
	args = append(append(args, cflags...), sources...)
	return run(".", "cc", append(append(args, objects...), libs...)...)
}

// start starts the program, or skips the test with the reason.
func start(t *testing.T) *driver {
	t.Helper()
	buildOnce.Do(func() { buildErr = build(buildDir) })
	switch {
	case missing != "":
		t.Skipf("no %s: install rpcsvc-proto, libtirpc-dev and gcc "+
			"(apt-get install rpcsvc-proto libtirpc-dev gcc) to compare with rpcgen's code", missing)
	case buildErr != nil:
		t.Fatal(buildErr)
	}
	cmd := exec.Command(filepath.Join(buildDir, "driver"))
	var stderr bytes.Buffer // libtirpc complains of memory it does not get
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("driver: %v\n%s", err, &stderr)
		}
	})
	return &driver{in: in, out: bufio.NewReader(out)}
}

func run(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}

// ask sends one command.
func (d *driver) ask(t testing.TB, cmd, words string) string {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := fmt.Fprintf(d.in, "%s %s\n", cmd, words); err != nil {
		t.Fatalf("driver: %v", err)
	}
	line, err := d.out.ReadString('\n')
	if err != nil {
		t.Fatalf("driver: %v after %s %.200s", err, cmd, words)
	}
	return strings.TrimSpace(line)
}

// same asks that C encodes words to b, and decodes b to words.
func (d *driver) same(t testing.TB, what, words string, b []byte) {
	t.Helper()
	if got := d.ask(t, "e"+what, words); got != hexOf(b) {
		t.Fatalf("encode %s %s\nC    %s\nours %s", what, words, got, hexOf(b))
	}
	d.decodes(t, what, words, b, len(b))
}

// decodes asks that C decodes the first n bytes of b to words.
func (d *driver) decodes(t testing.TB, what, words string, b []byte, n int) {
	t.Helper()
	want := fmt.Sprintf("%d %s", n, words)
	if got := d.ask(t, "d"+what, hexOf(b)); got != want {
		t.Fatalf("decode %s %x\nC    %s\nours %s", what, b, got, want)
	}
}

func hexOf(b []byte) string {
	if len(b) == 0 {
		return "-"
	}
	return hex.EncodeToString(b)
}

// words collects the words of a message in the driver's language.
type words struct{ b bytes.Buffer }

func (w *words) add(vs ...uint32) {
	for _, v := range vs {
		w.u64(uint64(v))
	}
}

func (w *words) u64(v uint64) {
	w.sep()
	fmt.Fprint(&w.b, v)
}

func (w *words) hex(b []byte) {
	w.sep()
	w.b.WriteString(hexOf(b))
}

func (w *words) sep() {
	if w.b.Len() > 0 {
		w.b.WriteByte(' ')
	}
}

func (w *words) String() string { return w.b.String() }
