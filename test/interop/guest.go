package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// guest is a virtual machine. It runs scripts, several at once if asked to.
type guest struct {
	name       string
	addr, six  string
	dir, share string // share is /host in the guest
	tap        string
	lab        *lab
	qemu       *exec.Cmd
	over       chan struct{} // closed when qemu has ended

	line net.Conn // the second serial line: numbers of scripts in, their ends out
	mon  net.Conn // qemu's monitor

	mu      sync.Mutex // guards what follows
	n       int
	waiting map[int]chan int
}

// guestIDs are the last octets of guests' addresses.
var guestIDs = map[string]int{"cli": 3, "srv": 2}

// boot starts a guest and waits until it takes scripts. keep leaves its disk as it was at its end.
func (l *lab) boot(name string, keep bool) (*guest, error) {
	id := guestIDs[name]
	g := &guest{name: name, addr: fmt.Sprintf("10.78.0.%d", id), six: fmt.Sprintf("fd78::%d", id), tap: "tap-" + name, lab: l,
		dir: filepath.Join(l.out, "guest."+name), over: make(chan struct{}), waiting: map[int]chan int{}}
	g.share = filepath.Join(g.dir, "share")
	if err := os.MkdirAll(g.share, 0o777); err != nil {
		return nil, err
	}
	disk := filepath.Join(g.dir, "disk.img")
	if !keep {
		if err := run("cp", "--sparse=always", filepath.Join(l.cache, "disk.img"), disk); err != nil {
			return nil, err
		}
	}
	if err := run("cp", filepath.Join(l.bin, "work"), g.share); err != nil {
		return nil, err
	}
	env := fmt.Sprintf("GUEST=%s\nADDR4=%s\nADDR6=%s\nexport GUEST ADDR4 ADDR6\n", name, g.addr, g.six)
	if err := os.WriteFile(filepath.Join(g.share, "env"), []byte(env), 0o644); err != nil {
		return nil, err
	}
	_ = run(l.inside("ip", "link", "del", g.tap)...)
	for _, c := range []string{"ip tuntap add dev " + g.tap + " mode tap", "ip link set " + g.tap + " master br0 up"} {
		if err := run(l.inside(strings.Fields(c)...)...); err != nil {
			return nil, err
		}
	}
	// We listen and qemu connects, so that not a byte is said to nobody.
	ends := map[string]net.Listener{}
	for _, what := range []string{"line", "mon"} {
		p := filepath.Join(g.dir, what)
		os.Remove(p)
		s, err := net.Listen("unix", p)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		ends[what] = s
	}
	// Without offloads the capture shows what a wire would.
	const plain = "mrg_rxbuf=off,gso=off,host_tso4=off,host_tso6=off,host_ecn=off,host_ufo=off,guest_tso4=off,guest_tso6=off," +
		"guest_ecn=off,guest_ufo=off,csum=off,guest_csum=off"
	console := filepath.Join(g.dir, "console.log")
	_ = os.Rename(console, console+".before")
	g.qemu = l.command(context.Background(), "qemu-system-x86_64", "-M", "pc", "-accel", "tcg,thread=multi", "-cpu", "max",
		"-m", "512", "-smp", "1", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", filepath.Join(l.cache, "kernel/vmlinux"), "-initrd", filepath.Join(l.cache, "initrd"),
		"-append", "console=ttyS0 quiet loglevel=6 panic=-1 mitigations=off nokaslr tsc=reliable no_timer_check "+
			"random.trust_cpu=on audit=0 selinux=0 apparmor=0 raid=noautodetect",
		"-chardev", "file,id=con,path="+console, "-serial", "chardev:con",
		"-chardev", "socket,id=line,path="+filepath.Join(g.dir, "line"), "-serial", "chardev:line",
		"-chardev", "socket,id=mon,path="+filepath.Join(g.dir, "mon"), "-mon", "chardev=mon,mode=readline",
		"-netdev", "tap,id=net,ifname="+g.tap+",script=no,downscript=no,vhost=off",
		"-device", fmt.Sprintf("virtio-net-pci,id=nic,netdev=net,mac=52:54:00:78:00:%02x,romfile=,%s", id, plain),
		"-fsdev", "local,id=host,path="+g.share+",security_model=none,multidevs=remap", "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
		"-drive", "file="+disk+",if=none,id=disk,format=raw,cache=writeback", "-device", "virtio-blk-pci,drive=disk")
	errs, err := os.Create(filepath.Join(g.dir, "qemu.log"))
	if err != nil {
		return nil, err
	}
	g.qemu.Stdout, g.qemu.Stderr = errs, errs
	if err := g.qemu.Start(); err != nil {
		return nil, err
	}
	go func() { _ = g.qemu.Wait(); errs.Close(); close(g.over) }()
	for what, s := range ends {
		_ = s.(*net.UnixListener).SetDeadline(time.Now().Add(20 * time.Second))
		c, err := s.Accept()
		if err != nil {
			g.kill()
			return nil, fmt.Errorf("qemu does not start, see %s: %w", errs.Name(), err)
		}
		if what == "line" {
			g.line = c
		} else {
			g.mon = c
			go io.Copy(io.Discard, c) //nolint:errcheck // its prompts
		}
	}
	ready := make(chan struct{})
	go g.listen(ready)
	select {
	case <-ready:
	case <-g.over:
		return nil, fmt.Errorf("guest %s ended while booting, see %s", name, console)
	case <-time.After(90 * time.Second):
		g.kill()
		return nil, fmt.Errorf("guest %s does not boot, see %s", name, console)
	}
	l.guests[name] = g
	return g, nil
}

// listen reads the ends of scripts.
func (g *guest) listen(ready chan struct{}) {
	for r := bufio.NewScanner(g.line); r.Scan(); {
		var n, status int
		if strings.Contains(r.Text(), "ready") {
			close(ready)
		} else if _, err := fmt.Sscanf(r.Text(), "end %d %d", &n, &status); err == nil {
			g.mu.Lock()
			c := g.waiting[n]
			delete(g.waiting, n)
			g.mu.Unlock()
			if c != nil {
				c <- status
			}
		}
	}
}

// job is a script that runs in a guest.
type job struct {
	g   *guest
	n   int
	end chan int
}

func (g *guest) start(script string) (*job, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n++
	j := &job{g, g.n, make(chan int, 1)}
	if err := os.WriteFile(filepath.Join(g.share, fmt.Sprintf("%d.sh", j.n)), []byte(script), 0o644); err != nil {
		return nil, err
	}
	g.waiting[j.n] = j.end
	_, err := fmt.Fprintf(g.line, "%d\n", j.n)
	return j, err
}

var errGuestDied = errors.New("the guest has ended")

// wait returns what the script printed; the error tells a status other than 0.
func (j *job) wait(d time.Duration) (string, error) {
	var err error
	select {
	case status := <-j.end:
		if status != 0 {
			err = fmt.Errorf("the script in guest %s ended with %d", j.g.name, status)
		}
	case <-j.g.over:
		err = fmt.Errorf("%s: %w", j.g.name, errGuestDied)
	case <-time.After(d):
		err = fmt.Errorf("the script in guest %s takes longer than %v", j.g.name, d)
	}
	return j.output(), err
}

func (j *job) output() string {
	b, _ := os.ReadFile(filepath.Join(j.g.share, fmt.Sprintf("%d.out", j.n)))
	return string(b)
}

func (g *guest) run(d time.Duration, script string) (string, error) {
	j, err := g.start(script)
	if err != nil {
		return "", err
	}
	return j.wait(d)
}

// link pulls the guest's cable, or puts it back.
func (g *guest) link(up bool) error {
	state := "off"
	if up {
		state = "on"
	}
	_, err := fmt.Fprintf(g.mon, "set_link nic %s\n", state)
	return err
}

// kill is the power switch.
func (g *guest) kill() {
	delete(g.lab.guests, g.name)
	if g.qemu.Process != nil {
		_ = g.qemu.Process.Kill()
		<-g.over
	}
	if g.line != nil {
		g.line.Close()
	}
	if g.mon != nil {
		g.mon.Close()
	}
	_ = run(g.lab.inside("ip", "link", "del", g.tap)...)
}
