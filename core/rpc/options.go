package rpc

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
)

// ClientOption sets up a Client: see NewClient.
type ClientOption interface {
	applyClient(*clientOptions) error
}

// ListenOption sets up a Listener and the connections that it accepts: see Listen.
type ListenOption interface {
	applyListen(*listenOptions) error
}

// ServerOption sets up a Server: see NewServer.
type ServerOption interface {
	applyServer(*serverOptions) error
}

// BackchannelOption sets up a Backchannel: see NewBackchannel.
type BackchannelOption interface {
	applyBackchannel(*callerOptions) error
}

// ConnOption concerns connections, those that a Client makes and those that a Listener accepts. It is a ClientOption and
// a ListenOption.
type ConnOption interface {
	ClientOption
	ListenOption
	applyConn(*connOptions) error
}

// CallerOption concerns calls. It is a ClientOption and a BackchannelOption.
type CallerOption interface {
	ClientOption
	BackchannelOption
}

// CommonOption is a ClientOption, a ListenOption and a ServerOption.
type CommonOption interface {
	ConnOption
	ServerOption
}

// ConnOptions is opts as one option. It lets a list of options that both ends share be used beside options of one end:
//
//	client, err := rpc.NewClient(url, rpc.ConnOptions(shared...), rpc.WithConnections(4))
func ConnOptions(opts ...ConnOption) ConnOption {
	return connOption(func(o *connOptions) error {
		return applied(opts, func(opt ConnOption) error { return opt.applyConn(o) })
	})
}

// OptionError is an option that cannot be used.
type OptionError struct {
	Option string // the function that made it: "WithCredits"
	Value  string // its argument, "" where that has no short form
	Want   string // what can be used instead
	Err    error  // the cause, or nil
}

func (e *OptionError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("rpc: %s: %s", e.Option, e.Want)
	}
	return fmt.Sprintf("rpc: %s(%s): want %s", e.Option, e.Value, e.Want)
}

func (e *OptionError) Unwrap() error { return e.Err }

// connOptions are what a connection is set up with, at either end.
type connOptions struct {
	resolver Resolver
	rdmaOptions
	tcpMax int
	log    *slog.Logger
}

// callerOptions are what calls are made with.
type callerOptions struct {
	auth    rpcmsg.ClientAuth
	retries int
	intercs []ClientInterceptor
}

type clientOptions struct {
	connOptions
	callerOptions
	conns    int
	losses   int
	lowPort  bool
	programs *Server // that the client serves

	endpoints *Endpoints
}

type listenOptions struct {
	connOptions
	backlog, connsMax, connsPeer int
	admit                        func(netip.Addr) bool // nil: all
	peerDomains                  int
}

type serverOptions struct {
	workers int
	servers []ServerInterceptor
	log     *slog.Logger
	replies ReplyCache
	flavors map[rpcmsg.Flavor]rpcmsg.ServerAuth
	// fallback names methods for calls of programs that are not registered; nil: there are none
	fallback func(*Request) (*Method, error)
}

// The kinds of options. Each is what its function sets.
type (
	connOption   func(*connOptions) error
	callerOption func(*callerOptions) error
	clientOption func(*clientOptions) error
	listenOption func(*listenOptions) error
	serverOption func(*serverOptions) error
	logOption    struct{ log *slog.Logger }
)

func (f connOption) applyConn(o *connOptions) error            { return f(o) }
func (f connOption) applyClient(o *clientOptions) error        { return f(&o.connOptions) }
func (f connOption) applyListen(o *listenOptions) error        { return f(&o.connOptions) }
func (f callerOption) applyClient(o *clientOptions) error      { return f(&o.callerOptions) }
func (f callerOption) applyBackchannel(o *callerOptions) error { return f(o) }
func (f clientOption) applyClient(o *clientOptions) error      { return f(o) }
func (f listenOption) applyListen(o *listenOptions) error      { return f(o) }
func (f serverOption) applyServer(o *serverOptions) error      { return f(o) }

func (l logOption) applyConn(o *connOptions) error     { return l.set(&o.log) }
func (l logOption) applyClient(o *clientOptions) error { return l.set(&o.log) }
func (l logOption) applyListen(o *listenOptions) error { return l.set(&o.log) }
func (l logOption) applyServer(o *serverOptions) error { return l.set(&o.log) }

func (l logOption) set(log **slog.Logger) error {
	if l.log == nil {
		return isNil("WithLog", "a logger")
	}
	*log = l.log
	return nil
}

// WithLog logs what ends connections and handlers that panic (servers), and extensions that panic and, where there are
// several routes to an address, which was taken and which were skipped (clients and listeners). Default: nothing is logged.
func WithLog(l *slog.Logger) CommonOption { return logOption{l} }

var noLog = slog.New(slog.DiscardHandler)

func newConnOptions() connOptions {
	return connOptions{resolver: Registered, log: noLog}
}

func newCallerOptions() callerOptions { return callerOptions{retries: 5} }

// applied calls apply with each of opts, until one is nil or cannot be used.
func applied[T any](opts []T, apply func(T) error) error {
	for i, opt := range opts {
		if any(opt) == nil {
			return noOption(i)
		}
		if err := apply(opt); err != nil {
			return err
		}
	}
	return nil
}

func newClientOptions(opts []ClientOption) (clientOptions, error) {
	o := clientOptions{connOptions: newConnOptions(), callerOptions: newCallerOptions(), conns: 1, losses: 5, endpoints: processEndpoints}
	if err := applied(opts, func(opt ClientOption) error { return opt.applyClient(&o) }); err != nil {
		return o, err
	}
	return o, o.settle()
}

func newListenOptions(opts []ListenOption) (listenOptions, error) {
	o := listenOptions{connOptions: newConnOptions(), connsMax: DefaultConnectionLimit, peerDomains: maxPeerDomains}
	if err := applied(opts, func(opt ListenOption) error { return opt.applyListen(&o) }); err != nil {
		return o, err
	}
	return o, o.settle()
}

func newServerOptions(opts []ServerOption) (serverOptions, error) {
	o := serverOptions{workers: 256, log: noLog}
	if err := applied(opts, func(opt ServerOption) error { return opt.applyServer(&o) }); err != nil {
		return o, err
	}
	return o, nil
}

func newBackchannelOptions(opts []BackchannelOption) (callerOptions, error) {
	o := newCallerOptions()
	if err := applied(opts, func(opt BackchannelOption) error { return opt.applyBackchannel(&o) }); err != nil {
		return o, err
	}
	return o, nil
}

// settle checks what no option can check for itself, and connects what belongs together.
func (o *connOptions) settle() error {
	return o.rdmaOptions.settle(o.log)
}

func noOption(i int) error {
	return &OptionError{Option: fmt.Sprintf("option %d", i+1), Value: "nil", Want: "one that a function of package rpc made"}
}

func isNil(option, want string) error {
	return &OptionError{Option: option, Value: "nil", Want: want}
}

// between checks that the argument of option is low to high.
func between(option string, n, low, high int) error {
	if low <= n && n <= high {
		return nil
	}
	return &OptionError{Option: option, Value: fmt.Sprint(n), Want: fmt.Sprintf("%d to %d", low, high)}
}

func atLeast(option string, n, low int) error {
	if n >= low {
		return nil
	}
	return &OptionError{Option: option, Value: fmt.Sprint(n), Want: fmt.Sprintf("%d or more", low)}
}

// orNever checks a time-out that is negative for never.
func orNever(option string, d time.Duration) error {
	if d != 0 {
		return nil
	}
	return &OptionError{Option: option, Value: "0", Want: "a time, or a negative one for never"}
}
