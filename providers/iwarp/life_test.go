package iwarp_test

import (
	"bytes"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
	"github.com/rpcrdma/rpcrdma/test/memory"
)

// TestLinger: Close waits for a peer that neither reads nor ends for as long as it was told.
func TestLinger(t *testing.T) {
	for _, c := range []struct {
		name  string
		reads bool // the peer takes what comes
		ends  bool // and ends
		want  time.Duration
	}{
		{"a peer that reads and ends", true, true, 0},
		{"a peer that reads and stays", true, false, 3 * time.Second},
		{"a peer that does nothing", false, false, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, map[string]string{"linger": "3s"}, func(t *testing.T, n *memory.Network, o *ours) {
				p, _ := dialled(t, n, o.listen(t, o.options(1)), request(true))
				p.frame(send(1, 0, true), nil)
				synctest.Wait()
				const size = 200_000
				o.conn.Post([]verbs.Work{{Op: verbs.OpSend, Segs: []verbs.Seg{{R: o.reg, N: size}}}})
				began := time.Now()
				if err := o.conn.Close(); err != nil {
					t.Fatal(err)
				}
				if _, err := o.conn.Post([]verbs.Work{{Op: verbs.OpSend}}); !errors.Is(err, net.ErrClosed) {
					t.Errorf("Post after Close: %v", err)
				}
				if c.reads {
					for got := 0; got < size; {
						_, b := p.next()
						got += len(b)
					}
				}
				if c.ends {
					_ = p.s.Close()
				}
				o.wantGone(t, nil)
				if took := time.Since(began); took != c.want {
					t.Errorf("it took %v, want %v", took, c.want)
				}
				want := verbs.OK
				if !c.reads {
					want = verbs.Flushed
				}
				if cp, _ := o.first(verbs.OpSend); cp.Status != want {
					t.Errorf("the Send ended %v, want %v", cp.Status, want)
				}
				_ = p.s.Close()
			})
		})
	}
}

// TestCloseWaitsForReads: a Read that was posted before Close gets its answer.
func TestCloseWaitsForReads(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
		p, _ := dialled(t, n, o.listen(t, o.options(1)), request(true))
		p.frame(send(1, 0, true), nil)
		synctest.Wait()
		o.conn.Post([]verbs.Work{{ID: 7, Op: verbs.OpRead, Key: 9, Segs: []verbs.Seg{{R: o.reg, Off: 9000, N: 3}, {R: o.reg, Off: 8000, N: 2}}}})
		o.conn.Close()
		_, body := p.next()
		r, _ := rdmap.ParseRead(body)
		time.Sleep(time.Second)
		p.frame(ddp.AppendTagged(nil, true, rdmap.Control(rdmap.ReadResponse), r.SinkSTag, r.SinkTO), []byte("hello"))
		synctest.Wait()
		_ = p.s.Close()
		o.wantGone(t, nil)
		if cp, _ := o.first(verbs.OpRead); cp.ID != 7 || cp.Status != verbs.OK {
			t.Errorf("the Read ended %+v", cp)
		}
		if got := o.reg.Bytes()[9000:9003]; string(got) != "hel" {
			t.Errorf("the first piece is %q", got)
		}
		if got := o.reg.Bytes()[8000:8002]; string(got) != "lo" {
			t.Errorf("the second piece is %q", got)
		}
	})
}

// TestDetachInsideFrame: the peer has begun a large frame and stalls. Detach returns at once,
// what was placed stays in the old memory untouched, and the rest goes to the spare.
func TestDetachInsideFrame(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
		p, _ := dialled(t, n, o.listen(t, o.options(1)), request(true))
		synctest.Wait()
		const size = 60_000
		var w verbs.Window
		if err := o.conn.Expose(&w, o.reg, 0, size, verbs.RemoteWrite); err != nil {
			t.Fatal(err)
		}
		h := write(w.Key, w.Addr)
		b := append([]byte{byte((len(h) + size) >> 8), byte((len(h) + size) & 0xff)}, h...)
		b = append(b, bytes.Repeat([]byte{0xaa}, size)...)
		b = append(b, make([]byte, mpa.Pad(len(h)+size))...)
		b = mpa.AppendCRC(b, mpa.Sum(0, b))
		p.raw(b[:20_000])
		synctest.Wait()
		began := time.Now()
		spare := make([]byte, size)
		if !o.conn.(verbs.Detacher).Detach(&w, spare) {
			t.Fatal("Detach says that the window is not in force")
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("Detach took %v", took)
		}
		clear(o.reg.Bytes()[:size])
		p.raw(b[20_000:])
		p.frame(send(1, 0, true), nil)
		synctest.Wait()
		if got := bytes.Count(o.reg.Bytes()[:size], []byte{0xaa}); got != 0 {
			t.Errorf("%d octets came to the old memory after Detach", got)
		}
		if got := bytes.Count(spare, []byte{0xaa}); got < size-20_000 {
			t.Errorf("%d octets came to the spare", got)
		}
		if cp, _ := o.first(verbs.OpRecv); cp.Status != verbs.OK || cp.ID != 100 {
			t.Errorf("the Send behind it: %+v", cp)
		}
		_ = p.s.Close()
		o.wantGone(t, nil)
	})
}

// TestDetachUnderAnswer: the peer has asked for what it does not take. Detach moves the
// answer's rest too, and the peer gets the bytes as they were.
func TestDetachUnderAnswer(t *testing.T) {
	bubble(t, map[string]string{"mtu": "65000"}, func(t *testing.T, n *memory.Network, o *ours) {
		n.Segment = 65000
		p, _ := dialled(t, n, o.listen(t, o.options(1)), request(true))
		synctest.Wait()
		const size = 300_000
		for i := range o.reg.Bytes()[:size] {
			o.reg.Bytes()[i] = byte(i * 7 >> 3)
		}
		want := bytes.Clone(o.reg.Bytes()[:size])
		var w verbs.Window
		if err := o.conn.Expose(&w, o.reg, 0, size, verbs.RemoteRead); err != nil {
			t.Fatal(err)
		}
		p.frame(read(1), rdmap.Read{SinkSTag: 5, SinkTO: 50, Size: size, SourceSTag: w.Key, SourceTO: w.Addr}.Append(nil))
		synctest.Wait() // 64 KiB of it are under way
		if !o.conn.(verbs.Detacher).Detach(&w, make([]byte, size)) {
			t.Fatal("Detach says that the window is not in force")
		}
		clear(o.reg.Bytes()[:size])
		var got []byte
		for len(got) < size {
			h, b := p.next()
			if h.STag() != 5 || h.TO() != 50+uint64(len(got)) || h.Last() != (len(got)+len(b) == size) {
				t.Fatalf("segment %v of %d at %d", h, len(b), len(got))
			}
			got = append(got, b...)
		}
		if !bytes.Equal(got, want) {
			t.Error("the peer read something else than what was there")
		}
		_ = p.s.Close()
		o.wantGone(t, nil)
	})
}

// frames is a Tap that keeps each direction's octets.
type frames struct {
	sent, got []byte
	count     int
}

func (f *frames) Frame(fr verbs.Frame) {
	f.count++
	for _, b := range fr.Parts {
		if fr.Sent {
			f.sent = append(f.sent, b...)
		} else {
			f.got = append(f.got, b...)
		}
	}
}

// TestTap: the frames of each direction, in order, are the stream.
func TestTap(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
		var tap frames
		opt := o.options(4)
		opt.Tap = &tap
		asks := request(true)
		p, _ := dialled(t, n, o.listen(t, opt), asks)
		from := len(asks)
		p.frame(send(1, 0, true), []byte("hello"))
		p.frame(send(2, 0, false), []byte("hel"))
		p.frame(send(2, 3, true), []byte("lo"))
		synctest.Wait()
		o.conn.Post([]verbs.Work{
			{Op: verbs.OpSend, Segs: []verbs.Seg{{R: o.reg, N: 50}, {R: o.reg, Off: 100, N: 0}, {R: o.reg, Off: 200, N: 7}}},
			{Op: verbs.OpWrite, Key: 1, Segs: []verbs.Seg{{R: o.reg, N: 20_000}}},
			{Op: verbs.OpRead, Key: 1, Segs: []verbs.Seg{{R: o.reg, N: 20_000}}},
		})
		o.conn.Flush()
		for {
			if h, _ := p.next(); rdmap.Op(h) == rdmap.ReadRequest {
				break
			}
		}
		if !bytes.Equal(tap.sent, p.got) {
			t.Errorf("%d octets tapped of what we sent, %d came", len(tap.sent), len(p.got))
		}
		if !bytes.HasPrefix(tap.got, asks) || int64(len(tap.got)) != p.s.(*memory.Stream).Written() {
			t.Errorf("%d octets tapped of what the peer sent, from %d on frames; it sent %d", len(tap.got), from, p.s.(*memory.Stream).Written())
		}
		_ = p.s.Close()
		o.wantGone(t, nil)
	})
}

// TestDelay: over a slow network a round trip is two delays, and nothing polls.
func TestDelay(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
		n.Delay = 20 * time.Millisecond
		far := &ours{end: end{dom: o.dom, reg: o.reg, gone: make(chan error, 1)}}
		began := time.Now()
		if _, err := o.dom.Dial(t.Context(), far.listen(t, far.options(1)), o.options(1)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 2*n.Delay {
			t.Errorf("start-up took %v", took)
		}
		began = time.Now()
		o.conn.Post([]verbs.Work{{Op: verbs.OpSend, Segs: []verbs.Seg{{R: o.reg, Off: 5000, N: 100}}}})
		o.conn.Flush()
		time.Sleep(n.Delay)
		synctest.Wait()
		if cp, _ := far.first(verbs.OpRecv); len(cp.Buf) != 100 {
			t.Errorf("after one delay: %+v", far.all)
		}
		o.conn.Close()
		o.wantGone(t, nil)
		far.wantGone(t, nil)
		if took := time.Since(began); took != 3*n.Delay {
			t.Errorf("the end took %v", took)
		}
	})
}
