package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/extensions"
	"github.com/rpcrdma/rpcrdma/props"
)

// extendedConfig is the first line that the process reads which exchanges properties. A second one ends its traffic.
type extendedConfig struct {
	URL        string            `json:"url"`
	Extensions []extensions.Spec `json:"extensions"`
	Credits    int               `json:"credits"`
}

// extendedLine is what it prints: that its traffic is up, and at the end the result.
type extendedLine struct {
	Traffic bool            `json:"traffic,omitempty"`
	Result  *extendedResult `json:"result,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// extendedResult is what the client saw.
type extendedResult struct {
	Version uint32   `json:"version"`
	Server  []string `json:"server"` // the server's properties, as the client has them
	Client  []string `json:"client"` // the client's properties, as the server has them

	Asked  []asked `json:"asked"`  // in one REQPROP, while calls were made
	Larger []asked `json:"larger"` // receives, in the next one
	// Before and After are the bytes of the server's receives, before the request and when its UPDPROP had come.
	Before uint32 `json:"before"`
	After  uint32 `json:"after"`
	Raise  calls  `json:"raise"` // meanwhile
	// Long and Inline are the messages of an echo of 16 KiB before and after.
	Long   obs.Counters `json:"long"`
	Inline obs.Counters `json:"inline"`

	Kill  calls   `json:"kill"`  // made while the plugin was killed
	Again []asked `json:"again"` // of its successor, on a new connection
}

// asked is a change that was asked for, and its answer.
type asked struct {
	What   string `json:"what"`
	Answer string `json:"answer"`
}

// calls are those of many callers at once.
type calls struct {
	Made   uint64 `json:"made"`
	Failed uint64 `json:"failed"`
	First  string `json:"first,omitempty"` // why the first failed
}

const (
	manyCallers = 64

	extendedInline = 4096 // to begin with
	bigEcho        = 16 << 10
	raisedSize     = 64 << 10
)

// names are the properties of the demo.
var names = props.NewNames(demoProps()...)

// ExtendedClient is the process of the client that exchanges properties.
func ExtendedClient(ctx context.Context, in io.Reader, out, errs io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("demo: nothing to exchange properties with")
	}
	var cfg extendedConfig
	if err := json.Unmarshal(lines.Bytes(), &cfg); err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	loaded, carrier, err := load(ctx, cfg.Extensions, errs)
	if err == nil {
		defer loaded.Close()
		e := extended{cfg: cfg, loaded: loaded, props: carrier}
		err = e.run(ctx, func() error {
			err := enc.Encode(extendedLine{Traffic: true})
			lines.Scan() // we are told, or our parent is gone
			return err
		})
		if err == nil {
			return enc.Encode(extendedLine{Result: &e.result})
		}
	}
	return errors.Join(err, enc.Encode(extendedLine{Error: err.Error()}))
}

// load loads extensions for one of the demo's processes. carrier is the one among them that exchanges properties.
func load(ctx context.Context, specs []extensions.Spec, errs io.Writer) (l *extensions.Loaded, carrier *props.Extension, err error) {
	l, err = extensions.Load(ctx, specs, extensions.Options{Log: slog.New(slog.NewTextHandler(errs, &slog.HandlerOptions{Level: slog.LevelError}))})
	if err != nil {
		return nil, nil, err
	}
	for i := range l.Set().Len() {
		if p, ok := l.Set().At(i).(*props.Extension); ok {
			carrier = p
		}
	}
	return l, carrier, nil
}

type extended struct {
	cfg    extendedConfig
	loaded *extensions.Loaded
	props  *props.Extension
	result extendedResult
}

// run exchanges properties, asks for changes under load, and makes calls until traffic returns.
func (e *extended) run(ctx context.Context, traffic func() error) error {
	c, err := e.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	r := &e.result
	if r.Server, r.Client, r.Version, err = e.views(ctx, c); err != nil {
		return err
	}
	if r.Long, err = echoCounted(ctx, c); err != nil {
		return err
	}
	if r.Raise, err = underLoad(ctx, c, bigEcho, func() error { return e.raise(ctx, c) }); err != nil {
		return err
	}
	if r.Inline, err = echoCounted(ctx, c); err != nil {
		return err
	}
	if r.Kill, err = underLoad(ctx, c, 1<<10, traffic); err != nil {
		return err
	}
	again, err := e.dial(ctx)
	if err != nil {
		return err
	}
	defer again.Close()
	r.Again, err = e.ask(ctx, again, "colour=3")
	return err
}

// dial makes a connection, and a call on it.
func (e *extended) dial(ctx context.Context) (*rpc.Client, error) {
	c, err := rpc.NewClient(e.cfg.URL, rpc.WithVersions(2, 2), rpc.WithInline(extendedInline), rpc.WithCredits(e.cfg.Credits),
		rpc.WithExtensions(e.loaded.Set()), rpc.WithRetransmits(-1))
	if err != nil {
		return nil, err
	}
	if err := echoOnce(ctx, c, 1); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// conn is the client's one connection.
func conn(c *rpc.Client) (uint64, error) {
	conns := c.Conns()
	if len(conns) == 0 {
		return 0, errors.New("the connection has ended")
	}
	return conns[0].ID(), nil
}

// views waits for the exchange and tells what either side has of the other.
func (e *extended) views(ctx context.Context, c *rpc.Client) (server, client []string, version uint32, err error) {
	id, err := conn(c)
	if err != nil {
		return nil, nil, 0, err
	}
	if err := e.props.Wait(ctx, id); err != nil {
		return nil, nil, 0, err
	}
	snap, err := e.props.Peer(id)
	if err != nil {
		return nil, nil, 0, err
	}
	var v seen
	err = c.Call(ctx, seenProc, nil, &v)
	return texts(snap), v.values, c.Conns()[0].Version(), err
}

// texts are the values of a snapshot, by the names that the demo knows.
func texts(s props.Snapshot) (all []string) {
	for _, v := range s.Values {
		p := names.ByID(v.ID)
		name := p.Name
		if name == "" {
			name = fmt.Sprint(v.ID)
		}
		text := name + "=" + props.FormatValue(p, v.Data)
		if !v.Listed {
			text += " (default)"
		}
		all = append(all, text)
	}
	return all
}

// ask asks for changes in one REQPROP.
func (e *extended) ask(ctx context.Context, c *rpc.Client, changes ...string) (all []asked, err error) {
	id, err := conn(c)
	if err != nil {
		return nil, err
	}
	if err := e.props.Wait(ctx, id); err != nil {
		return nil, err
	}
	asks := make([]props.Asking, len(changes))
	for i, s := range changes {
		if asks[i].ID, asks[i].Value, err = names.Parse(s); err != nil {
			return nil, err
		}
	}
	answers, err := e.props.AskAll(ctx, id, asks)
	for i, a := range answers {
		text := a.Change.Kind.String()
		switch {
		case a.Err != nil:
			text += ": " + a.Err.Error()
		case a.Change.Kind == ext.Other:
			text = props.FormatValue(names.ByID(asks[i].ID), a.Change.Value) + " instead"
		}
		all = append(all, asked{changes[i], text})
	}
	return all, err
}

// raise asks for changes, among them larger receives, and waits until the server has announced those.
func (e *extended) raise(ctx context.Context, c *rpc.Client) (err error) {
	id, err := conn(c)
	if err != nil {
		return err
	}
	size := func() (n uint32, err error) {
		snap, err := e.props.Peer(id)
		if err != nil {
			return 0, err
		}
		v, _ := snap.Get(props.RBSIZ)
		return props.ReceiveSize.Decode(v.Data)
	}
	r := &e.result
	if r.Before, err = size(); err != nil {
		return err
	}
	if r.Asked, err = e.ask(ctx, c, "colour=5", "depth=64", "pace=1"); err != nil {
		return err
	}
	if r.Larger, err = e.ask(ctx, c, fmt.Sprintf("rbsiz=%d", raisedSize)); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for r.After < raisedSize && wait.Err() == nil && err == nil {
		time.Sleep(time.Millisecond)
		r.After, err = size()
	}
	return err
}

// underLoad has many callers echo n bytes while f runs: before it begins each has been answered once, and once more when it has
// returned.
func underLoad(ctx context.Context, c *rpc.Client, n int, f func() error) (calls, error) {
	var (
		r       calls
		mu      sync.Mutex
		running sync.WaitGroup
		all     sync.WaitGroup
		stop    atomic.Bool
	)
	running.Add(manyCallers)
	for range manyCallers {
		all.Go(func() {
			for i := 0; ; i++ {
				last := stop.Load()
				err := echoOnce(ctx, c, n)
				mu.Lock()
				r.Made++
				if err != nil {
					if r.Failed++; r.First == "" {
						r.First = err.Error()
					}
				}
				mu.Unlock()
				if i == 0 {
					running.Done()
				}
				if last || err != nil {
					return
				}
			}
		})
	}
	running.Wait()
	err := f()
	stop.Store(true)
	all.Wait()
	return r, err
}

func echoOnce(ctx context.Context, c *rpc.Client, n int) error {
	e := echoCall{data: make([]byte, n), want: 1}
	if err := c.Call(ctx, echoProc, &e, &e); err != nil {
		return err
	}
	if len(e.got) != 1 {
		return fmt.Errorf("an echo of 1 byte has %d", len(e.got))
	}
	return nil
}

// echoCounted makes one call of bigEcho bytes and tells what it added to the counters.
func echoCounted(ctx context.Context, c *rpc.Client) (obs.Counters, error) {
	before := c.Counters()
	err := echoOnce(ctx, c, bigEcho)
	return minus(c.Counters(), before), err
}

// seenProc asks the server what it has of its client's properties.
var seenProc = &rpc.Proc{Program: echoProgram, Version: echoVersion, Number: 3, Name: "SEEN", Idempotent: true}

func seenMethod(carrier *props.Extension) rpc.Method {
	return rpc.Method{Proc: seenProc, Handler: func(ctx context.Context, r *rpc.Request) error {
		id := r.Peer().Conn().ID()
		if err := carrier.Wait(ctx, id); err != nil {
			return err
		}
		snap, err := carrier.Peer(id)
		if err != nil {
			return err
		}
		all := texts(snap)
		r.Results.Uint32(uint32(len(all)))
		for _, s := range all {
			r.Results.String(s)
		}
		return nil
	}}
}

// seen is its result.
type seen struct{ values []string }

func (s *seen) UnmarshalXDR(r *xdr.Reader) {
	for range min(r.Uint32(), 64) {
		s.values = append(s.values, r.String(1<<10))
	}
}
