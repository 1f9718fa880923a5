package rpc_test

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/rpc"
)

var procNothing = &rpc.Proc{Program: program, Version: 1, Name: "NULL", Idempotent: true}

// TestAdmit: an address that is not admitted gets no connection of any listener, and is counted; others do not notice.
func TestAdmit(t *testing.T) {
	for _, scheme := range []string{"loopback", "iwarp", "tcp"} {
		t.Run(scheme, func(t *testing.T) {
			var asked atomic.Int64
			stranger := netip.MustParseAddr("127.0.0.3")
			f := serve(t, scheme+"://127.0.0.1:0", rpc.WithAdmit(func(a netip.Addr) bool {
				asked.Add(1)
				return a != stranger
			}))
			for i := range 3 {
				if scheme == "tcp" {
					d := net.Dialer{LocalAddr: &net.TCPAddr{IP: stranger.AsSlice()}}
					c, err := d.Dial("tcp", f.l.Addr().String())
					if err == nil {
						if n, err := c.Read(make([]byte, 1)); err == nil {
							t.Errorf("%d octets from a server that does not admit us", n)
						}
						c.Close()
					}
				} else {
					c, err := rpc.NewClient(f.l.URL()+"?local="+stranger.String(), rpc.WithRetransmits(-1))
					if err != nil {
						t.Fatal(err)
					}
					if err := c.Call(context.Background(), procNothing, nil, nil); err == nil {
						t.Error("a call from an address that is not admitted was answered")
					}
					c.Close()
				}
				if n := f.l.Refused(); n != uint64(i+1) {
					t.Errorf("%d refused, want %d", n, i+1)
				}
			}
			if err := dial(t, f.url).Call(context.Background(), procNothing, nil, nil); err != nil {
				t.Error(err)
			}
			if n := asked.Load(); n != 4 {
				t.Errorf("asked %d times, want 4", n)
			}
			if n := f.l.Refused(); n != 3 {
				t.Errorf("%d refused, want 3", n)
			}
		})
	}
}
