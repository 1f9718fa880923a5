package properties

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/props"
)

// Run runs everything with the extension that make makes, at a client and at a server, over each fabric.
func Run(t *testing.T, make Make) {
	for _, scheme := range []string{"loopback", "iwarp"} {
		for _, tested := range []side{atClient, atServer} {
			p := plan{scheme: scheme, tested: tested, make: make}
			t.Run(scheme+" "+tested.String(), func(t *testing.T) {
				for _, tc := range []struct {
					name string
					run  func(*testing.T, plan)
				}{
					{"exchange", exchange},
					{"forms", forms},
					{"requests", requests},
					{"updates", updates},
					{"peer without properties", without},
					{"peer of version 1", version1},
					{"backward level", backward},
					{"receive size raised under load", raised},
					{"receive size lowered", lowered},
				} {
					t.Run(tc.name, func(t *testing.T) { tc.run(t, p) })
				}
			})
		}
	}
}

// exchange: v2 draft §5.3.1. Each side hears what the other begins with, and the defaults of the rest (D-16, D-24).
func exchange(t *testing.T, p plan) {
	w := prepare(t, p)
	w.tested.begin = func(c ext.Conn) {
		depth.Offer(c, 7)
		strict.Fix(c, true)
		label.Offer(c, []byte("tested"))
	}
	w.other.begin = func(c ext.Conn) {
		depth.Reset(c)
		shape.Offer(c, 3)
	}
	w.connect(p)
	tested, other := w.tested.session(), w.other.session()
	hears(other, depth, 7, false)
	hears(other, strict, true, false)
	hears(other, label, []byte("tested"), false)
	hears(other, shape, 1, true)
	hears(other, absent, 42, true)
	hears(tested, depth, 1, true)
	hears(tested, strict, false, true)
	hears(tested, shape, 3, false)
	hears(tested, label, nil, true)

	s, err := w.ref.Peer(w.refConn(other))
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[uint32]string{
		props.RBSIZ: "rbsiz=4096", depth.ID(): "depth=7", strict.ID(): "strict=true (fixed)", label.ID(): "label=0x746573746564",
		shape.ID(): "shape=1 (default)", absent.ID(): "absent=42 (default)",
	} {
		if v, ok := s.Get(id); !ok || v.String() != want {
			t.Errorf("%v, want %s", v, want)
		}
	}
}

// forms: D-1. CONNPROP goes as rdma_proc 6, or, where it is configured, as opttype 1; the server answers as it was asked.
func forms(t *testing.T, p plan) {
	for _, optional := range []bool{false, true} {
		p.options, p.other = nil, props.Options{}
		if optional && p.tested == atClient {
			p.options = map[string]string{"encoding": "optional"}
		}
		p.other.Optional = optional && p.tested == atServer
		w := prepare(t, p)
		for _, q := range w.probes {
			q.begin = func(c ext.Conn) { depth.Offer(c, 2) }
		}
		w.connect(p)
		tested, other := w.tested.session(), w.other.session()
		hears(other, depth, 2, false)
		hears(tested, depth, 2, false)
		asks(tested, depth, 5, ext.Done, 5)
		asks(other, depth, 6, ext.Done, 6)

		var got [2][]wire.Proc // from each side, as procedures
		for _, m := range w.wire() {
			who := atServer
			if m.client {
				who = atClient
			}
			switch h := &m.header; {
			case h.Version != wire.Version2:
			case h.Proc == wire.Optional && optional:
				proc, ok := wire.PropProc(h.OptType)
				if !ok {
					t.Errorf("opttype %d", h.OptType)
				}
				if reply := h.Direction == wire.Reply; reply != (proc == wire.RespProp) { // D-10
					t.Errorf("%v has direction %v", proc, h.Direction)
				}
				got[who] = append(got[who], proc)
			case h.Proc == wire.Optional || h.Proc >= wire.ConnProp && optional:
				t.Errorf("sent as %v", h.Proc)
			case h.Proc >= wire.ConnProp:
				got[who] = append(got[who], h.Proc)
			}
		}
		for who, procs := range got {
			if len(procs) != 3 || procs[0] != wire.ConnProp || !slices.Contains(procs, wire.ReqProp) || !slices.Contains(procs, wire.RespProp) {
				t.Errorf("optional %t: %v sent %v", optional, side(who), procs)
			}
		}
	}
}

// requests: v2 draft §5.3.2 and §5.3.3, in either direction: done, done in part, rejected, not to be asked for.
func requests(t *testing.T, p plan) {
	w := prepare(t, p)
	for _, q := range w.probes {
		q.begin = func(c ext.Conn) {
			depth.Offer(c, 2)
			strict.Offer(c, true)
			label.Reset(c)
			shape.Offer(c, 2)
		}
		q.want = func(id uint32, value []byte) ext.Change {
			switch v, _ := depth.Decode(value); {
			case id == depth.ID() && v > 32:
				return depth.Instead(32)
			case id == shape.ID():
				return ext.Change{}
			}
			return ext.Change{Kind: ext.Done}
		}
	}
	w.connect(p)
	tested, other := w.tested.session(), w.other.session()
	for _, s := range []*probed{tested, other} {
		asks(s, depth, 64, ext.Other, 32)
		asks(s, depth, 16, ext.Done, 16)
		asks(s, label, []byte("a label"), ext.Done, []byte("a label"))
		asks(s, shape, 3, ext.Rejected, 1)
		asks(s, strict, false, ext.Rejected, false)
		asks(s, absent, 1, ext.Unsupported, 42) // not in the CONNPROP (D-24)
		asks(s, depth, 65, ext.Rejected, 1)     // out of its bounds
		hears(s, depth, 16, false)
		hears(s, label, []byte("a label"), false)
		hears(s, shape, 2, false)
		hears(s, absent, 42, true)
	}
}

// updates: v2 draft §5.3.4. The last of many values arrives, whatever becomes of those between.
func updates(t *testing.T, p plan) {
	w := prepare(t, p)
	for _, q := range w.probes {
		q.begin = func(c ext.Conn) { depth.Offer(c, 2); label.Reset(c) }
	}
	w.connect(p)
	tested, other := w.tested.session(), w.other.session()
	stop := w.calls(2, 100) // they show what the peer has consumed (D-8)
	defer stop()
	for _, ends := range [][2]*probed{{tested, other}, {other, tested}} {
		from, to := ends[0], ends[1]
		hears(to, depth, 2, false)
		for n := range uint32(64) {
			depth.Offer(from.conn, n+1)
		}
		label.Offer(from.conn, bytes.Repeat([]byte("x"), 2000))
		hears(to, depth, 64, false)
		hears(to, label, bytes.Repeat([]byte("x"), 2000), false)
		depth.Reset(from.conn)
		hears(to, depth, 1, true)
	}
}

// without: a peer of version 2 that knows no properties (D-2): a server says so, a client is silent. Calls are not touched.
func without(t *testing.T, p plan) {
	for _, encoding := range []string{"proc", "optional"} {
		p.options = map[string]string{"encoding": encoding, "patience": "50ms", "receive_size": "16384"}
		p.lonely = true
		w := prepare(t, p)
		w.tested.begin = func(c ext.Conn) { depth.Offer(c, 3) }
		w.connect(p)
		tested := w.tested.session()
		hears(tested, depth, 1, true)
		hears(tested, absent, 42, true)
		asks(tested, depth, 9, ext.Unsupported, 1)
		depth.Offer(tested.conn, 4)
		w.calls(4, 10000)()
		if f := tested.conn.Facts(); f.SendLimit != 4096 {
			t.Errorf("Sends of up to %d bytes", f.SendLimit)
		}
		for _, m := range w.wire() {
			if h := &m.header; m.client != (p.tested == atClient) && h.Proc == wire.ErrorMsg && !ext.Code(h.Err.Code).Unsupported() {
				t.Errorf("the peer says %v", h.Err)
			}
		}
	}
}

// version1: there is no session; calls work.
func version1(t *testing.T, p plan) {
	w := prepare(t, p)
	if p.tested == atClient {
		p.server = []rpc.ListenOption{rpc.WithVersions(1, 1)}
		p.host = "127.0.0.2" // clients remember which servers know only version 1 (D-5), and a later server may have its port
	} else {
		p.client = []rpc.ClientOption{rpc.WithVersions(1, 1)}
	}
	w.connect(p)
	w.calls(4, 10000)()
	w.tested.none()
	w.other.none()
}

// backward: BRS (v2 draft §5.2.2, D-23). A client's level is its server's engine's, from the start and when it changes, be it at the
// server's request.
func backward(t *testing.T, p plan) {
	programs := rpc.NewServer()
	defer programs.Close()
	p.client = []rpc.ClientOption{rpc.WithPrograms(programs), rpc.WithBackwardChunks()}
	p.server = []rpc.ListenOption{rpc.WithBackwardChunks()}
	inline := ext.BackwardInline
	if p.tested == atClient {
		p.options = map[string]string{"backward": "inline"}
	} else {
		p.other.Backward = &inline
	}
	w := prepare(t, p)
	for _, q := range w.probes {
		q.begin = func(c ext.Conn) { depth.Offer(c, 2) }
	}
	w.connect(p)
	client, server := w.probes[atClient].session(), w.probes[atServer].session()
	level := func(l ext.BackwardLevel) {
		t.Helper()
		for _, s := range []*probed{client, server} {
			s.facts("backward level", func(f ext.Facts) bool { return f.Backward == l })
		}
	}
	level(ext.BackwardInline)
	ctx, other := w.ctx, map[side]*probed{atClient: client, atServer: server}[1-p.tested]
	conn := w.refConn(other)
	for _, l := range []ext.BackwardLevel{ext.BackwardGeneral, ext.BackwardNone, ext.BackwardInline} {
		if p.tested == atClient {
			if c, err := w.ref.Ask(ctx, conn, props.BRS, props.Backward.Encode(l)); err != nil || c.Kind != ext.Done {
				t.Errorf("level %d: %v, %v", l, c.Kind, err)
			}
		} else {
			w.calls(1, 100)() // they show that the update before has been consumed
			if err := w.ref.Change(ctx, conn, props.BRS, props.Backward.Encode(l)); err != nil {
				t.Error(err)
			}
			stop := w.calls(1, 100)
			defer stop()
		}
		level(l)
	}
}

// raised: RBSIZ (v2 draft §5.2.1, D-22). Receives grow while 64 callers are at it, and no call fails; once the peer knows, it
// sends more than the old size at once.
func raised(t *testing.T, p plan) {
	const callers, size = 64, 10000
	for _, asked := range []bool{false, true} {
		name := "by option"
		p.options = map[string]string{"receive_size": "32768"}
		if asked {
			name = "at the peer's request"
			p.options = nil
		}
		t.Run(name, func(t *testing.T) {
			w := prepare(t, p)
			w.connect(p)
			tested, other := w.tested.session(), w.other.session()
			conn := w.refConn(other)
			stop := w.calls(callers, size)
			defer stop()
			if asked {
				c, err := w.ref.Ask(w.ctx, conn, props.RBSIZ, props.ReceiveSize.Encode(32768))
				if err != nil || c.Kind != ext.Other && c.Kind != ext.Done {
					t.Fatal(c, err)
				}
			}
			tested.facts("receives of 32768", func(f ext.Facts) bool { return f.RecvSize == 32768 })
			other.facts("sends of 32768", func(f ext.Facts) bool { return f.SendLimit == 32768 })
			if s, err := w.ref.Peer(conn); err != nil {
				t.Error(err)
			} else if v, _ := s.Get(props.RBSIZ); v.Text != "32768" {
				t.Error(v)
			}
			w.some(callers)
			stop()
			told, longer := false, 0
			for _, m := range w.wire() {
				to := p.tested == atServer // the messages to the side under test
				h := &m.header
				switch {
				case m.client != to && slices.ContainsFunc(h.Props, func(v wire.Property) bool {
					return v.ID == props.RBSIZ && bytes.Equal(v.Data, props.ReceiveSize.Encode(32768))
				}): // in UPDPROP, or already in a server's CONNPROP
					told = true
				case m.client == to && m.size > 4096:
					longer++
					if !told && !w.gaps {
						t.Errorf("%v of %d bytes before the peer was told", h.Proc, m.size)
						told = true
					}
				case m.client != to && m.size > 4096:
					t.Errorf("%v of %d bytes in the other direction", h.Proc, m.size)
				}
			}
			if longer == 0 {
				t.Error("no Send was longer than 4096 bytes")
			}
		})
	}
}

// lowered: RBSIZ at the peer's request (v2 draft §5.2.1, D-22).
func lowered(t *testing.T, p plan) {
	if p.tested == atClient {
		p.client = []rpc.ClientOption{rpc.WithInline(32768)}
	} else {
		p.server = []rpc.ListenOption{rpc.WithInline(32768)}
	}
	w := prepare(t, p)
	w.connect(p)
	other := w.other.session()
	conn := w.refConn(other)
	other.facts("sends of 32768", func(f ext.Facts) bool { return f.SendLimit == 32768 })
	stop := w.calls(8, 10000)
	defer stop()
	for _, tc := range []struct {
		ask, now uint32
		kind     ext.ChangeKind
	}{{8192, 8192, ext.Done}, {2048, 4096, ext.Other}, {2048, 4096, ext.Rejected}} {
		c, err := w.ref.Ask(w.ctx, conn, props.RBSIZ, props.ReceiveSize.Encode(tc.ask))
		if err != nil || c.Kind != tc.kind {
			t.Errorf("%d: %v, %v", tc.ask, c.Kind, err)
		}
		other.facts("its limit", func(f ext.Facts) bool { return f.SendLimit == int(tc.now) })
	}
	var e *props.AskError
	if err := w.ref.Change(context.Background(), conn, props.RBSIZ, props.ReceiveSize.Encode(1024)); !errors.As(err, &e) {
		t.Error(err) // our own is not lowered unasked
	}
}
