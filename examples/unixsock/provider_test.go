//go:build unix

package unixsock_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/examples/unixsock"
	"github.com/rpcrdma/rpcrdma/test/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestProvider(t *testing.T) {
	dir := t.TempDir()
	providertest.Run(t, func(*testing.T) verbs.Provider { return unixsock.Provider{} }, providertest.Options{
		Local:      dir,
		ShortSetup: map[string]string{"setup": "300ms"},
		Stall: func(t *testing.T, addr string) (stop func()) {
			_, port, _ := net.SplitHostPort(addr)
			var conns []net.Conn
			for range 20 {
				c, err := net.Dial("unix", filepath.Join(dir, "unixsock-"+port+".sock"))
				if err != nil {
					t.Fatal(err)
				}
				conns = append(conns, c)
			}
			return func() {
				for _, c := range conns {
					c.Close()
				}
			}
		},
	})
}

// TestProgram is the command line with this provider: its URLs are served and called.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	program, url := filepath.Join(dir, "rpcrdma"), "unixsock://127.0.0.1:20049?local="+dir
	if out, err := exec.Command("go", "build", "-o", program, "./rpcrdma").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+dir)
		return cmd
	}
	var log bytes.Buffer
	server := run("serve", "nfs", "--export", t.TempDir(), "--listen", url)
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	var out []byte
	err := os.ErrDeadlineExceeded
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		out, err = run("ping", "-c", "3", url).CombinedOutput() // until it listens
	}
	_ = server.Process.Kill()
	_ = server.Wait()
	if err != nil || !bytes.Contains(out, []byte("3 replies")) {
		t.Errorf("ping: %v\n%s\nserver:\n%s", err, out, log.Bytes())
	}
}
