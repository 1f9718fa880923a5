package extensions

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/extensions/host"
)

// Spec names an extension to load.
type Spec struct {
	// Name is the extension's own, as it declares it.
	Name string
	// Path is its executable's, absolute; empty: it is compiled in.
	Path string
	// SHA256 is the digest of the executable, 64 hexadecimal digits; Digest computes it. Only with a Path, and then needed.
	SHA256 string
	// Timeout is how long the first exchange of properties of a new connection waits for what a plugin offers. Default
	// 200 ms, at most 1 s.
	Timeout time.Duration
	// Required: the program does not start without it. One that gates connections must be.
	Required bool
	// Options are the extension's own.
	Options map[string]string
}

// Options are Load's.
type Options struct {
	// Log takes warnings, and what plugins say. Default slog.Default().
	Log *slog.Logger
	// StartTimeout is how long each plugin may take until it has declared itself; they start at the same time. Default 10 s.
	StartTimeout time.Duration
	// RunDir is the folder for the plugins' sockets. Default $XDG_RUNTIME_DIR, else that of temporary files.
	RunDir string
}

// Error is an extension that cannot be loaded: one line. A plugin that does not start is a *host.StartError instead, two that
// claim the same a *ext.ClashError, a declaration that cannot be loaded a *ext.DeclareError.
type Error struct {
	Name string
	Path string // empty: compiled in
	Err  error
}

func (e *Error) Error() string {
	if e.Path != "" {
		return fmt.Sprintf("extension %q (%s): %v", e.Name, e.Path, e.Err)
	}
	return fmt.Sprintf("extension %q: %v", e.Name, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Health is how an extension fares.
type Health struct {
	Name    string
	Version string
	Path    string // empty: compiled in
	State   string // one of States

	// Err is why it is not loaded.
	Err error
	// Plugin has a plugin's counts; zero else.
	Plugin host.Health
}

const (
	builtIn   = "compiled in"
	notLoaded = "not loaded"
)

// States are all that Health.State can be: "compiled in", that of a plugin ("up", "restarting", "quarantined", "closed"), or
// "not loaded".
func States() []string {
	return []string{builtIn, host.Up.String(), host.Restarting.String(), host.Quarantined.String(), host.Closed.String(), notLoaded}
}

// Loaded are the extensions of a program.
type Loaded struct {
	set   *ext.Set
	slots []*slot
}

// slot is a Spec and what became of it.
type slot struct {
	spec   Spec
	x      ext.Extension
	decl   ext.Declaration
	plugin *host.Plugin // x, where it is one
	err    error
}

// Load loads what specs name. It starts plugins at the same time, and returns when all have started or failed. An error
// joins all that is wrong, a line each; nothing runs then.
func Load(ctx context.Context, specs []Spec, o Options) (*Loaded, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	l := &Loaded{}
	var wg sync.WaitGroup
	for i, spec := range specs {
		s := &slot{spec: spec}
		l.slots = append(l.slots, s)
		if slices.ContainsFunc(specs[:i], func(o Spec) bool { return o.Name == spec.Name }) {
			s.err = &Error{spec.Name, spec.Path, errors.New("it is named twice")}
			continue
		}
		wg.Go(func() { s.start(ctx, o) })
	}
	wg.Wait()
	err := l.settle(o.Log)
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (s *slot) start(ctx context.Context, o Options) {
	var err error
	switch {
	case s.spec.Path == "" && s.spec.SHA256 != "":
		err = errors.New("it has a sha256 and no path")
	case s.spec.Path == "":
		s.x, err = compiledIn(s.spec.Name, s.spec.Options)
	default:
		s.plugin, s.err = host.Start(ctx, host.Config{
			Name: s.spec.Name, Path: s.spec.Path, SHA256: s.spec.SHA256, Options: s.spec.Options, Timeout: s.spec.Timeout,
			StartTimeout: o.StartTimeout, RunDir: o.RunDir, Log: o.Log,
		})
		s.x = s.plugin
	}
	if err != nil {
		s.err = &Error{s.spec.Name, s.spec.Path, err}
	}
	if s.err == nil {
		s.decl = s.x.Declare()
	}
}

// settle makes the set of those that work together. One that is not required gives way: first those that have failed by
// themselves, then, clash by clash, the later one of the two that may.
func (l *Loaded) settle(log *slog.Logger) error {
	var errs []error
	for _, s := range l.slots {
		if err := CheckGate(s.spec, s.decl); err != nil {
			errs = append(errs, err)
			continue
		}
		if s.err == nil {
			continue
		}
		if s.spec.Required {
			errs = append(errs, s.err)
			continue
		}
		s.skip(s.err, log)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for {
		var xs []ext.Extension
		for _, s := range l.slots {
			if s.err == nil {
				xs = append(xs, s.x)
			}
		}
		set, err := ext.NewSet(xs...)
		if err == nil {
			l.set = set
			return nil
		}
		s, why := l.giveWay(err)
		if s == nil {
			return err
		}
		s.skip(why, log)
	}
}

// giveWay finds one that is not required among those that an error of NewSet's names.
func (l *Loaded) giveWay(err error) (*slot, error) {
	for _, err := range unjoin(err) {
		var clash *ext.ClashError
		var bad *ext.DeclareError
		var names []string
		if errors.As(err, &clash) {
			names = []string{clash.A, clash.B}
		} else if errors.As(err, &bad) {
			names = []string{bad.Name}
		}
		for _, s := range slices.Backward(l.slots) {
			if s.err == nil && !s.spec.Required && slices.Contains(names, s.spec.Name) {
				return s, &Error{s.spec.Name, s.spec.Path, err}
			}
		}
	}
	return nil, nil
}

func (s *slot) skip(why error, log *slog.Logger) {
	log.Warn("the program goes on without an extension", "extension", s.spec.Name, "error", why)
	s.err = why
	if s.plugin != nil {
		s.plugin.Close()
	}
}

// Set is what to give to clients and listeners (rpc.WithExtensions).
func (l *Loaded) Set() *ext.Set { return l.set }

// Health tells how the extensions fare, in the order in which they were named.
func (l *Loaded) Health() []Health {
	all := make([]Health, 0, len(l.slots))
	for _, s := range l.slots {
		h := Health{Name: s.spec.Name, Version: s.decl.Version, Path: s.spec.Path, State: builtIn, Err: s.err}
		switch {
		case s.err != nil:
			h.State = notLoaded
		case s.plugin != nil:
			h.Plugin = s.plugin.Health()
			h.State = h.Plugin.State.String()
		}
		all = append(all, h)
	}
	return all
}

// Close ends all plugins at once: each is asked to end, and killed after 2 s. Close connections first.
func (l *Loaded) Close() error {
	var wg sync.WaitGroup
	for _, s := range l.slots {
		if s.plugin != nil {
			wg.Go(s.plugin.Close)
		}
	}
	wg.Wait()
	return nil
}

// Digest is the SHA-256 of an executable, as a Spec names it. The error says what keeps the file from being a plugin.
func Digest(path string) (string, error) {
	d, err := host.Digest(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

func unjoin(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}
