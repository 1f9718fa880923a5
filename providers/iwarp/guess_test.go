package iwarp_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
	"github.com/rpcrdma/rpcrdma/test/memory"
)

// TestFramesOfAnySize lets a peer cut its messages into frames of one size, of any size, or of
// sizes that change, write a window in any order, and deliver it all in any pieces: each byte comes to
// where it belongs, and none elsewhere.
func TestFramesOfAnySize(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			crc := []string{"true", "false"}[seed%2]
			bubble(t, map[string]string{"crc": crc}, func(t *testing.T, n *memory.Network, o *ours) {
				n.Buffer = 8 * mib
				anySizes(t, rand.New(rand.NewPCG(seed, 1)), n, o, crc == "true")
			})
		})
	}
}

// anySizes is one such conversation. The slab holds 64 receives, then the window, then the sink.
func anySizes(t *testing.T, r *rand.Rand, n *memory.Network, o *ours, crc bool) {
	const recvs, window, sink = 64, 256 << 10, 640 << 10
	p, _ := dialled(t, n, o.listen(t, o.options(recvs)), request(crc))
	p.frame(send(1, 0, true), nil)
	synctest.Wait()
	fill := func(b []byte) {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}
	mem := o.reg.Bytes()
	fill(mem[window:])
	want := bytes.Clone(mem)
	written := make([]bool, len(mem))

	rights := verbs.RemoteWrite
	if r.IntN(4) > 0 {
		rights |= verbs.Scratch
	}
	var w verbs.Window
	if err := o.conn.Expose(&w, o.reg, window, sink-window, rights); err != nil {
		t.Fatal(err)
	}
	ask := 100<<10 + r.IntN(mib-sink-100<<10)
	segs := []verbs.Seg{{R: o.reg, Off: sink, N: ask / 3}, {R: o.reg, Off: sink + ask/3, N: ask - ask/3}}
	if _, err := o.conn.Post([]verbs.Work{{ID: 7, Op: verbs.OpRead, Segs: segs, Key: 1}}); err != nil {
		t.Fatal(err)
	}
	o.conn.Flush()
	h, body := p.next()
	req, ok := rdmap.ParseRead(body)
	if rdmap.Op(h) != rdmap.ReadRequest || !ok {
		t.Fatal(h)
	}

	// What the peer says, frame by frame; each message is whole before the next.
	out := &peer{t: t, crc: crc}
	var said [][]byte
	frame := func(header, payload []byte) { said = append(said, out.bytes(header, payload)) }
	usual, always := 16<<10+r.IntN(48<<10), r.IntN(2) > 0
	segments := func(n int, f func(off, n int, last bool)) {
		size, steady := usual, always
		if !always {
			size, steady = 1+r.IntN(60<<10), r.IntN(4) > 0
		}
		for off := 0; off < n; {
			k := min(size, n-off)
			f(off, k, off+k == n)
			if off += k; !steady {
				size = 1 + r.IntN(60<<10)
			}
		}
	}
	unmarked := r.IntN(3) == 0 // a peer that marks no Write's last segment
	tagged := func(op rdmap.Opcode, stag uint32, to uint64, b []byte) {
		segments(len(b), func(off, n int, last bool) {
			frame(ddp.AppendTagged(nil, last && !(unmarked && op == rdmap.Write), rdmap.Control(op), stag, to+uint64(off)), b[off:off+n])
		})
	}
	var sent [][]byte
	writes := func() {
		for range 1 + r.IntN(8) {
			off := window + r.IntN(sink-window-64<<10)
			b := make([]byte, 1+r.IntN(min(sink-off, 200<<10)))
			fill(b)
			copy(want[off:], b)
			for i := range b {
				written[off+i] = true
			}
			tagged(rdmap.Write, w.Key, w.Addr+uint64(off-window), b)
		}
		b := make([]byte, r.IntN(recvSize))
		fill(b)
		sent = append(sent, b)
		frame(send(uint32(1+len(sent)), 0, true), b)
	}
	writes()
	answer := make([]byte, ask)
	fill(answer)
	copy(want[sink:], answer)
	tagged(rdmap.ReadResponse, req.SinkSTag, req.SinkTO, answer)
	writes()

	for rest := slices.Concat(said...); len(rest) > 0; {
		k := min(1+r.IntN(300<<10), len(rest))
		p.raw(rest[:k])
		rest = rest[k:]
		if r.IntN(2) == 0 {
			synctest.Wait()
		}
	}
	synctest.Wait()

	if cp, ok := o.first(verbs.OpRead); !ok || cp.Status != verbs.OK {
		t.Errorf("the Read: %v, %v", cp, ok)
	}
	var got [][]byte
	for _, cp := range o.all {
		if cp.Op == verbs.OpRecv {
			got = append(got, cp.Buf)
		}
	}
	if len(got) != 1+len(sent) {
		t.Fatalf("%d messages came, want %d", len(got), 1+len(sent))
	}
	for i, b := range sent {
		if !bytes.Equal(got[1+i], b) {
			t.Errorf("message %d differs", i)
		}
	}
	for i := window; i < len(mem); i++ {
		free := i < sink && rights&verbs.Scratch != 0 && !written[i]
		if mem[i] != want[i] && !free {
			t.Fatalf("byte %d of the slab differs (window from %d, sink from %d, rights %d)", i, window, sink, rights)
		}
	}
	_ = p.s.Close()
	o.wantGone(t, nil)
}

// TestNothingCopied counts what a MiB costs that lies in the socket, in frames of full size: no
// byte of a payload goes through a buffer of ours but those read along with a header, and a system
// call takes two frames.
func TestNothingCopied(t *testing.T) {
	const size, full = mib / 2, 65472
	for _, op := range []rdmap.Opcode{rdmap.Write, rdmap.ReadResponse} {
		t.Run(op.String(), func(t *testing.T) {
			bubble(t, map[string]string{"crc": "false"}, func(t *testing.T, n *memory.Network, o *ours) {
				n.Buffer = 8 * mib
				p, _ := dialled(t, n, o.listen(t, o.options(2)), request(false))
				p.frame(send(1, 0, true), nil)
				synctest.Wait()
				var w verbs.Window
				if err := o.conn.Expose(&w, o.reg, mib/2, size, verbs.RemoteWrite|verbs.Scratch); err != nil {
					t.Fatal(err)
				}
				stag, to := w.Key, w.Addr
				if op == rdmap.ReadResponse {
					o.conn.Post([]verbs.Work{{Op: verbs.OpRead, Segs: []verbs.Seg{{R: o.reg, Off: mib / 2, N: size}}, Key: 1}})
					o.conn.Flush()
					_, body := p.next()
					req, _ := rdmap.ParseRead(body)
					stag, to = req.SinkSTag, req.SinkTO
				}
				data := make([]byte, size)
				for i := range data {
					data[i] = byte(i * 7)
				}
				var said []byte
				for off := 0; off < size; off += full {
					end := min(off+full, size)
					said = append(said, p.bytes(ddp.AppendTagged(nil, end == size, rdmap.Control(op), stag, to+uint64(off)), data[off:end])...)
				}
				var before, after verbs.Stats
				// The reader has the first header, then finds all the rest.
				p.raw(said[:100])
				synctest.Wait()
				o.conn.Stats(&before)
				p.raw(said[100:])
				synctest.Wait()
				o.conn.Stats(&after)
				if !bytes.Equal(o.reg.Bytes()[mib/2:], data) {
					t.Error("the memory differs")
				}
				if copied := after.CopiedBytes - before.CopiedBytes; copied > 4<<10 {
					t.Errorf("%d bytes copied", copied)
				}
				// Two frames each, and one that finds no more.
				if calls := after.ReadCalls - before.ReadCalls; calls > 6 {
					t.Errorf("%d calls", calls)
				} else {
					t.Logf("%d calls, %d bytes copied", calls, after.CopiedBytes-before.CopiedBytes)
				}
				_ = p.s.Close()
				o.wantGone(t, nil)
			})
		})
	}
}

// TestWrongGuesses: what follows is not what was expected, and nothing that was placed is lost.
func TestWrongGuesses(t *testing.T) {
	const k = 32 << 10
	type segment struct {
		off, n int
		last   bool
	}
	for name, segments := range map[string][]segment{
		"the peer jumps within a message":              {{0, k, false}, {2 * k, k, false}, {4 * k, k, true}},
		"it jumps back":                                {{k, k, false}, {0, k, true}},
		"a message again, shorter":                     {{2 * k, k, false}, {3 * k, k, true}, {2 * k, k, false}, {3 * k, 1000, true}},
		"a message before another, with a short end":   {{2 * k, k, false}, {3 * k, k, true}, {0, k, false}, {k, k, false}, {2 * k, 1000, true}},
		"the last segment is the window's, and longer": {{0, k, false}, {k, k + 4096, true}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
				n.Buffer = 8 * mib
				p, _ := dialled(t, n, o.listen(t, o.options(2)), request(true))
				p.frame(send(1, 0, true), nil)
				synctest.Wait()
				var w verbs.Window
				if err := o.conn.Expose(&w, o.reg, mib/2, 6*k, verbs.RemoteWrite|verbs.Scratch); err != nil {
					t.Fatal(err)
				}
				want, written := make([]byte, 6*k), make([]bool, 6*k)
				var said []byte
				for i, s := range segments {
					b := bytes.Repeat([]byte{byte(i + 1)}, s.n)
					copy(want[s.off:], b)
					for j := range b {
						written[s.off+j] = true
					}
					said = append(said, p.bytes(ddp.AppendTagged(nil, s.last, rdmap.Control(rdmap.Write), w.Key, w.Addr+uint64(s.off)), b)...)
				}
				p.raw(said[:100])
				synctest.Wait()
				p.raw(append(said[100:], p.bytes(send(2, 0, true), []byte("done"))...))
				synctest.Wait()
				if cp := o.all[len(o.all)-1]; string(cp.Buf) != "done" {
					t.Errorf("the Send behind it: %+v", cp)
				}
				for i, b := range o.reg.Bytes()[mib/2:][:6*k] {
					if written[i] && b != want[i] {
						t.Fatalf("byte %d is %d, want %d", i, b, want[i])
					}
				}
				_ = p.s.Close()
				o.wantGone(t, nil)
			})
		})
	}
}
