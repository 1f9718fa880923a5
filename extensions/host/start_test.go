package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/extensions/sdk"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// TestRefused: each plugin that cannot be loaded is told of in one line, which names it, its path, what is wrong
// and what it last wrote; and nothing of it is left.
func TestRefused(t *testing.T) {
	tests := []struct {
		mode string
		want []string
	}{
		{"junk", []string{`it wrote "hello, I am a plugin?[2J" to standard output, where its handshake belongs`, `it last wrote "about to print where I should not"`}},
		{"version", []string{"it speaks version 9 of the plugin protocol, this program [1 2]"}},
		{"crash", []string{"it exited with status 3 before its handshake", `"no licence found"`, `{\"@level\":\"error\",\"@message\":42}`}},
		{"elsewhere", []string{`its handshake names tcp "127.0.0.1:1", not a socket of its own`}},
		{"netrpc", []string{"it does not speak gRPC"}},
		{"payload", []string{"it is of class payload", "compile it in"}},
		{"reserved", []string{"property 1: its id is reserved to the basic properties"}},
		{"name", []string{`it calls itself "other"`}},
		{"refuses", []string{`option size "big" is no number`}},
		{"panics", []string{"it exited with status 2", `"panic: no good`}},
		{"oldcarrier", []string{"it carries properties, which version 1 of the plugin protocol cannot"}},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			c := executable(t, tt.mode)
			c.Options = map[string]string{"size": "big"}
			c.RunDir = t.TempDir()
			wantRefused(t, c, tune{}, tt.want)
		})
	}
}

// TestHangsAtStart: what does not come up is killed after StartTimeout, wherever it hangs.
func TestHangsAtStart(t *testing.T) {
	for mode, said := range map[string]string{"hang": `"waiting for Godot"`, "slowmake": "", "deaf": ""} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := executable(t, mode)
			c.RunDir = t.TempDir()
			c.StartTimeout = 3 * time.Second
			err := refusal(t, c, tune{})
			for c.StartTimeout < time.Minute && !strings.Contains(err.Error(), said) { // it has not come as far as where it hangs
				c.StartTimeout *= 2
				err = refusal(t, c, tune{})
			}
			wantIn(t, c, err, []string{fmt.Sprintf("it did not come up within %v", c.StartTimeout), said})
		})
	}
}

func wantRefused(t *testing.T, c Config, u tune, want []string) {
	t.Helper()
	wantIn(t, c, refusal(t, c, u), want)
}

// refusal is the error of a start that must fail.
func refusal(t *testing.T, c Config, u tune) error {
	t.Helper()
	p, err := start(context.Background(), c, u)
	if err == nil {
		p.Close()
		t.Fatal("it has been loaded")
	}
	return err
}

// wantIn checks what a refusal says, and leaves.
func wantIn(t *testing.T, c Config, err error, want []string) {
	t.Helper()
	var s *StartError
	if !errors.As(err, &s) {
		t.Errorf("%T is no StartError", err)
	}
	for _, w := range append(want, `extension "acme" (`+c.Path+`): `) {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v\nlacks %s", err, w)
		}
	}
	if strings.ContainsAny(err.Error(), "\n\r\x1b") {
		t.Errorf("more than a line: %q", err)
	}
	if left, _ := os.ReadDir(c.RunDir); c.RunDir != "" && len(left) > 0 {
		t.Errorf("%v is left in the run folder", left)
	}
}

// TestFile: what is wrong with the executable.
func TestFile(t *testing.T) {
	ok := executable(t, "ok")
	zeros := strings.Repeat("0", 64)
	in := func(dirMode os.FileMode) string {
		dir := filepath.Join(t.TempDir(), "d")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "x"), []byte("of no format"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, dirMode); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, "x")
	}
	mode := func(m os.FileMode) string {
		path := in(0o755)
		if err := os.Chmod(path, m); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(in(0o777), link); err != nil {
		t.Fatal(err)
	}
	garbled, script := mode(0o755), mode(0o755)
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	foreign := mode(0o755)
	if os.Geteuid() == 0 {
		if err := os.Chown(foreign, 12345, 0); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, path, sha256, want string
	}{
		{"none", "/nowhere/x", zeros, "no such file or directory"},
		{"relative", "rpcrdma-ext-x", zeros, "its path is not absolute"},
		{"folder", filepath.Dir(ok.Path), zeros, "it is not a regular file"},
		{"fifo", fifo, zeros, "it is not a regular file"},
		{"device", "/dev/null", zeros, "it is not a regular file"},
		{"not executable", mode(0o644), zeros, "it is not executable: chmod +x it"},
		{"everybody's", mode(0o757), zeros, "it can be written by everybody: chmod o-w it"},
		{"folder everybody's", in(0o777), zeros, "can be written by everybody: chmod o-w it"},
		{"folder everybody's, by link", link, zeros, "can be written by everybody: chmod o-w it"},
		{"no digest", ok.Path, "", `its sha256 "" is not 64 hexadecimal digits`},
		{"short digest", ok.Path, "abcd", `its sha256 "abcd" is not 64 hexadecimal digits`},
		{"digest", ok.Path, zeros, "its SHA-256 is " + ok.SHA256 + ", the configuration says " + zeros},
		{"script", script, zeros, "it is a script: a plugin is a binary"},
		{"format", garbled, digest(t, garbled), "it cannot be executed: exec format error"},
	}
	if os.Geteuid() == 0 {
		tests = append(tests, struct{ name, path, sha256, want string }{"another's", foreign, zeros, "it belongs to user 12345"})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := Config{Name: "acme", Path: tt.path, SHA256: tt.sha256, RunDir: t.TempDir()}
			wantRefused(t, c, tune{}, []string{tt.want})
		})
	}
	t.Run("sticky folder", func(t *testing.T) {
		if _, err := Digest(in(0o777 | os.ModeSticky)); err != nil {
			t.Errorf("in a sticky folder of ours nobody can replace it, but: %v", err)
		}
	})
	t.Run("upper case", func(t *testing.T) {
		f, err := openChecked(ok.Path, strings.ToUpper(ok.SHA256))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	})
}

// TestSwapped: what is executed is what was checked, even where the path leads to another file by then.
func TestSwapped(t *testing.T) {
	c, other := executable(t, "ok"), executable(t, "crash")
	swap := func() {
		if err := os.Rename(other.Path, c.Path); err != nil {
			t.Error(err)
		}
		// The same bytes under another name would not show it.
		if err := os.Remove(c.Path); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(c.Path, []byte("#!/bin/sh\nexit 9\n"), 0o755); err != nil {
			t.Error(err)
		}
	}
	u := fast
	u.checked = swap
	p := mustStart(t, c, u)
	e, s := connect(t, p)
	s.Message(message(1, "hello"))
	e.want("answer 1 2 hello")
}

// TestSurroundings: what a plugin has of ours.
func TestSurroundings(t *testing.T) {
	t.Setenv("SECRET", "of the program's")
	c := executable(t, "ok-and-more")
	c.Options = map[string]string{"size": "12"}
	c.RunDir = t.TempDir()
	p := mustStart(t, c, fast)
	e, s := connect(t, p)
	s.Message(message(1, "stdin"))
	e.want("answer 1 2 /dev/null")
	s.Message(message(2, "option size"))
	e.want("answer 2 2 12")
	s.Message(message(3, "comm"))
	e.want("answer 3 2 ext-ok-and-more")
	s.Message(message(4, "environ"))
	wait.For(t, "an answer", func() bool { e.mu.Lock(); defer e.mu.Unlock(); return len(e.log) > 0 })
	env := e.log[0]
	if strings.Contains(env, "SECRET") || !strings.Contains(env, "PLUGIN_CLIENT_CERT=") {
		t.Errorf("its environment is\n%s", env)
	}
	for _, v := range regexp.MustCompile(`(?m)^[A-Z_]+=`).FindAllString(strings.TrimPrefix(env, "answer 4 2 "), -1) {
		if v = strings.TrimSuffix(v, "="); !strings.HasPrefix(v, "PLUGIN_") && !slices.Contains([]string{"PATH", "PWD", sdk.Handshake.MagicCookieKey}, v) {
			t.Errorf("it has %s", v)
		}
	}
	// Its socket is gone as soon as we are connected: nobody else can be, and nothing is left of a program that is killed.
	if dirs, err := os.ReadDir(c.RunDir); err != nil || len(dirs) != 0 {
		t.Errorf("%v in the run folder, %v", dirs, err)
	}
}

// TestRunDir: the folder of a socket is our user's alone. What a program that was killed has left is removed by the next, and
// what is in use is not.
func TestRunDir(t *testing.T) {
	parent := t.TempDir()
	used, err := newRunDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	if i, err := os.Stat(used.path); err != nil || i.Mode().Perm() != 0o700 {
		t.Errorf("it has mode %v, %v", i.Mode(), err)
	}
	left, err := newRunDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	left.lock.Close() // as the kernel does for the dead
	for _, d := range []*runDir{used, left} {
		if err := os.Chtimes(d.path, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	next, err := newRunDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left.path); !os.IsNotExist(err) {
		t.Errorf("what is left was not removed: %v", err)
	}
	if _, err := os.Stat(used.path); err != nil {
		t.Errorf("what is in use: %v", err)
	}
	used.remove()
	next.remove()
	if dirs, _ := os.ReadDir(parent); len(dirs) != 0 {
		t.Errorf("%v is left", dirs)
	}
}

// TestByHand: a person who runs a plugin learns what to do with it.
func TestByHand(t *testing.T) {
	c := executable(t, "ok")
	out, err := exec.Command(c.Path).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 {
		t.Errorf("run by hand: %v", err)
	}
	for _, w := range []string{"does nothing when run by hand", `extension "ok" {`, c.Path, c.SHA256} {
		if !strings.Contains(string(out), w) {
			t.Errorf("no %q in\n%s", w, out)
		}
	}
}

// TestCancelled: Start ends with its context.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := executable(t, "hang")
	log := &wait.Log{}
	c.Log = log.Logger()
	started := make(chan error, 1)
	go func() {
		_, err := Start(ctx, c)
		started <- err
	}()
	wait.For(t, "its line in the log", func() bool { return strings.Contains(log.String(), "Godot") })
	cancel()
	if err := <-started; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled start: %v", err)
	}
}
