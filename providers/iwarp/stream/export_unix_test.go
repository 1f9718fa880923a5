//go:build unix

package stream

import (
	"context"
	"net/netip"
)

// BufferedTCP is TCP as on a system whose sockets cannot be read without waiting.
type BufferedTCP struct{ TCP }

func (t BufferedTCP) Dial(ctx context.Context, local, addr string) (Stream, error) {
	return buffer(t.TCP.Dial(ctx, local, addr))
}

func (t BufferedTCP) Listen(ctx context.Context, addr string, admit func(netip.Addr) bool) (Listener, error) {
	l, err := t.TCP.Listen(ctx, addr, admit)
	if err != nil {
		return nil, err
	}
	return bufferedListener{l}, nil
}

type bufferedListener struct{ Listener }

func (l bufferedListener) Accept() (Stream, error) { return buffer(l.Listener.Accept()) }

func buffer(s Stream, err error) (Stream, error) {
	if err != nil {
		return nil, err
	}
	return newBuffered(s.(*tcpStream).TCPConn, s.MSS(), 50e3), nil
}
