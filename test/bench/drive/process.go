package drive

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rpcrdma/rpcrdma/test/bench/load"
)

// process is a child that speaks load's lines.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// patience is how long a child may take beyond what it was asked to measure.
const patience = 20 * time.Second

// spawn starts argv, on one CPU if cpu is not "", and returns the address it announces.
func spawn(cpu string, argv ...string) (*process, string, error) {
	if cpu != "" {
		argv = append([]string{"taskset", "-c", cpu}, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	p := &process{cmd, in, bufio.NewReader(out)}
	var ready load.Ready
	if err := p.line(&ready, patience); err != nil {
		p.stop()
		return nil, "", err
	}
	if ready.Error != "" {
		p.stop()
		return nil, "", errors.New(ready.Error)
	}
	return p, ready.Addr, nil
}

// line reads one line into v. A child that does not answer in time is told to print its
// goroutines and end.
func (p *process) line(v any, wait time.Duration) error {
	late := time.AfterFunc(wait, func() { p.cmd.Process.Signal(syscall.SIGQUIT) })
	b, err := p.out.ReadBytes('\n')
	if !late.Stop() {
		return fmt.Errorf("no answer within %v", wait)
	}
	if err != nil {
		return fmt.Errorf("the process ended: %w", err)
	}
	return json.Unmarshal(b, v)
}

func (p *process) ask(q load.Request) (r load.Result, err error) {
	wait := patience
	if q.Run != nil {
		wait += time.Duration(q.Run.MS) * time.Millisecond
	}
	b, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	if _, err := p.in.Write(append(b, '\n')); err != nil {
		return r, err
	}
	if err := p.line(&r, wait); err != nil {
		return r, err
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

func (p *process) stop() {
	if p == nil {
		return
	}
	p.in.Close()
	late := time.AfterFunc(3*time.Second, func() { p.cmd.Process.Kill() })
	_ = p.cmd.Wait() // it ends as it likes: all it had to say was said
	late.Stop()
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// cpu is the user and system time that a process has used, from its CPU clock.
func cpu(pid int) time.Duration {
	var ts unix.Timespec
	clock := ^int32(pid)<<3 | 2 // CPUCLOCK_SCHED of a process, see clock_getcpuclockid(3)
	if unix.ClockGettime(clock, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// peak is the most memory that a process has had resident since forget, in bytes.
func peak(pid int) int64 { return status(pid, "VmHWM:") }

// resident is the memory that a process has now, in bytes.
func resident(pid int) int64 { return status(pid, "VmRSS:") }

func status(pid int, line string) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	var kib int64
	if _, rest, ok := strings.Cut(string(b), line); ok {
		fmt.Sscan(rest, &kib)
	}
	return kib << 10
}

func forget(pid int) { _ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) }
