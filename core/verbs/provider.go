package verbs

import (
	"context"
	"net/netip"
)

// Provider is one kind of fabric. Its methods may be called from several goroutines.
type Provider interface {
	// Name is the provider's name and its URL scheme, e.g. "iwarp".
	Name() string
	// Probe reports what this machine offers. The error is one line with the reason why the
	// provider cannot run here.
	Probe(ctx context.Context) (Info, error)
	// Open opens a protection domain on a device or a local address ("" lets the
	// provider choose). An unknown or bad option is an *OptionError with its key; where the
	// provider cannot run, or has no such device or address, the error wraps ErrUnavailable.
	Open(ctx context.Context, local string, options map[string]string) (Domain, error)
}

// Info is what a provider reports about itself on this machine.
type Info struct {
	Devices []Device
	Options []OptionInfo // what Open takes
}

// Device is one adapter, or one software stand-in, of a provider.
type Device struct {
	Name  string // as Open's local names it; "" for the only one
	Addrs []netip.Addr
	Caps  Caps
	Note  string // one line for people
}

// OptionInfo describes one key of Open's options.
type OptionInfo struct {
	Key, Default, Help string
}

// Domain is one protection domain: memory and receive pools are shared by its connections. Where Caps.Keys is
// KeysRandom a remote key of one connection is worth nothing on another, and peers that do not trust one another may share a
// domain; where it is KeysDevice a key may serve every connection of the domain, and such peers need a domain each.
// Its methods may be called from several goroutines.
type Domain interface {
	Caps() Caps
	// Alloc gives n bytes of registered memory outside the Go heap, faulted in and
	// zeroed. No remote rights: those come from Expose.
	Alloc(n int) (Region, error)
	// Register pins mem until Release; mem must not be empty. It may cost a system call, but in the steady state, where as much
	// is released as registered, it allocates nothing: the Region that Release recycled serves again. No remote rights.
	Register(mem []byte) (Region, error)
	// NewRecvPool makes shared receives: n buffers of size bytes at most. The
	// error wraps errors.ErrUnsupported where each Conn must post its own.
	NewRecvPool(n, size int) (RecvPool, error)
	// Dial connects to addr ("host:port", numeric or a name). It returns when the peer
	// has accepted and o.Ready has run, when ctx ends, or with an error that wraps what went wrong:
	// a *RejectedError when the peer's program refused, ErrUnreachable or the system's error when nothing answers there.
	Dial(ctx context.Context, addr string, o Options) (Conn, error)
	// Listen binds addr, a "host:port" as in Dial; port 0 chooses one. An address that another listener has, or that is none, is an
	// error.
	Listen(ctx context.Context, addr string, o ListenOptions) (Listener, error)
	// Close aborts what is still connected, closes listeners, and frees the memory.
	// It returns when no goroutine of the domain is left and no Handler runs. It does not wait for a device's call that nothing
	// can interrupt, a dial that was given up; the provider bounds how many of these there are.
	Close() error
}

// Listener takes connection requests.
type Listener interface {
	// Accept waits for the next request. After Close it returns an error that
	// wraps net.ErrClosed. A peer that fails or stalls during set-up never surfaces
	// here and never delays another.
	Accept(ctx context.Context) (Request, error)
	// Addr is the address that was bound; Dial reaches it by Addr().String(). See Conn.RemoteAddr for fabrics without IP.
	Addr() netip.AddrPort
	// Close gives up the address, ends every Accept that waits, and rejects the requests that have not been handed out. Requests
	// that have, and connections, go on.
	Close() error
}

// ListenOptions bounds what strangers can make a listener hold.
type ListenOptions struct {
	// Admit, if not nil, is asked before anything is kept for a peer: where the fabric hands over a connection (TCP's accept,
	// the CM's request), before a goroutine, a buffer or a place in the backlog is taken. False: the peer is refused at once and
	// nothing of it shows in Accept. Its argument is what Request.RemoteAddr would name, never an IPv4-mapped IPv6
	// address. It is called for every peer, by one or more goroutines of the provider that hold no lock; it must
	// not block, may call Listener.Close and must not call Domain.Close. A call may still be under way when Listener.Close returns.
	Admit func(netip.Addr) bool
	// Backlog: requests in set-up or waiting for Accept, at most; 0: 256. Of one address no more than it
	// leaves free (core/fair), where strangers can connect at all.
	Backlog int
}

// Request is a peer that wants to connect; nothing has been answered yet, and it may still
// go away before it is. Exactly
// one of Accept and Reject is called; the other, or the same again, returns an error. A request that is given neither within the
// provider's set-up time-out is rejected. That time, an option of the provider's (iwarp: setup, 10 s; loopback: setup_timeout,
// 5 s), is counted from when the request is whole; the peer has as long to make it so, and never shows if it does not.
type Request interface {
	PeerPrivateData() []byte // may be zero-padded past what the peer gave (Caps.PadsPrivate)
	RemoteAddr() netip.AddrPort
	// LocalAddr is the address that the peer dialled, by which a listener on an unspecified address finds out which adapter the
	// request came by: Provider.Open takes it as local. The unspecified address where the fabric does not have it.
	LocalAddr() netip.AddrPort
	// Accept answers with o.Private's bytes, with a connection of o.Domain. The peer cannot send before o.Ready returned. Where it
	// returns an error the request is rejected.
	Accept(ctx context.Context, o Options) (Conn, error)
	// Reject refuses, with up to Caps.PrivateReject bytes of private data. With more it refuses without them and
	// returns a *PrivateDataError.
	Reject(private []byte) error
}

// Options is one connection's set-up, the same for both sides.
type Options struct {
	Handler Handler
	// Private chooses our private data once the device is known; peer is nil when
	// dialling. nil: none. Longer than Caps.PrivateDial is a *PrivateDataError of Dial, longer than Caps.PrivateAccept one of
	// Accept; then nothing is sent but, by Accept, a rejection.
	Private func(caps Caps, peer []byte) []byte
	// Ready runs before anything that the peer sends is taken: receives are posted here, and nothing else
	// is yet possible on the Conn. On the accepting side it runs before the peer is told. On the dialling side it may run after the
	// peer has accepted (on TCP it does): what the peer sends by then waits, and where Ready fails the peer may have a
	// connection already, which ends with an error. PeerPrivateData may not be known yet when dialling. An error
	// ends the set-up and is returned by Dial or Accept; the Handler is not called then. Completions may arrive before
	// Dial or Accept has returned.
	Ready func(Conn) error
	// Domain is the domain that a request is accepted into: memory, keys and Recv are its, and its Close ends the
	// connection, while the listener's domain may close before. nil: the listener's own. It must be of the same provider and, where
	// there are devices, the same one (an RDMA CM id creates its queue pair in any protection domain of its device), or Accept
	// returns ErrForeignDomain. Dial does not look at it.
	Domain Domain
	// Recv is the pool that receives are drawn from, of the connection's domain; nil: PostRecv on the Conn.
	Recv RecvPool
	// Reads is how many RDMA Reads we have in flight at most, whatever the peer would serve; what was agreed is
	// Conn.Caps().MaxReads. Reading is how many the peer should have in flight towards us: a wish, since a device may grant more.
	// 0: the provider's default; below: none.
	Reads, Reading int
	// Tap, if not nil, gets every frame, those of the set-up included.
	Tap Tap
	// Note, if not nil, gets what else is worth knowing of the connection. It is called with the provider's locks
	// held, from any goroutine: it does not block, and calls nothing of the provider's.
	Note func(note Note, n int64)
}
