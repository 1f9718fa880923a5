package verbs

import "net/netip"

// Conn is one reliable, ordered connection (an iWARP stream, an RC queue pair).
//
// All methods may be called from several goroutines. Within Options.Ready only PostRecv is of use: Post
// refuses everything before the connection stands. From the first sign of its end
// Post, PostRecv and Expose return an error that wraps net.ErrClosed and the cause;
// what was posted before completes as flushed, then Handler.Disconnected follows. The other methods may be called after the
// end, and do nothing.
type Conn interface {
	// Caps is the domain's, narrowed to what was agreed with the peer (MaxReads).
	Caps() Caps
	PeerPrivateData() []byte
	LocalAddr() netip.AddrPort
	// RemoteAddr is by what peers are told apart, for their shares and for who is admitted, and what people are shown. It
	// is always valid. Where a fabric's addresses are not IP addresses its provider names the peer's machine by one all the same: a
	// peer on this machine (Unix sockets, shared memory) is 127.0.0.1 or ::1, and an address of 128 bits (an InfiniBand GID) is an IPv6
	// address. The port is what Dial finds a listener by; a dialler that has none has port 0. All peers of one address share what one
	// may have.
	RemoteAddr() netip.AddrPort

	// Expose lets the peer reach n bytes of r from off with the rights a, by the Key
	// and Addr that it fills into w. The key is in force for everything that is posted on this Conn from then on. The
	// exposure is for one RPC: it ends by Invalidate, by the peer's
	// SendInvalidate or with the connection: the provider ends it before Disconnected,
	// also where a device's key would outlive the connection, and waits for no peer to do so. w must not be in use; it may be
	// reused once fenced. A range or right that r does not have is ErrBadWork, which costs nothing but the call: the provider checks
	// them, since a device's bind that fails costs the connection. Expose may fail for want of keys. It may be a system
	// call: never call it under a lock that Complete takes.
	// Send-queue slots that a device needs for it, and for its end, are kept beside Caps.Queue.
	Expose(w *Window, r Region, off, n int, a Access) error

	// PostRecv posts the first n receives; these complete in order, each exactly once. A message that is longer than its
	// receive, or on iWARP finds none, ends the connection (ErrTooLong, ErrNoReceive).
	// Not with Options.Recv: that is ErrBadWork.
	PostRecv(rs []Recv) (n int, err error)

	// Post enqueues the first n of ws, in order, and copies them and their Segs; works of another Post do not come between. It
	// never blocks. n < len(ws) with a nil error: the queue (Caps.Queue) is full, the
	// rest was never posted. Each that was posted completes exactly once: done, failed
	// or flushed, by the provider's own account whatever the device reports. Sends and Writes complete in their
	// order, and so do Reads, but not one kind against the other; a completion may come only together with a later
	// one of the same Flush. An Invalidate may complete before works that were posted earlier; where Caps.Detach is
	// true it waits for no peer, while a device may carry it out only behind them. Works start in order, and the order at the peer is the order here: Writes before a Send are
	// placed before that Send completes there. A Read is over only with its completion: a
	// Send posted behind it may arrive before the peer has served it, so a user that releases the peer's memory waits for
	// the Read's completion first. Reads beyond
	// Caps.MaxReads stall what was posted after them. A work that is malformed (ErrBadWork) is refused whole,
	// with those behind it: a Read where Caps.MaxReads is 0, for one, which a device might never complete.
	Post(ws []Work) (n int, err error)

	// Flush sends what lies posted, as far as the fabric takes it without
	// waiting; the rest leaves when there is room, without another call. It may call
	// Handler.Complete for local completions (not of Reads), unless the caller is inside Complete.
	Flush()

	// Stats fills s with this connection's counters.
	Stats(s *Stats)

	// Close is orderly: what was posted leaves, and has completed, before the connection is ended (within the provider's
	// linger time: an option where the provider has one, iwarp's linger of 2 s; when it is over the rest is flushed). It does
	// not wait. Disconnected(nil) follows.
	Close() error
	// Abort ends the connection at once; Disconnected(err) follows, never from within Abort. The peer's Disconnected gets an
	// error of its own.
	Abort(err error)
}

// Handler takes what a connection reports. It belongs to the engine.
type Handler interface {
	// Complete takes a batch, in order. Calls are serial per Conn, and never come from
	// within Post, PostRecv, Expose or Detach; all of these may be called from within
	// it. The works that it reports have left the queue: as many can be posted. It must not block and must not wait for another completion. cs and the Buf of
	// a completion are the provider's: cs until Complete returns, Buf until Put (with a
	// pool) or the next PostRecv of that buffer.
	Complete(cs []Completion)
	// Disconnected comes exactly once, after the last completion; those that the
	// device never gave the provider makes up as flushed. It is the last thing that the Handler gets, and every window of
	// the connection is fenced then. err is nil after an
	// orderly end by either side, else the cause: a *TerminatedError when the peer
	// reported an error, ErrRemoteAccess (wrapped) at both ends when one reached for what it
	// may not. What Abort was given comes back as it is.
	Disconnected(err error)
}

// Driver is a Conn whose input may be read by a waiting caller (leader and
// followers), which spares the hand-off from a reader goroutine.
type Driver interface {
	// Drive reads and completes on this goroutine until stop returns true, until Kick, or
	// until the connection ends. stop is asked before each wait and after each batch, and
	// when another goroutine's Flush has completed an Invalidate, which the leader may wait for.
	// It returns false at once when another goroutine drives, and before the connection is up. When nobody has driven for
	// a millisecond the provider's own reader takes over until the next Drive; no option changes that time.
	Drive(stop func() bool) bool
	// Kick makes the present Drive return soon: for cancellation and deadlines.
	Kick()
}

// Detacher is a Conn that can take memory away from under a window (Caps.Detach).
type Detacher interface {
	// Detach moves w to spare (of w.N bytes at least, registered or not): from its return
	// on, nothing reads or writes the old memory, and what the peer does goes to
	// spare. For windows it may read the old bytes are copied first. It waits for no
	// peer. False: w is not in force any more, so nothing can reach the memory anyway.
	Detach(w *Window, spare []byte) bool
}

// RecvPool is shared receives: a bound on buffers, not resident memory, where the
// provider draws a buffer only when a message begins to arrive; memory that is posted all the time where a device does. A
// message that finds none waits (RC queue pairs with RNR retries) or ends its connection (iWARP), so users receive no more than
// they have reserved. The end of a connection flushes none of them: they stay for the others.
type RecvPool interface {
	// Reserve promises n receives to one connection. The sum never exceeds the pool:
	// credit grants come out of this. ErrNoReceives if it would.
	Reserve(n int) error
	// Unreserve takes back n of what was reserved.
	Unreserve(n int)
	// Put gives back the buffer of a receive completion, by its BufID, once; the connection may have ended.
	Put(buf uint32)
	// Size is the bytes one receive takes.
	Size() int
	// Resize changes the size of receives that begin after its return; the error
	// wraps errors.ErrUnsupported where posted receives cannot be taken back, as on every device.
	Resize(size int) error
	// Close frees the pool once each buffer was Put. Connections must be gone.
	Close() error
}
