package hostile

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// The operations of the extension that is attacked.
const (
	opAsk = ext.ExperimentalFirst + 1 + iota
	opTold
	opNote
	opSelf
)

// victim is an extension that answers half of its questions in time, and checks that it is called as the contract says.
type victim struct {
	t        testing.TB
	heard    atomic.Int64
	sessions atomic.Int64
}

func (v *victim) Declare() ext.Declaration {
	return ext.Declaration{Name: "victim", Limits: ext.Limits{Info: 100, Queue: 8}, Ops: []ext.Op{
		{Name: "ask", Type: opAsk, Proc: opAsk, Answer: "told", Deadline: 50 * time.Millisecond, Window: 2},
		{Name: "told", Type: opTold, Proc: opTold, Reply: true, Credit: true},
		{Name: "note", Type: opNote, Proc: opNote, Deadline: 50 * time.Millisecond},
		{Name: "self", Type: opSelf, Answer: "self", Deadline: 50 * time.Millisecond},
	}}
}

func (v *victim) Connect(c ext.Conn) ext.Session {
	v.sessions.Add(1)
	return &victimSession{v: v, conn: c}
}

type victimSession struct {
	v      *victim
	conn   ext.Conn
	inside sync.Mutex
	n      int
	closed bool
}

func (s *victimSession) Message(m ext.Message) {
	if !s.inside.TryLock() {
		s.v.t.Error("called by two at a time")
		return
	}
	defer s.inside.Unlock()
	s.v.heard.Add(1)
	if s.closed || len(m.Info) > 100 || m.Reply != (m.Token == 0) || m.Op == "" {
		s.v.t.Errorf("%+v, closed %v", m, s.closed)
	}
	if s.n++; s.n%2 == 0 && m.Token != 0 {
		go func() {
			for range 2 { // one too many
				s.conn.Answer(m.Token, ext.Verdict{Kind: ext.Answer, Info: m.Info})
			}
		}()
	}
}

func (s *victimSession) Closed(error) {
	s.closed = true
	s.v.sessions.Add(-1)
}

// operation is a message that is, or is nearly, an operation.
func operation(rng *rand.Rand, xid uint32) []byte {
	ids := []uint32{opAsk, opTold, opNote, opSelf, opSelf + 1, wire.OptConnProp, 6, 7, 8, 9, 0}
	id := ids[rng.IntN(len(ids))]
	info := pattern(rng.IntN(130))
	var b []byte
	if rng.IntN(2) == 0 {
		b = append(word(xid, 2, rng.Uint32N(200), id), info...)
	} else {
		h := head(xid, 2, wire.Optional)
		h.OptType, h.OptInfo, h.Direction = id, info, wire.Direction(rng.IntN(2))
		b = enc(h)
	}
	switch rng.IntN(8) {
	case 0: // cut
		b = b[:rng.IntN(len(b))]
	case 1: // one word changed
		binary.BigEndian.PutUint32(b[4*rng.IntN(len(b)/4):], rng.Uint32()>>rng.IntN(32))
	case 2: // surplus
		b = append(b, pattern(1+rng.IntN(200))...)
	}
	if len(b) >= 16 && wordAt(b, 3) <= uint32(wire.Done) { // no call by accident
		b = spoil(b, 3, 5)
	}
	return b
}

// TestOperations: a client floods a server that has an extension with operations, good ones and nearly good ones, and never says a
// sensible thing. Its connection may end; whoever stands by notices nothing, and every session is told of its end.
func TestOperations(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		v := &victim{t: t}
		set, err := ext.NewSet(v)
		if err != nil {
			t.Fatal(err)
		}
		h := serve(t, url, rpc.WithExtensions(set))
		dom, addr := open(t, h.url)
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 17))
			r := dial(t, dom, addr, good)
			latch(t, r, 2)
			for range 500 {
				if r.Send(operation(rng, xids.Add(1))) != nil {
					break
				}
			}
			r.Conn.Close()
			<-r.Gone
		}
		if v.heard.Load() == 0 {
			t.Error("the extension has heard nothing")
		}
		h.stand.served()
		h.stand.leave()
		h.idle()
		for end := time.Now().Add(patience); v.sessions.Load() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d sessions are left", v.sessions.Load())
			}
		}
	})
}

// TestOperationsOfAServer: the same from a server. The client's calls go on, and what it has sent by its extension has one
// outcome each.
func TestOperationsOfAServer(t *testing.T) {
	for _, url := range bubbles {
		t.Run(url[:8], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := &victim{t: t}
				keep := &keeper{Extension: v}
				set, err := ext.NewSet(keep)
				if err != nil {
					t.Fatal(err)
				}
				rng := rand.New(rand.NewPCG(3, 4))
				k := &kinds[0]
				var asked []uint32
				srv := beVillain(t, url, good, func(r *raw, n int, h *wire.Header, _ []byte) {
					if h.Proc != wire.Msg {
						asked = append(asked, h.XID)
						return
					}
					for range 10 {
						xid := rng.Uint32()
						if len(asked) > 0 && rng.IntN(2) == 0 { // of something that it was asked
							xid = asked[rng.IntN(len(asked))]
						}
						r.Send(operation(rng, xid))
						if rng.IntN(4) == 0 {
							r.Send(word(xid, 2, rng.Uint32N(100), 4, rng.Uint32N(12), 1, 1))
						}
					}
					r.Send(k.answer(r, h))
				})
				defer srv.close()
				c, err := rpc.NewClient(srv.url, rpc.WithExtensions(set), rpc.WithRetransmits(-1), rpc.WithVersions(2, 2))
				if err != nil {
					t.Fatal(err)
				}
				sent, outcomes := 0, 0
				for range 200 {
					if err := k.call(t.Context(), c, nil); err != nil {
						t.Fatalf("a call: %v", err)
					}
					synctest.Wait()
					for _, op := range []string{"ask", "note", "self"} {
						sent++
						keep.last.conn.Send(ext.Outgoing{Op: op, Info: []byte("?")}, func(o ext.Outcome) {
							if outcomes++; o.Kind == 0 {
								t.Errorf("%+v", o)
							}
						})
					}
				}
				if n := c.Counters().Outstanding; n > 32 {
					t.Errorf("%d credits are in use", n)
				}
				c.Close()
				synctest.Wait()
				if outcomes != sent || sent == 0 {
					t.Errorf("%d outcomes of %d", outcomes, sent)
				}
				if v.heard.Load() == 0 || v.sessions.Load() != 0 {
					t.Errorf("heard %d, %d sessions are left", v.heard.Load(), v.sessions.Load())
				}
			})
		})
	}
}

// keeper keeps the last session that an extension made.
type keeper struct {
	ext.Extension
	last *victimSession
}

func (k *keeper) Connect(c ext.Conn) ext.Session {
	s := k.Extension.Connect(c)
	k.last = s.(*victimSession)
	return s
}
