package host

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// ended tells whether a process has ended; a zombie has.
func ended(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(state, "Z")
}

// TestCrash: a process that ends takes its own operations with it, by their defaults, and is started again.
func TestCrash(t *testing.T) {
	for _, how := range []string{"crash", "panic", "kill", "stop"} {
		t.Run(how, func(t *testing.T) {
			u := fast
			if how == "stop" {
				u.ping = 2 * time.Second // in which a plugin that does live answers, on a busy machine too
			}
			p := mustStart(t, executable(t, "ok"), u)
			e, s := connect(t, p)
			s.Message(message(1, "silent"))
			s.Message(message(2, "attach it"))
			e.want("attach wrap true")
			e.want("answer 2 2 ")
			s.(ext.Owner).Requested(3, exp+5, []byte("silent"))
			pid := p.Health().PID
			if how == "kill" {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			} else {
				s.Message(message(4, how))
			}
			wait.For(t, "the default of an open question", func() bool { return e.has("answer 1 0 ") })
			wait.For(t, "the default of an open request", func() bool { return e.has("settle 3 rejected") })
			wait.For(t, "an end of what was attached", func() bool { return e.has("attach wrap false") })
			s.Message(message(5, "to the dead"))
			e.want("answer 5 0 ")
			s.(ext.Owner).PeerValue(exp+5, nil, true)
			s.Closed(nil)

			wait.For(t, "another process", func() bool { h := p.Health(); return h.State == Up && h.Restarts == 1 && h.PID != pid })
			if !ended(pid) {
				t.Error("the first process lives")
			}
			e, s = connect(t, p)
			s.Message(message(1, "again"))
			e.want("answer 1 2 again")
			want := map[string]string{"crash": "exited with status 4", "panic": "a message I did not like", "kill": "signal: killed", "stop": "pings"}[how]
			if h := p.Health(); !strings.Contains(h.LastError, want) {
				t.Errorf("the last error is %q", h.LastError)
			}
		})
	}
}

// TestGate: a connection that the plugin gates ends with it, unless it is open by then.
func TestGate(t *testing.T) {
	p := mustStart(t, executable(t, "gate"), fast)
	open, s := connect(t, p)
	s.Message(message(1, "open"))
	open.want("open")
	shut, _ := connect(t, p)
	_ = syscall.Kill(p.Health().PID, syscall.SIGKILL)
	shut.want(`fail extension "acme", which gates the connection, is down`)
	wait.For(t, "another process", func() bool { return p.Health().Restarts == 1 })
	open.mu.Lock()
	defer open.mu.Unlock()
	for _, l := range open.log {
		if strings.HasPrefix(l, "fail") {
			t.Errorf("an open connection: %s", l)
		}
	}
}

// TestDown: while it is down, new connections begin without it.
func TestDown(t *testing.T) {
	u := fast
	u.backoff, u.most = time.Hour, time.Hour
	p := mustStart(t, executable(t, "ok"), u)
	_ = syscall.Kill(p.Health().PID, syscall.SIGKILL)
	wait.For(t, "it is down", func() bool { return p.Health().State == Restarting })
	if s := p.Connect(&engine{t: t}); s != nil {
		t.Errorf("a session %v", s)
	}
}

// TestQuarantine: what fails too often, or cannot come back as it was, is not started any more.
func TestQuarantine(t *testing.T) {
	tests := []struct {
		mode, want string
	}{
		{"once", "exited with status 1"},
		{"changes", "its declaration is not what it was"},
		{"replaced", "its SHA-256 is"},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			c := executable(t, tt.mode)
			c.Options = map[string]string{"mark": filepath.Join(t.TempDir(), "mark")}
			log := &wait.Log{}
			c.Log = log.Logger()
			p := mustStart(t, c, fast)
			if tt.mode == "replaced" {
				if err := os.Remove(c.Path); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(c.Path, []byte("other"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			_ = syscall.Kill(p.Health().PID, syscall.SIGKILL)
			wait.For(t, "a quarantine", func() bool { return p.Health().State == Quarantined })
			if h := p.Health(); !strings.Contains(h.LastError, tt.want) || h.PID != 0 {
				t.Errorf("%+v", h)
			}
			if !strings.Contains(log.String(), "quarantined until this program is restarted") {
				t.Errorf("the log says nothing of it:\n%s", log)
			}
			if s := p.Connect(&engine{t: t}); s != nil {
				t.Error("a session of one in quarantine")
			}
		})
	}
}

// spawn has the plugin start a process, within its group or far from it.
func spawn(t *testing.T, e *engine, s ext.Session, where string) (pid int) {
	t.Helper()
	s.Message(message(1, "escape "+where))
	wait.For(t, "a child", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, l := range e.log {
			if n, err := strconv.Atoi(strings.TrimPrefix(l, "answer 1 2 ")); err == nil {
				pid, e.log = n, nil
			}
		}
		return pid != 0
	})
	return pid
}

// TestCrashWithChild: what a process that ends has started ends with it.
func TestCrashWithChild(t *testing.T) {
	p := mustStart(t, executable(t, "ok"), fast)
	e, s := connect(t, p)
	pid := spawn(t, e, s, "near")
	s.Message(message(2, "crash"))
	wait.For(t, "the end of the child", func() bool { return ended(pid) })
}

// TestClose: a plugin that does not end when asked is killed, and so is what it has started.
func TestClose(t *testing.T) {
	p := mustStart(t, executable(t, "ok"), fast)
	e, s := connect(t, p)
	near, far := spawn(t, e, s, "near"), spawn(t, e, s, "far")
	pid := p.Health().PID
	s.Message(message(2, "stop"))
	wait.For(t, "it has stopped", func() bool {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return strings.Contains(string(b), ") T ")
	})
	p.Close() // and returns, although the one that left its group keeps standard error open
	if !ended(pid) {
		t.Error("the plugin lives")
	}
	wait.For(t, "the end of its child", func() bool { return ended(near) }) // killed, and not ours to wait for
	_ = syscall.Kill(far, syscall.SIGKILL)
	if h := p.Health(); h.State != Closed {
		t.Errorf("%+v", h)
	}
}

// TestHostKilled: a plugin dies with the program, even where the program is killed, and nothing of it is left.
func TestHostKilled(t *testing.T) {
	c := executable(t, "ok")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^$")
	cmd.Env = append(os.Environ(), "RPCRDMA_TEST_HOST="+c.Path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || ended(pid) {
		t.Fatalf("the host's plugin is %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		t.Fatal(err)
	}
	wait.For(t, "the end of the plugin", func() bool { return ended(pid) })

	entries, err := os.ReadDir(filepath.Dir(c.Path)) // the host's run folder
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range entries {
		if d.IsDir() {
			t.Errorf("the folder %s is left", d.Name())
		}
	}
}
