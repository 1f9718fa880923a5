package rpc

import (
	"context"
	"log/slog"
	"time"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Option sets up a Client, a Listener or a Server; each says where it counts.
type Option func(*options)

// ClientOption, ListenOption and ServerOption name where an Option is meant for.
type (
	ClientOption = Option
	ListenOption = Option
	ServerOption = Option
)

type options struct {
	engine   engine.Config
	memory   engine.EndpointConfig
	auth     rpcmsg.ClientAuth
	conns    int
	retries  int
	losses   int
	workers  int
	backlog  int
	intercs  []ClientInterceptor
	servers  []ServerInterceptor
	log      *slog.Logger
	tcpMax   int
	lowPort  bool
	replies  ReplyCache
	flavors  map[rpcmsg.Flavor]rpcmsg.ServerAuth
	programs *Server // that a client serves
	err      error   // of an option's argument

	connsMax, connsPeer int // of a listener
}

func newOptions(opts []Option) (options, error) {
	o := options{conns: 1, retries: 5, losses: 5, workers: 256, tcpMax: 8 << 20, connsMax: DefaultConnectionLimit, log: slog.New(slog.DiscardHandler)}
	for _, opt := range opts {
		opt(&o)
	}
	if o.engine.Inline != 0 {
		o.memory.Inline = o.engine.Inline
	}
	o.engine.Panicked = func(e *engine.PanicError) {
		o.log.Error("extension panicked", "extension", e.Extension, "connection", e.Conn, "panic", e.Value, "stack", string(e.Stack))
	}
	if o.err == nil {
		o.err = o.engine.Check()
	}
	return o, o.err
}

// WithVersions allows the RPC-over-RDMA versions min…max (clients, listeners). Default 1…2: a client
// starts with the highest (v2 draft §7).
func WithVersions(minVersion, maxVersion uint32) Option {
	return func(o *options) { o.engine.MinVersion, o.engine.MaxVersion = minVersion, maxVersion }
}

// WithInline sets the bytes of receives and of the largest inline message: 1024…262144, a
// multiple of 1024 (clients, listeners). Default 4096.
func WithInline(n int) Option { return func(o *options) { o.engine.Inline = n } }

// WithCredits sets the calls in flight asked for (clients) or granted (listeners) per
// connection. Default 64.
func WithCredits(n int) Option { return func(o *options) { o.engine.Credits = n } }

// WithSegmentLength splits chunks into segments of n bytes (clients). Default: one segment a chunk.
func WithSegmentLength(n int) Option { return func(o *options) { o.engine.SegLen = n } }

// WithMoveAbove moves bulk arguments above n bytes even where they would fit inline
// (clients).
func WithMoveAbove(n int) Option { return func(o *options) { o.engine.MoveAbove = max(n, 1) } }

// WithMaxCall bounds the chunk bytes of one call that a server takes (listeners). Default 16 MiB.
func WithMaxCall(n int) Option { return func(o *options) { o.engine.MaxCall = n } }

// WithCallTimeout ends calls whose context has no deadline (clients). Default 60 s.
func WithCallTimeout(d time.Duration) Option { return func(o *options) { o.engine.CallTimeout = d } }

// WithCancelWait is how long a cancelled call waits for its reply before it returns, where the fabric
// cannot take memory from under the peer's access (clients). Default 2 s.
func WithCancelWait(d time.Duration) Option { return func(o *options) { o.engine.CancelWait = d } }

// WithConnections spreads calls over n connections to the server (clients). Default 1.
func WithConnections(n int) Option { return func(o *options) { o.conns = max(n, 1) } }

// WithRetransmits bounds how often a call is sent again after its connection was lost, on a new one
// and with the same XID, attempts to connect included (clients). Default 5; negative: never. Between two of them the
// call waits, 20 ms at first and 2 s at most, a random half of it; its caller's goroutine is all that is queued, and
// its context ends the wait. A call that finds no connection at its start is not tried again.
// Connections lost in a row end a call too: see WithLossLimit.
func WithRetransmits(n int) Option { return func(o *options) { o.retries = n } }

// WithLossLimit gives a call up, with a *GaveUpError, when n connections in a row were lost while they carried it
// (clients): it may be what ends them. From the third on it is sent while no other such call is. Default 5.
func WithLossLimit(n int) Option { return func(o *options) { o.losses = max(n, 1) } }

// WithAuth sets the authentication of calls (clients). Default AUTH_NONE. A mechanism that wraps keeps bulk data
// from being moved by itself: the call goes inline, or as a whole (RFC 8166 §6.1).
func WithAuth(a rpcmsg.ClientAuth) Option { return func(o *options) { o.auth = a } }

// WithAuthSys sends AUTH_SYS credentials (clients).
func WithAuthSys(s rpcmsg.Sys) Option {
	return func(o *options) {
		a, err := rpcmsg.NewSys(&s)
		if err != nil {
			o.err = err
			return
		}
		o.auth = a
	}
}

// WithRecorder sends events to r (clients, listeners).
func WithRecorder(r obs.Recorder) Option { return func(o *options) { o.engine.Recorder = r } }

// WithTap copies the fabric's frames to t (clients, listeners).
func WithTap(t verbs.Tap) Option { return func(o *options) { o.engine.Tap = t } }

// WithInterceptor wraps calls (clients); the first given is the outermost.
func WithInterceptor(i ClientInterceptor) Option {
	return func(o *options) { o.intercs = append(o.intercs, i) }
}

// WithServerInterceptor wraps handlers (servers); the first given is the outermost. Inline methods
// included: it must keep their promise.
func WithServerInterceptor(i ServerInterceptor) Option {
	return func(o *options) { o.servers = append(o.servers, i) }
}

// WithWorkers bounds the goroutines that run handlers (servers). One connection gets a quarter of them, one
// address as many as it leaves free: slow calls of one do not keep others waiting. Below 8 a connection is served one
// call at a time, so no handler may wait for another call of the same connection. Default 256.
func WithWorkers(n int) Option { return func(o *options) { o.workers = max(n, 1) } }

// WithAuthFlavor lets a take the calls of its flavor (servers): it says who calls (Request.Identity), refuses, and
// unwraps arguments and wraps results. Without one, AUTH_NONE and AUTH_SYS are left to the procedures, and calls of other
// flavors are refused with AUTH_REJECTEDCRED; rpcmsg.PlainServer lets a flavor through as it is.
func WithAuthFlavor(a rpcmsg.ServerAuth) Option {
	return func(o *options) {
		if o.flavors == nil {
			o.flavors = make(map[rpcmsg.Flavor]rpcmsg.ServerAuth)
		}
		o.flavors[a.Flavor()] = a
	}
}

// WithReplyCache sets up the duplicate request cache (servers): see ReplyCache for its defaults.
func WithReplyCache(c ReplyCache) Option { return func(o *options) { o.replies = c } }

// WithLog is told of what ends connections and of handlers that panic (servers), and of extensions that panic
// (clients, listeners). Default: nothing.
func WithLog(l *slog.Logger) Option { return func(o *options) { o.log = l } }

// WithTCPRecord bounds one RPC message on tcp:// (clients, listeners). Default 8 MiB.
func WithTCPRecord(n int) Option { return func(o *options) { o.tcpMax = n } }

// WithReservedPort calls from a port below 1024 on tcp:// (clients), where the process may: servers that
// trust AUTH_SYS ask for one (Linux's exports do, unless they are "insecure"). Without the privilege any
// port is used.
func WithReservedPort() Option { return func(o *options) { o.lowPort = true } }

// WithExtensions gives connections the optional operations and properties of version 2 that s has (clients, listeners). A
// peer that has none of them, or that speaks version 1, is talked to as if they were not there.
func WithExtensions(s *ext.Set) Option { return func(o *options) { o.engine.Extensions = s } }

// WithMaxInline bounds how long extensions may have receives grow, to n bytes (clients, listeners): 262144 at most, which is the
// default; what WithInline says, and they stay as they are.
func WithMaxInline(n int) Option { return func(o *options) { o.memory.MaxInline = n } }

// WithGateTimeout ends a connection, and the calls that wait for it with an *engine.GateError, that an extension gates and has
// not opened for so long since version 2 stands there (clients, listeners). Default 10 s; negative: never.
func WithGateTimeout(d time.Duration) Option {
	return func(o *options) { o.engine.GateTimeout = d }
}

// CallOption changes one call. It is a value, so that options allocate nothing.
type CallOption struct {
	into  []byte
	mem   *Buffer
	auth  *rpcmsg.Auth
	reply int
	grow  int
}

// Into names where the next bulk result is to be placed. len(buf) is the most accepted: a longer result
// is an error, and nothing is written behind it: xdr.ErrBounds, or, where the server was to place it, its
// refusal, an *engine.TransportError. Several are matched to the bulk results in order. What the results' UnmarshalXDR gets from Reader.Bulk then lies in buf.
// As with an io.Reader's buffer, what buf held behind a shorter result may be gone after the call.
func Into(buf []byte) CallOption { return CallOption{into: buf} }

// IntoBuffer is Into(b.Bytes()[off:off+n]), without registering memory for the call.
func IntoBuffer(b *Buffer, off, n int) CallOption {
	return CallOption{into: b.Bytes()[off : off+n : off+n], mem: b}
}

// WithCred replaces the client's credential for one call.
func WithCred(a *rpcmsg.Auth) CallOption { return CallOption{auth: a} }

// MaxReply is the bytes of the largest results of this call, instead of what its binding says.
func MaxReply(n int) CallOption { return CallOption{reply: n} }

// MayGrow lets a call be sent again, on the same connection and with the same XID, when a version 2 server answers
// that a result or the reply needs more room (v2 draft §6.2.4): with that much, up to n bytes for what was too short.
// The server has executed it by then: one with a duplicate request cache answers from there, another executes it
// again. A result longer than its Into then lies in memory that is valid only during UnmarshalXDR. Version 1 servers
// do not say what they need: the error is an *engine.TransportError.
func MayGrow(n int) CallOption { return CallOption{grow: n} }

// CallInfo is a call as interceptors see it; valid until they return.
type CallInfo struct {
	Proc    *Proc
	Target  Target
	XID     uint32
	Args    xdr.Marshaler
	Results xdr.Unmarshaler
	// Attach goes with the call where an extension on its connection allows it (ext.Conn.Attach); its bytes must stay as
	// they are until the interceptor's next returns.
	Attach engine.Attachment
}

// ClientInterceptor wraps a call. It calls next once, or returns an error instead.
type ClientInterceptor func(ctx context.Context, call *CallInfo, next func(context.Context) error) error

// ServerInterceptor wraps a handler. It calls next once, or returns an error instead.
type ServerInterceptor func(ctx context.Context, req *Request, next HandlerFunc) error
