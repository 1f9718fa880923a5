package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/extensions/sdk"
	pb "github.com/rpcrdma/rpcrdma/extensions/sdk/extensionpb"
)

// Config says which plugin to run, and how.
type Config struct {
	// Name is the extension's, in the configuration and in its declaration.
	Name string
	// Path is the executable's, absolute; SHA256 its digest, 64 hexadecimal digits.
	Path, SHA256 string
	// Options are handed to it.
	Options map[string]string
	// Timeout is how long the first exchange of properties of a new connection waits for what the plugin offers.
	// Default 200 ms, at most 1 s.
	Timeout time.Duration
	// StartTimeout is how long it may take from its start to its declaration. Default 10 s.
	StartTimeout time.Duration
	// RunDir is the folder that the folders of sockets are made in. Default $XDG_RUNTIME_DIR, else that of
	// temporary files.
	RunDir string
	// Log takes what the host says of the plugin, and what the plugin says. Default slog.Default().
	Log *slog.Logger
}

// Defaults of Config.
const (
	DefaultTimeout      = 200 * time.Millisecond
	MaxTimeout          = time.Second
	DefaultStartTimeout = 10 * time.Second
)

// What becomes of a plugin that fails. It is started again after BackoffFirst, twice that the next time, BackoffMost at last; from
// the beginning once it has run for QuarantineWindow. Failing Failures times within that, or sending nonsense MaxStrikes
// times, it is quarantined: the program does without it until it is started anew.
const (
	BackoffFirst     = 100 * time.Millisecond
	BackoffMost      = 10 * time.Second
	Failures         = 5
	QuarantineWindow = time.Minute
	MaxStrikes       = 32
	// PingEvery is how often a plugin is asked whether it lives; PingMisses in a row end it.
	PingEvery  = 5 * time.Second
	PingMisses = 2
	// stopBudget is how long a plugin may take to end when asked; then it is killed.
	stopBudget = 2 * time.Second
)

// StartError is a plugin that cannot be loaded: one line.
type StartError struct {
	Name, Path string
	// Err is what is wrong; a *DigestError where it is the digest.
	Err error
	// Said are the last lines that it wrote to standard error, quoted, or "".
	Said string
}

func (e *StartError) Error() string {
	s := fmt.Sprintf("extension %q (%s): %v", e.Name, e.Path, e.Err)
	if e.Said != "" {
		s += "; it last wrote " + e.Said
	}
	return s
}

func (e *StartError) Unwrap() error { return e.Err }

// State is how a plugin fares.
type State uint8

const (
	Up          State = iota
	Restarting        // its process has ended, the next is to come
	Quarantined       // it has failed too often
	Closed            // by Close
)

func (s State) String() string {
	switch s {
	case Up:
		return "up"
	case Restarting:
		return "restarting"
	case Quarantined:
		return "quarantined"
	case Closed:
		return "closed"
	}
	return "unknown"
}

// Health is how a plugin fares, for people and metrics. Counts are of all its processes.
type Health struct {
	State       State
	PID         int // 0: no process
	Protocol    int // version of the plugin protocol
	Restarts    uint64
	Connections int
	Waiting     int    // events that it has not taken
	Dropped     uint64 // events that found its queue full
	Late        uint64 // answers after their deadline
	Nonsense    uint64 // commands that no SDK sends
	LinesLost   uint64 // of its log
	LastError   string
}

// Plugin is an extension in a process of its own, to the engine an ext.Extension. When its process ends it is started
// again; it is the same extension as long as file and declaration are the same.
type Plugin struct {
	c     Config
	log   *slog.Logger
	tune  tune
	first *pb.Declaration // as its first process sent it
	decl  ext.Declaration
	queue int // events of a connection that may wait

	dropped, late, struck, linesLost atomic.Uint64

	quit chan struct{} // closed by Close
	once sync.Once
	done chan struct{} // the supervisor has returned

	mu       sync.Mutex
	proc     *process // nil: none that serves
	state    State
	restarts uint64
	lastErr  error
}

// tune is what tests change.
type tune struct {
	versions      []int
	ping          time.Duration
	backoff, most time.Duration
	failures      int
	window        time.Duration
	checked       func() // between the digest and the execution
}

// Start starts a plugin and returns when it has declared itself. The error is a *StartError, or ctx's within one.
func Start(ctx context.Context, c Config) (*Plugin, error) { return start(ctx, c, tune{}) }

func start(ctx context.Context, c Config, t tune) (*Plugin, error) {
	c.Timeout = min(orDefault(c.Timeout, DefaultTimeout), MaxTimeout)
	c.StartTimeout = orDefault(c.StartTimeout, DefaultStartTimeout)
	if c.Log == nil {
		c.Log = slog.Default()
	}
	t.ping = orDefault(t.ping, PingEvery)
	t.backoff, t.most = orDefault(t.backoff, BackoffFirst), orDefault(t.most, BackoffMost)
	t.window = orDefault(t.window, QuarantineWindow)
	t.failures = orDefault(t.failures, Failures)
	if t.versions == nil {
		t.versions = []int{sdk.PreviousVersion, sdk.Version}
	}
	p := &Plugin{c: c, log: c.Log.With("extension", c.Name), tune: t, quit: make(chan struct{}), done: make(chan struct{})}
	x, err := p.start(ctx)
	if err != nil {
		return nil, err
	}
	p.first, p.decl = x.decl, x.decl.Ext()
	p.queue = orDefault(p.decl.Limits.Queue, 64)
	x.run()
	p.proc = x
	go p.supervise(x)
	return p, nil
}

// Declare implements ext.Extension.
func (p *Plugin) Declare() ext.Declaration { return p.decl }

// Connect implements ext.Extension. While the plugin is down it is nil: the connection is as if it were not loaded.
func (p *Plugin) Connect(c ext.Conn) ext.Session {
	p.mu.Lock()
	x := p.proc
	p.mu.Unlock()
	if x == nil {
		return nil
	}
	return x.connect(c)
}

// Health tells how it fares.
func (p *Plugin) Health() Health {
	p.mu.Lock()
	h := Health{State: p.state, Restarts: p.restarts, Dropped: p.dropped.Load(), Late: p.late.Load(), Nonsense: p.struck.Load(), LinesLost: p.linesLost.Load()}
	if p.lastErr != nil {
		h.LastError = p.lastErr.Error()
	}
	x := p.proc
	p.mu.Unlock()
	if x == nil {
		return h
	}
	h.PID, h.Protocol = x.child.number(), x.version
	x.mu.Lock()
	sessions := make([]*session, 0, len(x.sessions))
	for _, s := range x.sessions {
		sessions = append(sessions, s)
	}
	x.mu.Unlock()
	h.Connections = len(sessions)
	for _, s := range sessions {
		s.mu.Lock()
		h.Waiting += s.waiting
		s.mu.Unlock()
	}
	return h
}

// Close ends the plugin: it is asked to, and killed after 2 s. Connections that it still has go on without it.
func (p *Plugin) Close() {
	p.once.Do(func() { close(p.quit) })
	<-p.done
}

// supervise keeps a process running: the first is x.
func (p *Plugin) supervise(x *process) {
	defer close(p.done)
	backoff := p.tune.backoff
	var failed []time.Time
	for {
		began := time.Now()
		why, closing := p.await(x)
		p.unserve(why)
		x.end(closing)
		x.lines.flush()
		if closing {
			p.set(Closed, nil)
			return
		}
		var bad *nonsense
		final := errors.As(why, &bad)
		if !final { // how it ended says more than what was seen of it first
			why = errors.New(x.child.how(why.Error()))
		}
		if time.Since(began) >= p.tune.window {
			backoff = p.tune.backoff
		}
		err := p.failure(why, x.lines)
		for x = nil; x == nil; {
			now := time.Now()
			failed = append(slices.DeleteFunc(failed, func(t time.Time) bool { return now.Sub(t) > p.tune.window }), now)
			if final || len(failed) >= p.tune.failures {
				p.quarantine(err, final)
				return
			}
			p.set(Restarting, err)
			p.log.Warn("the extension's process has ended and is started again", "in", backoff, "error", err)
			if !p.sleep(backoff) {
				p.set(Closed, nil)
				return
			}
			backoff = min(2*backoff, p.tune.most)
			x, err, final = p.again()
		}
		p.serve(x)
		p.log.Info("the extension's process runs again", "pid", x.child.number())
	}
}

// await waits for the end of a process, or for ours.
func (p *Plugin) await(x *process) (why error, closing bool) {
	select {
	case <-p.quit:
		return nil, true
	case <-x.child.exited:
		return errors.New(x.child.how("it has ended")), false
	case why = <-x.failed:
	}
	var bad *nonsense
	if errors.As(why, &bad) {
		return why, false
	}
	// Its stream ends just before it does; how it ended says more.
	select {
	case <-p.quit:
		return nil, true
	case <-x.child.exited:
		return errors.New(x.child.how(why.Error())), false
	case <-time.After(drain):
		return why, false
	}
}

// again starts a process, which must be what the first one was. final: there is no use in trying once more.
func (p *Plugin) again() (x *process, err error, final bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-p.quit:
			cancel()
		case <-ctx.Done():
		}
	}()
	x, err = p.start(ctx)
	if err != nil {
		var digest *DigestError
		return nil, err, errors.As(err, &digest)
	}
	if !proto.Equal(x.decl, p.first) {
		x.end(false)
		return nil, p.failure(errors.New("its declaration is not what it was before its restart"), x.lines), true
	}
	return x, nil, false
}

// quarantine does without the plugin.
func (p *Plugin) quarantine(err error, final bool) {
	p.set(Quarantined, err)
	if final {
		p.log.Error("the extension is quarantined until this program is restarted", "error", err)
	} else {
		p.log.Error("the extension has failed too often and is quarantined until this program is restarted",
			"failures", p.tune.failures, "within", p.tune.window, "error", err)
	}
	<-p.quit
	p.set(Closed, nil)
}

func (p *Plugin) serve(x *process) {
	x.run()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restarts++
	p.proc, p.state = x, Up
}

// unserve has new connections begin without the plugin.
func (p *Plugin) unserve(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proc = nil
	if why != nil {
		p.state, p.lastErr = Restarting, why
	}
}

func (p *Plugin) set(s State, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = s
	if err != nil {
		p.lastErr = err
	}
}

func (p *Plugin) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.quit:
		return false
	}
}

// failure is what is wrong, as a user reads it.
func (p *Plugin) failure(err error, l *lines) error {
	e := &StartError{Name: p.c.Name, Path: p.c.Path, Err: err}
	if l != nil {
		e.Said = l.quoted()
	}
	return e
}

// op finds an operation that the plugin has declared.
func (p *Plugin) op(name string) *ext.Op {
	for i := range p.decl.Ops {
		if p.decl.Ops[i].Name == name {
			return &p.decl.Ops[i]
		}
	}
	return nil
}

// due is when an answer to a message is late; zero where none is wanted.
func (p *Plugin) due(m ext.Message) time.Time {
	op := p.op(m.Op)
	if m.Token == 0 || op == nil {
		return time.Time{}
	}
	return time.Now().Add(orDefault(op.Deadline, time.Second))
}

func orDefault[T int | time.Duration](v, or T) T {
	if v <= 0 {
		return or
	}
	return v
}

func sorted(v []int) []int {
	v = slices.Clone(v)
	slices.Sort(v)
	return v
}
