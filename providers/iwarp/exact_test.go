package iwarp_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"testing"
	"testing/synctest"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
	"github.com/rpcrdma/rpcrdma/test/memory"
)

// allocations counts what both ends allocate per trip in the steady state.
func allocations(t *testing.T, runs int, trip func()) float64 {
	for range 200 {
		trip()
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	return testing.AllocsPerRun(runs, trip)
}

// TestNothingAllocated is about both ends, on TCP.
func TestNothingAllocated(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	t.Run("64 B there and back", func(t *testing.T) {
		a, b := connect(t, iwarp.New(nil), endOptions{recvs: 4, size: 64})
		if n := allocations(t, 1000, pingPong(t, a, b, 64)); n > 0 {
			t.Errorf("%v allocations a round trip", n)
		}
	})
	t.Run("Write of 1 MiB and its answer", func(t *testing.T) {
		a, b := connect(t, iwarp.New(nil), endOptions{recvs: 4, size: 64, slab: 2 * mib})
		if n := allocations(t, 200, writer(t, a, b, mib)); n > 0 {
			t.Errorf("%v allocations a round trip", n)
		}
	})
	t.Run("Read of 1 MiB", func(t *testing.T) {
		a, b := connect(t, iwarp.New(nil), endOptions{recvs: 4, size: 64, slab: 2 * mib})
		if n := allocations(t, 200, reader(t, a, b, mib)); n > 0 {
			t.Errorf("%v allocations a Read", n)
		}
	})
	t.Run("Register, Expose, Invalidate, Release", func(t *testing.T) {
		a, _ := connect(t, iwarp.New(nil), endOptions{recvs: 4, size: 64})
		mem := make([]byte, 4096)
		var w verbs.Window
		done := make(chan struct{}, 1)
		a.on = func(cp *verbs.Completion) {
			if cp.Op == verbs.OpInvalidate {
				done <- struct{}{}
			}
		}
		ws := []verbs.Work{{Op: verbs.OpInvalidate, Window: &w}}
		if n := allocations(t, 1000, func() {
			r, _ := a.dom.Register(mem)
			if err := a.conn.Expose(&w, r, 0, len(mem), verbs.RemoteWrite); err != nil {
				t.Fatal(err)
			}
			a.conn.Post(ws)
			a.conn.Flush()
			<-done
			r.Release()
		}); n > 0 {
			t.Errorf("%v allocations", n)
		}
	})
	t.Run("receive pool", func(t *testing.T) {
		d, err := iwarp.New(nil).Open(context.Background(), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if _, err := d.NewRecvPool(1<<20, 1<<20); err != nil {
			t.Fatal(err) // a terabyte of promises costs nothing
		}
	})
}

// reader lets a read n bytes of b's slab.
func reader(t testing.TB, a, b *end, n int) (trip func()) {
	pingPong(t, a, b, 64)() // the initiator speaks first
	var w verbs.Window
	if err := b.conn.Expose(&w, b.reg, mib, n, verbs.RemoteRead); err != nil {
		t.Fatal(err)
	}
	came := false
	a.on = func(cp *verbs.Completion) { came = came || cp.Op == verbs.OpRead }
	work := []verbs.Work{{Op: verbs.OpRead, Segs: []verbs.Seg{{R: a.reg, Off: mib, N: n}}, Key: w.Key, Remote: w.Addr}}
	stop := func() bool { return came }
	return func() {
		came = false
		a.conn.Post(work)
		a.conn.Flush()
		a.conn.(verbs.Driver).Drive(stop)
	}
}

// TestSystemCalls counts, at the seam, how often the stream is written.
func TestSystemCalls(t *testing.T) {
	for _, c := range []struct {
		name          string
		works         func(o *ours) []verbs.Work
		calls, frames uint64
		copied        uint64 // payload bytes that we copied to send them
	}{
		{"one Send, one call", func(o *ours) []verbs.Work { return []verbs.Work{gather(o, 64)} }, 1, 1, 64},
		{"64 Sends, one call", func(o *ours) []verbs.Work {
			var ws []verbs.Work
			for range 64 {
				ws = append(ws, gather(o, 100))
			}
			return ws
		}, 1, 64, 6400},
		{"a Write and a Send, one call; the bulk is not copied", func(o *ours) []verbs.Work {
			w := gather(o, 256<<10)
			w.Op, w.Key = verbs.OpWrite, 1
			return []verbs.Work{w, gather(o, 64)}
		}, 1, 6, 256 + 64}, // but for a short last frame
		{"a Write of 1 MiB and a Send, 17 frames and one, one call", func(o *ours) []verbs.Work {
			w := gather(o, mib)
			w.Op, w.Key = verbs.OpWrite, 1
			return []verbs.Work{w, gather(o, 64)}
		}, 1, 18, 1024 + 64},
		{"a payload in 64 pieces is copied together", func(o *ours) []verbs.Work {
			w := verbs.Work{Op: verbs.OpSend}
			for i := range 64 {
				w.Segs = append(w.Segs, verbs.Seg{R: o.reg, Off: 1000 * i, N: 1000})
			}
			return []verbs.Work{w}
		}, 1, 1, 64000},
		{"in 4 pieces it is not", func(o *ours) []verbs.Work {
			w := verbs.Work{Op: verbs.OpSend}
			for i := range 4 {
				w.Segs = append(w.Segs, verbs.Seg{R: o.reg, Off: 16000 * i, N: 16000})
			}
			return []verbs.Work{w}
		}, 1, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
				n.Buffer, n.Segment = 4*mib, 32741 // what loopback says at first
				p, _ := dialled(t, n, o.listen(t, o.options(1)), request(true))
				p.frame(send(1, 0, true), nil)
				synctest.Wait()
				var before, after verbs.Stats
				o.conn.Stats(&before)
				ws := c.works(o)
				if k, err := o.conn.Post(ws); k < len(ws) || err != nil {
					t.Fatal(k, err)
				}
				o.conn.Flush()
				for range c.frames {
					p.next()
				}
				o.conn.Stats(&after)
				if calls := after.WriteCalls - before.WriteCalls; calls != c.calls {
					t.Errorf("%d calls, want %d", calls, c.calls)
				}
				if frames := after.SentFrames - before.SentFrames; frames != c.frames {
					t.Errorf("%d frames, want %d", frames, c.frames)
				}
				if copied := after.CopiedBytes - before.CopiedBytes; copied != c.copied {
					t.Errorf("%d bytes copied, want %d", copied, c.copied)
				}
				_ = p.s.Close()
				o.wantGone(t, nil)
			})
		})
	}
}

// answering sends a message back for each that comes, all of a batch by one Flush, as a server
// with inline procedures does.
type answering struct{ *ours }

func (a answering) Complete(cs []verbs.Completion) {
	for _, cp := range cs {
		if cp.Op == verbs.OpRecv {
			a.conn.PostRecv([]verbs.Recv{{ID: cp.ID, Seg: verbs.Seg{R: a.reg, Off: int(cp.ID) * recvSize, N: recvSize}}})
			a.conn.Post([]verbs.Work{gather(a.ours, 100)})
		}
	}
	a.conn.Flush()
}

// TestSystemCallsOfCalls counts what calls cost their server when they come together: the calls of
// one caller, who waits for each answer, and of 64.
func TestSystemCallsOfCalls(t *testing.T) {
	for _, callers := range []uint64{1, 64} {
		t.Run(fmt.Sprintf("%d callers", callers), func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
				n.Buffer = mib
				options := o.options(64)
				options.Handler = answering{o}
				options.Ready = func(c verbs.Conn) error {
					o.conn = c
					rs := make([]verbs.Recv, 64)
					for i := range rs {
						rs[i] = verbs.Recv{ID: uint64(i), Seg: verbs.Seg{R: o.reg, Off: i * recvSize, N: recvSize}}
					}
					_, err := c.PostRecv(rs)
					return err
				}
				p, _ := dialled(t, n, o.listen(t, options), request(true))
				p.frame(send(1, 0, true), nil)
				p.next()
				synctest.Wait()
				const rounds = 20
				var before, after verbs.Stats
				o.conn.Stats(&before)
				msn := uint32(1)
				for range rounds {
					var said []byte
					for range callers {
						msn++
						said = append(said, p.bytes(send(msn, 0, true), make([]byte, 100))...)
					}
					p.raw(said)
					for range callers {
						p.next()
					}
					synctest.Wait()
				}
				o.conn.Stats(&after)
				// A round is a read, and one that finds nothing more; and a write.
				if calls := after.ReadCalls - before.ReadCalls; calls > 2*rounds {
					t.Errorf("%d reads in %d rounds", calls, rounds)
				}
				if calls := after.WriteCalls - before.WriteCalls; calls != rounds {
					t.Errorf("%d writes in %d rounds", calls, rounds)
				}
				if got, want := after.Sends-before.Sends, callers*rounds; got != want {
					t.Errorf("%d answers, want %d", got, want)
				}
				_ = p.s.Close()
				o.wantGone(t, nil)
			})
		})
	}
}

// TestManyWindows: what a peer reads from many windows, as the segments of a chunk are, leaves in few calls, and a window
// whose memory moves meanwhile is read where it is now.
func TestManyWindows(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
		const windows, size = 8, 8 << 10 // as many as the peer said that it asks at once
		n.Buffer, n.Segment = 2*mib, 32741
		p, _ := dialled(t, n, o.listen(t, o.options(1)), request(true))
		p.frame(send(1, 0, true), nil)
		synctest.Wait()
		mem := o.reg.Bytes()
		for i := range mem[:windows*size] {
			mem[i] = byte(i*7 + i>>9)
		}
		want := bytes.Clone(mem[:windows*size])
		var ws [windows]verbs.Window
		var asked []byte
		for i := range ws {
			if err := o.conn.Expose(&ws[i], o.reg, i*size, size, verbs.RemoteRead); err != nil {
				t.Fatal(err)
			}
			asked = append(asked, p.bytes(read(uint32(1+i)), rdmap.Read{SinkSTag: uint32(i), Size: size, SourceSTag: ws[i].Key, SourceTO: ws[i].Addr}.Append(nil))...)
		}
		if !o.conn.(verbs.Detacher).Detach(&ws[5], make([]byte, size)) {
			t.Fatal("not detached")
		}
		clear(mem[5*size : 6*size])
		var before, after verbs.Stats
		o.conn.Stats(&before)
		p.raw(asked)
		for i := range ws {
			h, payload := p.next()
			if h.STag() != uint32(i) || !bytes.Equal(payload, want[i*size:(i+1)*size]) {
				t.Errorf("answer %d: STag %d, or wrong bytes", i, h.STag())
			}
		}
		o.conn.Stats(&after)
		if calls := after.WriteCalls - before.WriteCalls; calls > 2 { // the first request may be answered alone
			t.Errorf("%d calls for %d answers", calls, windows)
		}
		if copied := after.CopiedBytes - before.CopiedBytes; copied > windows*rdmap.ReadLen+4096 {
			t.Errorf("%d bytes copied", copied)
		}
		_ = p.s.Close()
		o.wantGone(t, nil)
	})
}

func gather(o *ours, n int) verbs.Work {
	return verbs.Work{Op: verbs.OpSend, Segs: []verbs.Seg{{R: o.reg, N: n}}}
}

// FuzzPeer lets a peer say anything after start-up: it may end its own connection, and that is
// all that may happen.
func FuzzPeer(f *testing.F) {
	for _, name := range []string{"write", "write.crc", "read.request", "send", "send.crc", "send.invalidate", "send.invalidate.crc"} {
		f.Add(siw(f, name), false)
		f.Add(siw(f, name), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, crc bool) {
		option := map[bool]string{false: "false", true: "true"}[crc]
		bubble(t, map[string]string{"crc": option}, func(t *testing.T, n *memory.Network, o *ours) {
			n.Buffer = mib
			p, _ := dialled(t, n, o.listen(t, o.options(2)), request(crc))
			p.raw(b)
			_ = p.s.CloseWrite()
			<-o.gone
			_ = p.s.Close()
		})
	})
}
