package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"reflect"
	"slices"
	"syscall"
	"time"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/extensions"
)

// dieWithParent: the kernel ends the child when the thread that started it ends; Go's
// threads last as long as the process, unless a goroutine locked to one exits.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// serverChild is the server's process.
type serverChild struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	enc      *json.Encoder
	dec      *json.Decoder
	urls     []string // of the store, then of each tree
	extended string   // where properties are exchanged
	ctx      context.Context
}

func startServer(ctx context.Context, o Options, store string, trees []string, plugin extensions.Spec) (*serverChild, error) {
	cmd, in, out, err := o.command(ctx, "server")
	if err != nil {
		return nil, err
	}
	s := &serverChild{cmd: cmd, in: in, enc: json.NewEncoder(in), dec: json.NewDecoder(out), ctx: ctx}
	cfg := serverConfig{Listen: o.Listen, Exports: []export{{Dir: store}}, Inline: o.Inline, Credits: o.Credits,
		Extensions: append(slices.Clone(o.Extensions), plugin)}
	for _, t := range trees {
		cfg.Exports = append(cfg.Exports, export{Dir: t, ReadOnly: true})
	}
	var ready serverReady
	err = s.enc.Encode(cfg)
	if err == nil {
		err = s.dec.Decode(&ready)
	}
	if err == nil && ready.Error != "" {
		err = plainError("server", ready.Error)
	}
	if err != nil {
		s.stop()
		return nil, why(ctx, fmt.Errorf("start the server: %w", err))
	}
	s.urls, s.extended = ready.URLs, ready.Extended
	return s, nil
}

// counters are the server's totals. Connections that have just ended are given time to be counted.
func (s *serverChild) counters() (obs.Counters, error) {
	time.Sleep(50 * time.Millisecond)
	state, err := s.state()
	return state.Counters, err
}

func (s *serverChild) state() (state serverState, err error) {
	if err := s.enc.Encode(struct{}{}); err != nil {
		return state, why(s.ctx, fmt.Errorf("the server's process is gone: %w", err))
	}
	if err := s.dec.Decode(&state); err != nil {
		return state, why(s.ctx, err)
	}
	return state, nil
}

// stop ends the server in order; its exit status tells whether it could.
func (s *serverChild) stop() error {
	s.in.Close()
	if err := s.cmd.Wait(); err != nil {
		return why(s.ctx, fmt.Errorf("the server's process: %w", err))
	}
	return nil
}

// runClient runs one pass in a process of its own.
func runClient(ctx context.Context, o Options, cfg clientConfig, tell func(string, int64, int64)) (*passResult, error) {
	cmd, in, out, err := o.command(ctx, "client")
	if err != nil {
		return nil, err
	}
	var result *passResult
	var said error
	err = json.NewEncoder(in).Encode(cfg)
	in.Close()
	for dec := json.NewDecoder(out); err == nil; {
		var line clientLine
		if err = dec.Decode(&line); err != nil {
			break
		}
		switch {
		case line.Error != "":
			said = plainError("client", line.Error)
		case line.Result != nil:
			result = line.Result
		default:
			tell(line.Step, line.Done, line.Total)
		}
	}
	ended := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case said != nil:
		return nil, said
	case result == nil:
		return nil, errors.Join(errors.New("the client's process ended without a result"), ended)
	}
	return result, ended
}

// minus is what was counted between two snapshots, without gauges.
func minus(after, before obs.Counters) obs.Counters {
	after, before = after.Totals(), before.Totals()
	a, b := reflect.ValueOf(&after).Elem(), reflect.ValueOf(before)
	for i := range a.NumField() {
		a.Field(i).SetUint(a.Field(i).Uint() - b.Field(i).Uint())
	}
	return after
}
