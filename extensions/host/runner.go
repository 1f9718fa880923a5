package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is the process of a plugin: go-plugin's runner.Runner. Of go-plugin's own it differs in what the process is:
//   - it executes the open file whose digest was compared;
//   - it has /dev/null as standard input, and no more of our environment than go-plugin's own variables and PATH;
//   - it leads a process group, which is killed as one, and dies with us, even if we are killed;
//   - its standard error is ours to read: go-plugin's reader can be made to panic by a line of JSON.
type child struct {
	path   string // as configured: argv[0], and in errors
	file   *os.File
	stderr io.Writer

	// Set before Start.
	env []string
	dir string // of its socket

	stdout *pipe // our end

	pid  int
	mu   sync.Mutex
	kill bool // by us
	dead bool // reaped, or about to be: its number may be another's

	exited chan struct{} // closed when the process has ended, and its standard error has been read
	err    error         // how it ended; after exited
}

// drain is how long the standard output and error of a dead plugin may be kept open by others.
const drain = 500 * time.Millisecond

// maxLeft bounds what is read of a pipe after that: the most that a pipe holds, which is all that the plugin can have left.
const maxLeft = 1 << 20

// pipe is our end of a pipe from a plugin. Past its read deadline it still gives what is there, and then ends: however late we
// come to read it, nothing is lost that a plugin has written before it ended.
type pipe struct {
	*os.File
	left int
}

func (p *pipe) Read(b []byte) (n int, err error) {
	if n, err = p.File.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	raw, err := p.SyscallConn()
	if err != nil {
		return 0, err
	}
	b = b[:min(len(b), p.left)]
	control := raw.Control(func(fd uintptr) {
		for n, err = unix.Read(int(fd), b); err == unix.EINTR; n, err = unix.Read(int(fd), b) {
		}
	})
	if control != nil || err != nil || n <= 0 {
		return 0, io.EOF
	}
	p.left -= n
	return n, nil
}

func newChild(path string, file *os.File, stderr io.Writer) *child {
	return &child{path: path, file: file, stderr: stderr, exited: make(chan struct{})}
}

// Start implements runner.Runner.
func (c *child) Start(context.Context) error {
	outR, outW, err := os.Pipe()
	if err != nil {
		return err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		outR.Close()
		outW.Close()
		return err
	}
	started := make(chan error)
	go func() {
		// The kernel sends the death signal when the thread that forked ends: it is kept until the process is dead.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		cmd := &exec.Cmd{
			Path: runPath(c.file), Args: []string{c.path}, Env: c.env, Dir: "/", Stdout: outW, Stderr: errW,
			SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
		}
		err := c.begin(cmd)
		outW.Close()
		errW.Close()
		if err != nil {
			outR.Close()
			errR.Close()
			c.err = err
			close(c.exited)
			started <- err
			return
		}
		c.stdout = &pipe{outR, maxLeft}
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(c.stderr, struct{ io.Reader }{&pipe{errR, maxLeft}})
			errR.Close()
		}()
		started <- nil
		// Once it is dead, and before its number is free, what it has started itself is killed.
		for unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
		c.bury()
		err = cmd.Wait()
		// What escaped from the group may hold our pipes.
		_ = outR.SetReadDeadline(time.Now().Add(drain))
		_ = errR.SetReadDeadline(time.Now().Add(drain))
		<-read
		c.err = err
		close(c.exited)
	}()
	return <-started
}

// Wait implements runner.Runner.
func (c *child) Wait(context.Context) error {
	<-c.exited
	return c.err
}

// Kill implements runner.Runner.
func (c *child) Kill(context.Context) error {
	c.killGroup()
	return nil
}

// begin starts the process, unless it has been killed already.
func (c *child) begin(cmd *exec.Cmd) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kill {
		return context.Canceled
	}
	err := cmd.Start()
	if err == nil {
		c.pid = cmd.Process.Pid
	}
	return err
}

// killGroup ends the plugin's processes. One that has ended by itself was not killed by us, even if nobody has noticed yet.
func (c *child) killGroup() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dead {
		c.kill = c.kill || !c.zombie()
		if c.pid > 0 {
			_ = syscall.Kill(-c.pid, syscall.SIGKILL)
		}
	}
}

// zombie tells whether the process has ended and waits to be reaped. c.mu is held, and it is not dead.
func (c *child) zombie() bool {
	if c.pid == 0 {
		return false
	}
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, c.pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
		if err != unix.EINTR {
			return err == nil && info.Signo != 0
		}
	}
}

// bury kills what a dead process has left in its group, whose number is still its own.
func (c *child) bury() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = syscall.Kill(-c.pid, syscall.SIGKILL)
	c.dead = true
}

// close ends what go-plugin leaves open; nobody reads any more.
func (c *child) close() {
	if c.stdout != nil {
		c.stdout.Close()
	}
}

// Stdout implements runner.Runner.
func (c *child) Stdout() io.ReadCloser { return c.stdout }

// Stderr implements runner.Runner: it has been read here.
func (c *child) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name implements runner.Runner.
func (c *child) Name() string { return c.path }

// ID implements runner.Runner.
func (c *child) ID() string {
	if pid := c.number(); pid != 0 {
		return strconv.Itoa(pid)
	}
	return ""
}

func (c *child) number() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid
}

// Diagnose implements runner.Runner.
func (c *child) Diagnose(context.Context) string { return "" }

// PluginToHost implements runner.Runner: it refuses to be sent elsewhere than to the plugin's own socket.
func (c *child) PluginToHost(network, address string) (string, string, error) {
	if network != "unix" || filepath.Dir(address) != c.dir {
		return "", "", fmt.Errorf("its handshake names %s %q, not a socket of its own", printable(network), printable(address))
	}
	return network, address, nil
}

// HostToPlugin implements runner.Runner.
func (c *child) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// how tells how the process has ended; where it was us who ended it, or it has not, otherwise.
func (c *child) how(otherwise string) string {
	select {
	case <-c.exited:
	default:
		return otherwise
	}
	c.mu.Lock()
	killed := c.kill
	c.mu.Unlock()
	var e *exec.ExitError
	switch {
	case c.err == nil:
		return "it exited with status 0"
	case killed && errors.As(c.err, &e) && e.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		return otherwise
	case errors.As(c.err, &e) && e.Sys().(syscall.WaitStatus).Signaled():
		return "it was ended by signal: " + e.Sys().(syscall.WaitStatus).Signal().String()
	case errors.As(c.err, &e):
		return fmt.Sprintf("it exited with status %d", e.ExitCode())
	}
	return c.err.Error()
}
