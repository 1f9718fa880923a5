package qp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// Fabric is how a provider's Streams get their sockets.
type Fabric[X any] interface {
	// NewConn is the provider's connection, with nothing in it yet.
	NewConn() StreamConn[X]
	// Reach connects to addr. It returns the addresses by which both ends are known, too.
	Reach(ctx context.Context, addr string) (sock net.Conn, local, remote netip.AddrPort, err error)
	// Bind listens on addr, and returns the address by which Reach finds it.
	Bind(ctx context.Context, addr string) (net.Listener, netip.AddrPort, error)
	// Peer is the address of the dialler of a socket that was accepted.
	Peer(sock net.Conn) netip.AddrPort
}

// StreamConn is a provider's connection: a pointer to a struct that embeds a Stream and has the methods of Wire.
type StreamConn[X any] interface {
	Input
	Wire[X]
	Dialler
	Acceptor
	Base() *Stream[X]
}

// Streams is a protection domain whose connections are Streams: all of a verbs.Domain.
type Streams[X any] struct {
	Domain
	fabric Fabric[X]
}

// NewStreams is an open domain.
func NewStreams[X any](c Config, f Fabric[X]) *Streams[X] {
	d := &Streams[X]{fabric: f}
	d.Init(c)
	return d
}

// HelloKind is a step of the set-up.
type HelloKind uint8

const (
	HelloAsk    HelloKind = iota + 1 // the dialler's
	HelloAccept                      // the answer
	HelloReject                      // or this
)

// Hello is what the ends of a set-up tell one another.
type Hello struct {
	Kind    HelloKind
	Reads   int // how many of the peer's Reads its sender serves at a time
	Private []byte
}

// Base is the Stream in a provider's connection.
func (s *Stream[X]) Base() *Stream[X] { return s }

// init makes s, which c embeds, a connection of d before its set-up.
func (s *Stream[X]) init(d *Streams[X], c StreamConn[X], o *verbs.Options) error {
	most := d.config.Caps.MaxReads
	s.domain, s.wire, s.wakes = d, c, make(chan struct{}, 1)
	s.ours, s.most = Depth(o.Reads, most, most), Depth(o.Reading, most, most)
	s.Reader.Init(&s.Life, c, true)
	return s.QP.Init(&d.Domain, c, o)
}

// meet takes what the peer has told.
func (s *Stream[X]) meet(local, remote netip.AddrPort, h Hello) {
	agreed := s.caps
	agreed.MaxReads = min(s.ours, max(h.Reads, 0))
	s.Meet(local, remote, h.Private, agreed)
}

// Dial implements verbs.Domain.
func (d *Streams[X]) Dial(ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
	return d.Connect(ctx, addr, &o, func() (Dialler, error) {
		c := d.fabric.NewConn()
		return c, c.Base().init(d, c, &o)
	})
}

// Connect implements Dialler.
func (s *Stream[X]) Connect(ctx context.Context, addr string, private []byte) error {
	sock, local, remote, err := s.domain.fabric.Reach(ctx, addr)
	if err != nil {
		return err
	}
	s.Sock = sock
	s.Meet(local, remote, nil, s.caps)
	defer Bound(ctx, 2*s.dom.config.Setup, sock.SetDeadline)() // twice: a request waits for Accept, and then for its answer
	var h Hello
	if err = s.wire.WriteHello(Hello{HelloAsk, s.most, private}); err == nil {
		h, err = s.wire.ReadHello()
	}
	switch {
	case err != nil:
	case h.Kind == HelloAccept:
		s.meet(local, remote, h)
		return nil
	case h.Kind == HelloReject:
		err = &verbs.RejectedError{Private: h.Private, Reason: "by the application, or not answered in time"}
	default:
		err = verbs.ErrProtocol
	}
	s.Drop()
	return err
}

// Answer implements Acceptor.
func (s *Stream[X]) Answer(ctx context.Context, private []byte) error {
	defer Bound(ctx, s.dom.config.Setup, s.Sock.SetDeadline)()
	return s.wire.WriteHello(Hello{HelloAccept, s.most, private})
}

// Start implements Half.
func (s *Stream[X]) Start() error { return s.Go(s.Read, s.write) }

// Drop implements Half.
func (s *Stream[X]) Drop() { _ = s.Sock.Close() }

// streamListener is a listener of Streams.
type streamListener struct {
	Backlog
	at netip.AddrPort
}

func (l *streamListener) Addr() netip.AddrPort { return l.at }

// Listen implements verbs.Domain.
func (d *Streams[X]) Listen(ctx context.Context, addr string, o verbs.ListenOptions) (verbs.Listener, error) {
	in, at, err := d.fabric.Bind(ctx, addr)
	if err == nil {
		l := &streamListener{at: at}
		if err = l.Init(&d.Domain, o, false, in.Close); err == nil {
			if err = l.Serve(func() (Caller, error) {
				sock, err := in.Accept()
				return &streamCaller[X]{d: d, at: at, sock: sock}, err
			}); err == nil {
				return l, nil
			}
		}
	}
	return nil, fmt.Errorf("%s: listen %s: %w", d.config.Provider, addr, err)
}

// streamCaller is a peer that has connected and waits for its answer.
type streamCaller[X any] struct {
	d    *Streams[X]
	at   netip.AddrPort
	sock net.Conn
	c    StreamConn[X]
	ask  Hello
}

// RemoteAddr implements Caller, as all that follows.
func (r *streamCaller[X]) RemoteAddr() netip.AddrPort { return r.d.fabric.Peer(r.sock) }
func (r *streamCaller[X]) LocalAddr() netip.AddrPort  { return r.at }

func (r *streamCaller[X]) Hear() (private []byte, err error) {
	r.c = r.d.fabric.NewConn()
	r.c.Base().Sock = r.sock
	_ = r.sock.SetDeadline(time.Now().Add(r.d.config.Setup))
	if r.ask, err = r.c.ReadHello(); err == nil && r.ask.Kind != HelloAsk {
		err = verbs.ErrProtocol
	}
	_ = r.sock.SetDeadline(time.Time{})
	return r.ask.Private, err
}

func (r *streamCaller[X]) Alive() bool { return quiet(r.sock) }
func (r *streamCaller[X]) Drop()       { _ = r.sock.Close() }

func (r *streamCaller[X]) Reject(private []byte) error {
	_ = r.sock.SetDeadline(time.Now().Add(r.d.config.Setup))
	err := r.c.WriteHello(Hello{HelloReject, 0, private})
	r.Drop()
	return err
}

func (r *streamCaller[X]) Half(o *verbs.Options) (Acceptor, error) {
	d, err := Into(r.d, o)
	if err != nil {
		return nil, err
	}
	if d.config.Provider != r.d.config.Provider {
		return nil, verbs.ErrForeignDomain
	}
	s := r.c.Base()
	if err := s.init(d, r.c, o); err != nil {
		return nil, err
	}
	s.meet(r.at, r.RemoteAddr(), r.ask)
	return r.c, nil
}
