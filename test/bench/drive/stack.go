package drive

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rpcrdma/rpcrdma/test/bench/load"
	"github.com/rpcrdma/rpcrdma/test/bench/peers"
)

// stack is a running peer: its client's process, and its server's if it has one.
type stack struct {
	name           string
	callers        int
	server, client *process
	dead           error
}

// start runs both processes of a peer, of the build that program is; "" is this one. pin is "", or "server,client" CPUs.
func start(program, name, pin string) (*stack, error) {
	def, err := peers.Find(name)
	if err != nil {
		return nil, err
	}
	self := program
	if self == "" {
		if self, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	var cpus [2]string
	if pin != "" {
		var ok bool
		if cpus[0], cpus[1], ok = strings.Cut(pin, ","); !ok {
			return nil, fmt.Errorf("pin %q: want two CPUs, server,client", pin)
		}
	}
	s, addr := &stack{name: name, callers: def.Callers}, "-"
	if def.Serve != nil {
		if s.server, addr, err = spawn(cpus[0], self, "child", name, "serve"); err != nil {
			return nil, fmt.Errorf("%s server: %w", name, err)
		}
	}
	if s.client, _, err = spawn(cpus[1], self, "child", name, "client", addr); err != nil {
		s.server.stop()
		return nil, fmt.Errorf("%s client: %w", name, err)
	}
	return s, nil
}

func (s *stack) stop() {
	s.client.stop()
	s.server.stop()
}

// warm is the unmeasured run before each measured one.
const warm = 30

// measure runs w once.
func (s *stack) measure(w Workload, ms int) (Sample, error) {
	run := load.Run{Op: w.Op, N: w.N, Callers: w.Callers, MS: warm}
	if _, err := s.client.ask(load.Request{Run: &run}); err != nil {
		return Sample{}, err
	}
	pids := []int{s.client.pid()}
	var before, after load.Result
	var err error
	if s.server != nil {
		pids = append(pids, s.server.pid())
		if before, err = s.server.ask(load.Request{Stat: true}); err != nil {
			return Sample{}, err
		}
	}
	var used time.Duration
	for _, pid := range pids {
		forget(pid)
		used -= cpu(pid)
	}
	run.MS = ms
	r, err := s.client.ask(load.Request{Run: &run})
	if err != nil {
		return Sample{}, err
	}
	var rss int64
	for _, pid := range pids {
		used += cpu(pid)
		rss += peak(pid)
	}
	if s.server != nil {
		if after, err = s.server.ask(load.Request{Stat: true}); err != nil {
			return Sample{}, err
		}
	}
	if r.Ops == 0 {
		return Sample{}, fmt.Errorf("not one operation within %d ms", ms)
	}
	ops := float64(r.Ops)
	return Sample{
		Rate:   ops / float64(r.NS) * 1e9,
		P50:    float64(r.P50) / 1e3,
		P99:    float64(r.P99) / 1e3,
		P999:   float64(r.P999) / 1e3,
		CPU:    float64(used) / 1e3 / ops,
		Allocs: float64(r.Mallocs+after.Mallocs-before.Mallocs) / ops,
		Bytes:  float64(r.Bytes+after.Bytes-before.Bytes) / ops,
		RSS:    float64(rss) / (1 << 20),
	}, nil
}

// Child is what a spawned process runs: child NAME serve, or child NAME client ADDR.
func Child(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("child: want NAME serve, or NAME client ADDR")
	}
	def, err := peers.Find(args[0])
	if err != nil {
		return err
	}
	if args[1] == "serve" {
		addr, err := def.Serve()
		return load.Serve(os.Stdin, os.Stdout, addr, err)
	}
	return load.Client(os.Stdin, os.Stdout, def.Client(), args[len(args)-1])
}
