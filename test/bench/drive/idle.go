package drive

import (
	"fmt"
	"time"

	"github.com/rpcrdma/rpcrdma/test/bench/load"
)

// Idle is what connections cost that nobody uses just now.
type Idle struct {
	Peer        string
	Connections int
	// Client and Server are KiB of resident memory a connection, after one call on each and once both
	// processes have given back what they could.
	Client, Server float64
	Error          string `json:",omitempty"`
}

// settle is how long connections are left alone before memory is looked at.
const settle = 2 * time.Second

// MeasureIdle opens n connections of a peer and looks at both processes before and after.
func MeasureIdle(name string, n int) Idle {
	r := Idle{Peer: name, Connections: n}
	if err := r.measure(); err != nil {
		r.Error = err.Error()
	}
	return r
}

func (r *Idle) measure() error {
	s, err := start("", r.Peer, "")
	if err != nil {
		return err
	}
	defer s.stop()
	if s.server == nil {
		return fmt.Errorf("%s has no process for its server", r.Peer)
	}
	run := load.Run{Op: load.Echo, N: 64, Callers: 1, MS: warm}
	if _, err := s.client.ask(load.Request{Run: &run}); err != nil {
		return err
	}
	look := func() (client, server int64, err error) {
		time.Sleep(settle)
		for _, p := range []*process{s.client, s.server} {
			if _, err := p.ask(load.Request{Stat: true, Free: true}); err != nil {
				return 0, 0, err
			}
		}
		return resident(s.client.pid()), resident(s.server.pid()), nil
	}
	client, server, err := look()
	if err != nil {
		return err
	}
	if _, err := s.client.ask(load.Request{Idle: r.Connections}); err != nil {
		return err
	}
	client2, server2, err := look()
	if err != nil {
		return err
	}
	per := func(before, after int64) float64 { return float64(after-before) / 1024 / float64(r.Connections) }
	r.Client, r.Server = per(client, client2), per(server, server2)
	return nil
}
