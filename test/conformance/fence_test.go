package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/loopback"
	"github.com/rpcrdma/rpcrdma/test/faults"
	"github.com/rpcrdma/rpcrdma/test/octets"
)

// lingering is a provider whose dialled connections say that they have ended when end is closed, not before.
type lingering struct {
	verbs.Provider
	end chan struct{}
}

type lingeringDomain struct {
	verbs.Domain
	end chan struct{}
}

type lingeringHandler struct {
	verbs.Handler
	end chan struct{}
}

func (p lingering) Open(ctx context.Context, local string, options map[string]string) (verbs.Domain, error) {
	d, err := p.Provider.Open(ctx, local, options)
	return lingeringDomain{d, p.end}, err
}

func (d lingeringDomain) Dial(ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
	o.Handler = lingeringHandler{o.Handler, d.end}
	return d.Domain.Dial(ctx, addr, o)
}

func (h lingeringHandler) Disconnected(err error) {
	<-h.end
	h.Handler.Disconnected(err)
}

// TestFailedInvalidateHoldsTheCall: where memory cannot be invalidated the connection ends, and until it has
// ended the call has not (RFC 8166 §4.5.4): its caller would use memory that the peer can still write.
func TestFailedInvalidateHoldsTheCall(t *testing.T) {
	end := make(chan struct{})
	scheme := fmt.Sprint("lingering", servers.Add(1))
	verbs.Register(scheme, lingering{faults.Wrap(t, loopback.Provider{}, faults.Plan{
		Judge: func(_ int, w *verbs.Work) faults.Verdict {
			if w.Op == verbs.OpInvalidate {
				return faults.Fail
			}
			return faults.Pass
		},
	}), end})
	dom := octets.Open(t, "loopback")
	x := &session{t: t, s: &script{}, vars: make(map[string][]byte), mems: make(map[string]*exposed)}
	x.door = listenPeer(t, "loopback", dom, nil)
	var err error
	if x.client, err = rpc.NewClient(strings.Replace(x.door.url, "loopback", scheme, 1), v1only...); err != nil {
		t.Fatal(err)
	}
	defer x.client.Close()
	x.run(settleV1 + `
		call READ 5000 into 5000
		< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00001388 $o:8 00000000 00000000 call:READ 00001388
		> $x 00000001 00000020 00000000 00000000 00000001 00000001 $h 00000000 $o 00000000 00000000 accepted:0 00000000`)
	select {
	case <-x.peer.Gone: // so the Invalidate has failed
	case <-time.After(patience):
		t.Fatal("the connection lives")
	}
	call := x.calls[1]
	select {
	case <-call.done:
		t.Error("the call ended before its connection")
	case <-time.After(20 * time.Millisecond):
	}
	close(end)
	select {
	case <-call.done: // with its reply, or as lost: nothing can touch the memory now
	case <-time.After(patience):
		t.Error("the call has no end")
	}
}

// TestNoReplyEndsTheConnection: who has no memory to answer in ends the connection, whether with a reply or
// with an error (RFC 8166 §4.5.4): the requester learns that no answer comes.
func TestNoReplyEndsTheConnection(t *testing.T) {
	for name, text := range map[string]string{
		"reply": "00000101 00000001 00000020 00000000 00000000 00000000 00000000 call:NULL",
		"error": "00000101 00000001 00000020 00000009 00000000 00000000 00000000 call:NULL",
	} {
		t.Run(name, func(t *testing.T) {
			ep, err := engine.NewEndpoint(octets.Open(t, "loopback"), engine.EndpointConfig{Memory: 1 << 10})
			if err != nil {
				t.Fatal(err)
			}
			defer ep.Close()
			l, err := ep.Listen(context.Background(), "127.0.0.1:0", verbs.ListenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			served := make(chan error, 1)
			go func() {
				req, err := l.Accept(context.Background())
				if err == nil {
					_, err = ep.Accept(context.Background(), req, engine.Config{Serve: func(r *transport.Request) {
						h := rpcmsg.ReplyHeader{XID: binary.BigEndian.Uint32(r.Stream)}
						h.Append(&r.Results)
						r.Reply(false, false)
					}})
				}
				served <- err
			}()
			x := &session{t: t}
			x.peer = dialPeer(t, octets.Open(t, "loopback"), "loopback://"+l.Addr().String(), nil)
			if err := <-served; err != nil {
				t.Fatal(err)
			}
			x.send(verbs.OpSend, 0, text)
			select {
			case <-x.peer.Gone:
			case m := <-x.peer.In:
				t.Errorf("got % x", m.Bytes)
			case <-time.After(patience):
				t.Error("the connection lives, without an answer")
			}
		})
	}
}

// unable is loopback whose keys the peer may not invalidate.
type unable struct{ verbs.Provider }

type unableDomain struct{ verbs.Domain }

type unableConn struct{ verbs.Conn }

func (p unable) Open(ctx context.Context, local string, options map[string]string) (verbs.Domain, error) {
	d, err := p.Provider.Open(ctx, local, options)
	return unableDomain{d}, err
}

func without(c verbs.Caps) verbs.Caps {
	c.RemoteInvalidate = false
	return c
}

func (d unableDomain) Caps() verbs.Caps { return without(d.Domain.Caps()) }
func (c unableConn) Caps() verbs.Caps   { return without(c.Conn.Caps()) }

func (d unableDomain) Dial(ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
	ready := o.Ready
	o.Ready = func(c verbs.Conn) error { return ready(unableConn{c}) }
	c, err := d.Domain.Dial(ctx, addr, o)
	if err != nil {
		return nil, err
	}
	return unableConn{c}, nil
}

// TestKeysThatMayNotBeInvalidated: where the device allows it for no key, R is clear and rdma_inv_handle is
// zero, chunks or not (RFC 8797 §4.1, v2 draft §6.2.3).
func TestKeysThatMayNotBeInvalidated(t *testing.T) {
	scheme := fmt.Sprint("unable", servers.Add(1))
	verbs.Register(scheme, unable{loopback.Provider{}})
	x := &session{t: t, s: &script{}, vars: make(map[string][]byte), mems: make(map[string]*exposed)}
	x.door = listenPeer(t, "loopback", octets.Open(t, "loopback"), nil)
	var err error
	if x.client, err = rpc.NewClient(strings.Replace(x.door.url, "loopback", scheme, 1)); err != nil {
		t.Fatal(err)
	}
	defer x.client.Close()
	x.run(settleV2 + `
		call READ 5000 into 5000
		< $x 00000002 00000040 00000000 00000000 00000000 00000000 00000001 00000001 $h 00001388 $o:8 00000000 00000000 call:READ 00001388
		> $x 00000002 00000020 00000000 00000001 00000000 00000000 00000001 00000001 $h 00000000 $o 00000000 00000000 accepted:0 00000000
		done
		count LocalInv 1`)
	if private := x.peer.Conn.PeerPrivateData(); len(private) < 8 || private[5] != 0 {
		t.Errorf("private data % x", private)
	}
}
