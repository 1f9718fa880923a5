package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Addresses of the lab's network: a namespace of its own, so that they clash with nobody's.
const (
	host4 = "10.78.0.1"
	host6 = "fd78::1"
)

// lab is the private network with everything that runs in it.
type lab struct {
	cache string // what setup.sh made
	out   string // what this run leaves
	ns    string
	bin   string // our programs, static

	lock   *os.File
	guests map[string]*guest
}

// openLab takes the first namespace that no other run uses.
func openLab(cache string) (*lab, error) {
	for i := 1; i < 9; i++ {
		ns := "rpcrdma-interop"
		if i > 1 {
			ns = fmt.Sprintf("%s-%d", ns, i)
		}
		out := filepath.Join(cache, "run", ns)
		if err := os.MkdirAll(out, 0o755); err != nil {
			return nil, err
		}
		f, err := os.Create(out + ".lock")
		if err != nil {
			return nil, err
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			f.Close()
			continue
		}
		l := &lab{cache: cache, out: out, ns: ns, lock: f, bin: filepath.Join(out, "bin"), guests: map[string]*guest{}}
		l.netDown() // of a run that was killed
		if err := os.RemoveAll(out); err != nil {
			return nil, err
		}
		return l, os.MkdirAll(l.bin, 0o755)
	}
	return nil, fmt.Errorf("eight other runs hold the lab")
}

func (l *lab) netUp() error {
	_ = run("ip", "netns", "add", l.ns)
	for _, c := range []string{
		"ip link set lo up",
		"ip link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
		"ip addr add " + host4 + "/24 dev br0",
		"ip addr add " + host6 + "/64 dev br0 nodad",
		// One segment a packet: what leaves this machine looks as on a wire, too.
		"ip link set br0 gso_max_segs 1",
		"ip link set br0 up",
	} {
		if err := run(l.inside(strings.Fields(c)...)...); err != nil {
			return err
		}
	}
	return nil
}

// netDown ends what runs in the namespace, which is all ours, and removes it.
func (l *lab) netDown() {
	if pids, err := exec.Command("ip", "netns", "pids", l.ns).Output(); err == nil {
		for _, p := range strings.Fields(string(pids)) {
			_ = run("kill", "-9", p)
		}
	}
	_ = exec.Command("ip", "netns", "del", l.ns).Run()
}

func (l *lab) close() {
	for _, g := range l.guests {
		g.kill()
	}
	l.netDown()
	l.lock.Close()
}

// inside is a command line that runs in the namespace.
func (l *lab) inside(argv ...string) []string {
	return append([]string{"ip", "netns", "exec", l.ns}, argv...)
}

// command is argv in the namespace; it does not outlive us.
func (l *lab) command(ctx context.Context, argv ...string) *exec.Cmd {
	argv = l.inside(argv...)
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return c
}

func run(argv ...string) error {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// sniffer is a capture in progress.
type sniffer struct {
	cmd  *exec.Cmd
	file string
	errs *os.File
}

// sniff captures what passes the bridge. Packets wait in a large ring, because a loaded
// machine lets tcpdump sleep; each takes up as much of it as the longest may, so that is set low.
// Without the immediate mode, what came last would still be with the kernel at the end.
func (l *lab) sniff(file string) (*sniffer, error) {
	errs, err := os.Create(file + ".log")
	if err != nil {
		return nil, err
	}
	s := &sniffer{cmd: l.command(context.Background(), "tcpdump", "-i", "br0", "-s", "2048", "--immediate-mode", "-U", "-B", "65536", "-Z", "root", "-w", file, "tcp"), file: file, errs: errs}
	s.cmd.Stderr = errs
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	err = until(10*time.Second, func() bool {
		b, _ := os.ReadFile(errs.Name())
		return bytes.Contains(b, []byte("listening on"))
	})
	return s, err
}

// stop ends the capture and reports how many packets the kernel dropped.
func (s *sniffer) stop() (dropped string) {
	time.Sleep(200 * time.Millisecond) // the last packets are on their way to the file
	_ = s.cmd.Process.Signal(syscall.SIGINT)
	_ = s.cmd.Wait()
	s.errs.Close()
	b, _ := os.ReadFile(s.errs.Name())
	for line := range strings.Lines(string(b)) {
		if n, ok := strings.CutSuffix(strings.TrimSpace(line), " packets dropped by kernel"); ok && n != "0" {
			return n
		}
	}
	return ""
}

// until waits for what to hold.
func until(d time.Duration, what func() bool) error {
	for end := time.Now().Add(d); !what(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("not within %v", d)
		}
	}
	return nil
}
