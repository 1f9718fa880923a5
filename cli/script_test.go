package cli

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/extensions/sdk"
	"github.com/rpcrdma/rpcrdma/props"
)

// The scripts in testdata/script run the program itself, as processes of their own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"rpcrdma":           func() { os.Exit(Main()) },
		"rpcrdma-ext-props": func() { os.Exit(Main()) }, // a plugin is the program under another name
		"rpcrdma-ext-demo":  func() { os.Exit(Main()) },
		// Bad ones.
		"rpcrdma-ext-hangs":   func() { time.Sleep(time.Hour) },
		"rpcrdma-ext-payload": func() { serveDeclaration(ext.Declaration{Name: "payload", Class: ext.Payload}) },
		"rpcrdma-ext-claims": func() {
			serveDeclaration(ext.Declaration{Name: "claims", Props: []ext.Prop{{ID: props.RBSIZ, Name: "size", Type: ext.Uint32}}})
		},
		"rpcrdma-ext-other": func() { // what extension demo has, too
			serveDeclaration(ext.Declaration{Name: "other", Props: []ext.Prop{{ID: 0xffffff20, Name: "hue", Type: ext.Uint32}}})
		},
		"badpeer": func() { os.Exit(badPeer(os.Args[1:])) },
	})
}

// serveDeclaration is a plugin that does nothing but to declare d.
func serveDeclaration(d ext.Declaration) {
	sdk.Serve(func(map[string]string) (ext.Extension, error) { return &described{decl: d}, nil })
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await": await, "setfrom": setFrom, "freeport": freePort, "awaitport": awaitPort, "random": random, "gone": gone, "running": running},
		Condition: func(cond string) (bool, error) {
			if cond == "hangup" { // not under nohup(1), which the programs inherit
				return !signal.Ignored(syscall.SIGHUP), nil
			}
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			if cond == "rpcbind" {
				_, noDaemon := exec.LookPath("rpcbind")
				_, noIP := exec.LookPath("ip")
				_, noServices := os.Stat("/etc/services")
				return errors.Join(noDaemon, noIP, noServices) == nil && exec.Command("unshare", "-mn", "true").Run() == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Setup: func(e *testscript.Env) error {
			plugin, err := exec.LookPath("rpcrdma-ext-props")
			if err != nil {
				return err
			}
			e.Setenv("PLUGINS", filepath.Dir(plugin))
			for name, value := range goEnv() { // for the one script that builds
				e.Setenv(name, value)
			}
			e.Setenv("RPCRDMA_DEBUG", "")
			e.Setenv("RPCRDMA_CONFIG", "/dev/null") // not this machine's
			e.Setenv("RPCRDMA_STATE", filepath.Join(e.WorkDir, ".state"))
			return nil
		},
	})
}

// goEnv is what the Go tool needs to find what it has, and to ask nobody for more.
var goEnv = sync.OnceValue(func() map[string]string {
	env := map[string]string{"GOPROXY": "off", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOROOT"} {
		out, err := exec.Command("go", "env", name).Output()
		if err == nil {
			env[name] = strings.TrimSpace(string(out))
		}
	}
	return env
})

// await FILE [BYTES]: waits until the file is there with that many bytes, 1 unless said.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: await FILE [BYTES]")
	}
	var least int64 = 1
	if len(args) == 2 {
		if _, err := fmt.Sscan(args[1], &least); err != nil {
			ts.Fatalf("await: %v", err)
		}
	}
	name := ts.MkAbs(args[0])
	for range 6000 {
		matches, _ := filepath.Glob(name)
		for _, m := range matches {
			if st, err := os.Stat(m); err == nil && st.Size() >= least {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s did not come", args[0])
}

// setfrom NAME FILE: sets the variable to the file's first word.
func setFrom(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: setfrom NAME FILE")
	}
	var word string
	if _, err := fmt.Sscan(ts.ReadFile(args[1]), &word); err != nil {
		ts.Fatalf("setfrom: %v", err)
	}
	ts.Setenv(args[0], word)
}

// freeport NAME: sets the variable to a port that nobody listens on but whom the script starts.
func freePort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: freeport NAME")
	}
	port, release, err := reservePort()
	if err != nil {
		ts.Fatalf("freeport: %v", err)
	}
	ts.Defer(release)
	ts.Setenv(args[0], fmt.Sprint(port))
}

// reservePort binds a port of 127.0.0.1 without listening: the kernel gives it to nobody who wants any, and lets those bind
// who ask for it and may share it, as Go's listeners may.
func reservePort() (port int, release func(), err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, err
	}
	release = func() { unix.Close(fd) }
	err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, named := unix.Getsockname(fd)
	if err := errors.Join(err, named); err != nil {
		release()
		return 0, nil, err
	}
	return at.(*unix.SockaddrInet4).Port, release, nil
}

func TestReservePort(t *testing.T) {
	port, release, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	at := fmt.Sprintf("127.0.0.1:%d", port)
	if _, err := net.Dial("tcp", at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("before anybody listens: %v", err)
	}
	for range 2 { // one after the other
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := net.Listen("tcp", at); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("a second listener: %v", err)
		}
		l.Close()
	}
}

// awaitport PORT: waits until somebody listens there.
func awaitPort(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: awaitport PORT")
	}
	for range 6000 {
		c, err := net.Dial("tcp", "127.0.0.1:"+args[0])
		if err == nil {
			c.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("nobody listens on %s", args[0])
}

// gone FILE: waits until no process runs that was started as FILE. running FILE waits for one.
func gone(ts *testscript.TestScript, neg bool, args []string) { awaitProcess(ts, neg, args, false) }

func running(ts *testscript.TestScript, neg bool, args []string) { awaitProcess(ts, neg, args, true) }

func awaitProcess(ts *testscript.TestScript, neg bool, args []string, want bool) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: gone FILE, running FILE")
	}
	name := ts.MkAbs(args[0])
	for range 6000 {
		if (processes(name) > 0) == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s: running is %v", name, !want)
}

// random FILE BYTES: makes a file that does not compress, the same every time.
func random(ts *testscript.TestScript, neg bool, args []string) {
	var n int
	if neg || len(args) != 2 {
		ts.Fatalf("usage: random FILE BYTES")
	}
	if _, err := fmt.Sscan(args[1], &n); err != nil {
		ts.Fatalf("random: %v", err)
	}
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o644))
}

// badPeer misbehaves. badpeer HOW FILE is a TCP server, which writes its port to FILE;
// badpeer client-HOW ADDRESS connects, says its piece and leaves.
func badPeer(args []string) int {
	if len(args) != 2 {
		return 2
	}
	if how, ok := strings.CutPrefix(args[0], "client-"); ok {
		c, err := net.Dial("tcp", args[1])
		if err != nil {
			return 1
		}
		misbehave(c, how)
		return 0
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	defer l.Close()
	// Written whole or not at all: the script reads it as soon as it is there.
	tmp := args[1] + ".tmp"
	port := fmt.Appendf(nil, "%d\n", l.Addr().(*net.TCPAddr).Port)
	if err := errors.Join(os.WriteFile(tmp, port, 0o600), os.Rename(tmp, args[1])); err != nil {
		return 1
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		go misbehave(c, args[0])
	}
}

func misbehave(c net.Conn, how string) {
	defer c.Close()
	reply := append([]byte("MPA ID Rep Frame"), 0x40, 1, 0, 0)
	switch how {
	case "http": // another protocol
		io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
		io.Copy(io.Discard, c) // whoever closes with input unread takes back what it has said
	case "hangup":
	case "halfmpa": // stops within MPA's first frame
		c.Write(reply[:9])
		c.SetReadDeadline(time.Now().Add(3 * time.Second))
		io.Copy(io.Discard, c)
	case "halfheader", "halfclose": // accepts, stops within the header of its first FPDU, and waits or goes
		buf := make([]byte, 4096)
		n, _ := c.Read(buf)
		if n > len(reply) {
			c.Write(append(reply[:16], buf[16:n]...)) // agrees to whatever was asked
		}
		c.Read(buf)
		c.Write([]byte{0, 60, 0x41, 0x43, 0, 0})
		if how == "halfheader" {
			io.Copy(io.Discard, c)
		}
	default: // "silent": accepts on TCP and says nothing
		io.Copy(io.Discard, c)
	}
}
