package tcp

import (
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// socket is what both ends' connections have of transport.Conn.
type socket struct {
	conn     net.Conn
	id       uint64
	recorder obs.Recorder          // nil: nobody takes events
	err      atomic.Pointer[error] // why it ended; set before gone is closed
	gone     chan struct{}
}

func newSocket(nc net.Conn, to obs.Recorder) socket {
	return socket{conn: nc, recorder: to, id: transport.NewConnID(), gone: make(chan struct{})}
}

// ID implements transport.Conn.
func (s *socket) ID() uint64 { return s.id }

// Version implements transport.Conn: there is none of RPC-over-RDMA.
func (s *socket) Version() uint32 { return 0 }

// LocalAddr implements transport.Conn.
func (s *socket) LocalAddr() netip.AddrPort { return addrPort(s.conn.LocalAddr()) }

// RemoteAddr implements transport.Conn.
func (s *socket) RemoteAddr() netip.AddrPort { return addrPort(s.conn.RemoteAddr()) }

func addrPort(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }

// Done implements transport.Conn.
func (s *socket) Done() <-chan struct{} { return s.gone }

// Err implements transport.Conn.
func (s *socket) Err() error {
	if err := s.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Fabric implements transport.Conn: there is no provider.
func (s *socket) Fabric(n *verbs.Stats) { *n = verbs.Stats{} }

// Close implements transport.Conn.
func (s *socket) Close() error { return s.conn.Close() }
