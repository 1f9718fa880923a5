package iwarp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
	"github.com/rpcrdma/rpcrdma/test/memory"
	"github.com/rpcrdma/rpcrdma/test/unhex"
)

// TestFaults: what a peer may not do, what it is told, and what the user is told.
func TestFaults(t *testing.T) {
	type setup struct {
		p    *peer
		w    verbs.Window // 512 octets the peer may write, at the slab's middle
		r    verbs.Window // 512 octets the peer may read
		conn verbs.Conn
	}
	ask := func(size uint32, stag uint32, to uint64) []byte {
		return rdmap.Read{SinkSTag: 1, Size: size, SourceSTag: stag, SourceTO: to}.Append(nil)
	}
	for _, c := range []struct {
		name  string
		does  func(s *setup)
		fault rdmap.Fault
		err   error
	}{
		{"RFC 5044 §8: a wrong CRC", func(s *setup) {
			s.p.crc = false
			s.p.frame(send(1, 0, true), []byte("hello"))
			s.p.crc = true
		}, rdmap.FaultMPACRC, verbs.ErrProtocol},
		{"RFC 5041 §8.2: no receive posted", func(s *setup) {
			for i := range 3 {
				s.p.frame(send(uint32(1+i), 0, true), []byte("hello"))
			}
		}, rdmap.DDPFault(ddp.FaultNoBuffer), verbs.ErrNoReceive},
		{"longer than the receive", func(s *setup) {
			s.p.frame(send(1, 0, true), make([]byte, recvSize+1))
		}, rdmap.DDPFault(ddp.FaultTooLong), verbs.ErrTooLong},
		{"longer than the receive, in its second segment", func(s *setup) {
			s.p.frame(send(1, 0, false), make([]byte, recvSize))
			s.p.frame(send(1, recvSize, true), []byte{1})
		}, rdmap.DDPFault(ddp.FaultTooLong), verbs.ErrTooLong},
		{"MSN out of order", func(s *setup) { s.p.frame(send(2, 0, true), nil) }, rdmap.DDPFault(ddp.FaultMSN), verbs.ErrProtocol},
		{"MO out of order", func(s *setup) { s.p.frame(send(1, 8, true), nil) }, rdmap.DDPFault(ddp.FaultMO), verbs.ErrProtocol},
		{"queue 3", func(s *setup) {
			s.p.frame(ddp.AppendUntagged(nil, true, rdmap.Control(rdmap.Send), 0, 3, 1, 0), nil)
		}, rdmap.DDPFault(ddp.FaultQN), verbs.ErrProtocol},
		{"DDP version 2", func(s *setup) {
			h := send(1, 0, true)
			h[0] = 0x42
			s.p.frame(h, nil)
		}, rdmap.DDPFault(ddp.FaultUntaggedVersion), verbs.ErrProtocol},
		{"RDMAP version 2", func(s *setup) {
			h := send(1, 0, true)
			h[1] |= 0x80
			s.p.frame(h, nil)
		}, rdmap.FaultVersion, verbs.ErrProtocol},
		{"opcode 9", func(s *setup) {
			s.p.frame(ddp.AppendUntagged(nil, true, 0x49, 0, 0, 1, 0), nil)
		}, rdmap.FaultOpcode, verbs.ErrProtocol},
		{"a ULPDU without a header", func(s *setup) { s.p.frame([]byte{0x41}, nil) }, rdmap.FaultCatastrophic, verbs.ErrProtocol},
		{"a Read Response that nobody asked for", func(s *setup) {
			s.p.frame(ddp.AppendTagged(nil, true, rdmap.Control(rdmap.ReadResponse), 1, 0), []byte{1})
		}, rdmap.FaultOpcode, verbs.ErrProtocol},
		{"a Read Request of 27 octets", func(s *setup) { s.p.frame(read(1), make([]byte, 27)) }, rdmap.DDPFault(ddp.FaultTooLong), verbs.ErrTooLong},
		{"RFC 5040 §7.2: a Write to an STag that is none", func(s *setup) {
			s.p.frame(write(s.w.Key^1, s.w.Addr), []byte{1})
		}, rdmap.FaultSTag, verbs.ErrRemoteAccess},
		{"a Write to STag 0", func(s *setup) { s.p.frame(write(0, s.w.Addr), []byte{1}) }, rdmap.FaultSTag, verbs.ErrRemoteAccess},
		{"a Write below the window", func(s *setup) { s.p.frame(write(s.w.Key, s.w.Addr-1), []byte{1}) }, rdmap.FaultBounds, verbs.ErrRemoteAccess},
		{"a Write past its end", func(s *setup) { s.p.frame(write(s.w.Key, s.w.Addr+512), []byte{1}) }, rdmap.FaultBounds, verbs.ErrRemoteAccess},
		{"a Write across its end", func(s *setup) { s.p.frame(write(s.w.Key, s.w.Addr+500), make([]byte, 13)) }, rdmap.FaultBounds, verbs.ErrRemoteAccess},
		{"a Write whose address wraps", func(s *setup) { s.p.frame(write(s.w.Key, 1<<64-1), make([]byte, 13)) }, rdmap.FaultBounds, verbs.ErrRemoteAccess},
		{"a Write to what may only be read", func(s *setup) { s.p.frame(write(s.r.Key, s.r.Addr), []byte{1}) }, rdmap.FaultAccess, verbs.ErrRemoteAccess},
		{"a Read of what may only be written", func(s *setup) { s.p.frame(read(1), ask(1, s.w.Key, s.w.Addr)) }, rdmap.FaultAccess, verbs.ErrRemoteAccess},
		{"a Read of 4 GiB", func(s *setup) { s.p.frame(read(1), ask(1<<32-1, s.r.Key, s.r.Addr)) }, rdmap.FaultBounds, verbs.ErrRemoteAccess},
		{"a Read whose address wraps", func(s *setup) { s.p.frame(read(1), ask(512, s.r.Key, 1<<64-100)) }, rdmap.FaultBounds, verbs.ErrRemoteAccess},
		{"Invalidate of what is none of ours", func(s *setup) {
			s.p.frame(ddp.AppendUntagged(nil, true, rdmap.Control(rdmap.SendInvalidate), 77, 0, 1, 0), nil)
		}, rdmap.FaultInvalidate, verbs.ErrRemoteAccess},
		{"a message that changes its kind", func(s *setup) {
			s.p.frame(send(1, 0, false), []byte("hel"))
			s.p.frame(ddp.AppendUntagged(nil, true, rdmap.Control(rdmap.SendSolicited), 0, 0, 1, 3), []byte("lo"))
		}, rdmap.FaultOpcode, verbs.ErrProtocol},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
				p, _ := dialled(t, n, o.listen(t, o.options(2)), request(true))
				synctest.Wait()
				s := &setup{p: p, conn: o.conn}
				if err := errors.Join(o.conn.Expose(&s.w, o.reg, mib/2, 512, verbs.RemoteWrite),
					o.conn.Expose(&s.r, o.reg, mib/2+512, 512, verbs.RemoteRead)); err != nil {
					t.Fatal(err)
				}
				before := bytes.Clone(o.reg.Bytes()[mib/2:])
				c.does(s)
				p.wantTerminate(c.fault)
				err := o.wantGone(t, c.err)
				var te *verbs.TerminatedError
				if !errors.As(err, &te) || te.Remote || te.Layer != c.fault.LayerName() || te.Code != c.fault.Text() {
					t.Errorf("Disconnected(%v): want our own %s: %s", err, c.fault.LayerName(), c.fault.Text())
				}
				if !bytes.Equal(o.reg.Bytes()[mib/2:], before) {
					t.Error("memory was written")
				}
			})
		})
	}
}

// TestTooManyReads: the depth that was agreed bounds what we keep for a peer.
func TestTooManyReads(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
		n.Buffer = 4096 // the answers do not leave
		p, f := dialled(t, n, o.listen(t, o.options(0)), request(true))
		synctest.Wait()
		var w verbs.Window
		if err := o.conn.Expose(&w, o.reg, 0, mib, verbs.RemoteRead); err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			if i > 2*int(f.Depths.IRD)+1 {
				break
			}
			p.frame(read(uint32(1+i)), rdmap.Read{SinkSTag: 1, Size: mib, SourceSTag: w.Key, SourceTO: w.Addr}.Append(nil))
		}
		err := o.wantGone(t, verbs.ErrNoReceive)
		var te *verbs.TerminatedError
		if !errors.As(err, &te) || te.Layer != "DDP" {
			t.Errorf("%v", err)
		}
	})
}

// TestTerminated: what the peer tells us, as RFC 5040 has it and as siw sends it.
func TestTerminated(t *testing.T) {
	header := ddp.AppendUntagged(nil, true, rdmap.Control(rdmap.ReadRequest), 0, ddp.QueueRead, 2, 0)
	for _, c := range []struct {
		name        string
		payload     []byte
		layer, code string
		err         error
		status      verbs.Status // of the second of two Reads
	}{
		{"RFC 5040 §4.8: the second Read refused", rdmap.Termination{Fault: rdmap.FaultBounds, Segment: 46, Header: header, Read: make([]byte, 28)}.Append(nil),
			"RDMAP", "base or bounds violation", verbs.ErrRemoteAccess, verbs.RemoteAccess},
		{"siw: a message too long", unhex.Octets(t, "21020300 0578 0143 00000000 00000000 00000001 00000af0"),
			"DDP", "no buffer available", verbs.ErrNoReceive, verbs.Flushed},
		{"no header", unhex.Octets(t, "12050000"), "DDP", "DDP message too long", verbs.ErrTooLong, verbs.Flushed},
		{"an error that no specification has", unhex.Octets(t, "13770000"), "DDP", "error type 3 code 0x77", verbs.ErrProtocol, verbs.Flushed},
		{"nothing", nil, "RDMAP", "unspecified operation error", verbs.ErrProtocol, verbs.Flushed},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
				p, _ := dialled(t, n, o.listen(t, o.options(1)), request(true))
				p.frame(send(1, 0, true), nil)
				synctest.Wait()
				o.conn.Post([]verbs.Work{
					{ID: 1, Op: verbs.OpRead, Key: 9, Segs: []verbs.Seg{{R: o.reg, N: 8}}},
					{ID: 2, Op: verbs.OpRead, Key: 9, Segs: []verbs.Seg{{R: o.reg, N: 8}}},
				})
				o.conn.Flush()
				p.next()
				p.next()
				p.frame(ddp.AppendUntagged(nil, true, rdmap.Control(rdmap.Terminate), 0, ddp.QueueTerminate, 1, 0), c.payload)
				err := o.wantGone(t, c.err)
				var te *verbs.TerminatedError
				if !errors.As(err, &te) || !te.Remote || te.Layer != c.layer || te.Code != c.code {
					t.Errorf("Disconnected(%v), want the peer's %s: %s", err, c.layer, c.code)
				}
				for _, cp := range o.all {
					if want := map[uint64]verbs.Status{1: verbs.Flushed, 2: c.status}[cp.ID]; cp.Op == verbs.OpRead && cp.Status != want {
						t.Errorf("Read %d: %v, want %v", cp.ID, cp.Status, want)
					}
				}
				_ = p.s.Close()
			})
		})
	}
}

// TestReadyToReceive: the message by which a peer-to-peer initiator lets us send is not for
// the user, and before it we do not (RFC 6581 §9, RFC 5044 §7.1.3).
func TestReadyToReceive(t *testing.T) {
	for _, c := range []struct {
		name string
		rtr  mpa.RTR
		says []byte
		body []byte
		msn  uint32 // of the first Send
	}{
		{"a Send", mpa.RTRSend, send(1, 0, true), nil, 2},
		{"a Write", mpa.RTRWrite, write(0, 0), nil, 1},
		{"a Read", mpa.RTRRead, read(1), rdmap.Read{}.Append(nil), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
				ask := mpa.Frame{Revision: 2, CRC: true, Enhanced: true, Depths: mpa.Depths{PeerToPeer: true, RTR: c.rtr}}
				p, f := dialled(t, n, o.listen(t, o.options(1)), ask.Append(nil))
				if !f.Depths.PeerToPeer || f.Depths.RTR != c.rtr {
					t.Errorf("replied %+v", f.Depths)
				}
				synctest.Wait()
				o.conn.Post([]verbs.Work{{Op: verbs.OpSend, Segs: []verbs.Seg{{R: o.reg, Off: 4096, N: 3}}}})
				o.conn.Flush()
				time.Sleep(time.Minute)
				if len(o.all) > 0 {
					t.Errorf("%v before the peer was heard", o.all)
				}
				p.frame(c.says, c.body)
				var answers []rdmap.Opcode
				for range 1 + len(c.body)/rdmap.ReadLen {
					h, _ := p.next()
					answers = append(answers, rdmap.Op(h))
				}
				t.Log(answers)
				p.frame(send(c.msn, 0, true), []byte("hello"))
				synctest.Wait()
				if cp, _ := o.first(verbs.OpRecv); cp.ID != 100 || string(cp.Buf) != "hello" {
					t.Errorf("the first receive carries %+v", cp)
				}
				_ = p.s.Close()
				o.wantGone(t, nil)
			})
		})
	}
}

// notes are what an end tells those who observe it.
type (
	notes []note
	note  struct {
		what verbs.Note
		arg  int64
	}
)

// TestStreamFaults: what the network does to both ends of ours.
func TestStreamFaults(t *testing.T) {
	for _, c := range []struct {
		name           string
		fault          func(dialled, accepted *memory.Stream)
		dialler, other error // Disconnected's, at least
		notes          [2]notes
	}{
		{"an octet changed on the way there", func(d, _ *memory.Stream) { d.Flip(24+20+100, 0x10) }, verbs.ErrProtocol, verbs.ErrProtocol,
			[2]notes{{{verbs.NoteTerminateRecv, 0x020002}}, {{verbs.NoteCorrupt, 0}, {verbs.NoteTerminateSent, 0x020002}}}},
		{"an octet of a header changed", func(d, _ *memory.Stream) { d.Flip(24+2, 0x80) }, verbs.ErrProtocol, verbs.ErrProtocol,
			[2]notes{{{verbs.NoteTerminateRecv, 0x020002}}, {{verbs.NoteCorrupt, 0}, {verbs.NoteTerminateSent, 0x020002}}}},
		{"cut within a frame", func(d, _ *memory.Stream) { d.CutAt(24 + 500) }, syscall.ECONNRESET, syscall.ECONNRESET, [2]notes{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
				n.Made = c.fault
				d, err := o.dom, error(nil)
				far := &ours{end: end{dom: d, reg: o.reg, gone: make(chan error, 1)}}
				var noted [2]notes // read when both ends are gone
				options := func(e *ours, to *notes) verbs.Options {
					opt := e.options(1)
					opt.Note = func(n verbs.Note, arg int64) { *to = append(*to, note{n, arg}) }
					return opt
				}
				addr := far.listen(t, options(far, &noted[1]))
				if _, err = d.Dial(t.Context(), addr, options(o, &noted[0])); err != nil {
					t.Fatal(err)
				}
				o.conn.Post([]verbs.Work{{Op: verbs.OpSend, Segs: []verbs.Seg{{R: o.reg, Off: 4096, N: 900}}}})
				o.conn.Flush()
				err = <-far.gone
				if !errors.Is(err, c.other) {
					t.Errorf("the acceptor: %v, want %v", err, c.other)
				}
				if err = <-o.gone; !errors.Is(err, c.dialler) {
					t.Errorf("the dialler: %v, want %v", err, c.dialler)
				}
				if cp, ok := far.first(verbs.OpRecv); ok && cp.Status == verbs.OK {
					t.Error("the message was delivered")
				}
				for i := range noted {
					if !slices.Equal(noted[i], c.notes[i]) {
						t.Errorf("end %d noted %v, want %v", i, noted[i], c.notes[i])
					}
				}
			})
		})
	}
}

// TestEndInsideFrame: a peer that ends its stream within a frame is not an orderly one.
func TestEndInsideFrame(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
		p, _ := dialled(t, n, o.listen(t, o.options(1)), request(true))
		p.raw([]byte{0, 30, 0x41})
		_ = p.s.CloseWrite()
		o.wantGone(t, io.ErrUnexpectedEOF)
		_ = p.s.Close()
	})
}

// hooked is a network where a write of an accepted stream calls what is hooked in.
type hooked struct {
	memory.Network
	before func() // ahead of each write
	full   func() // a write finds no room, and comes back after this
}

func (n *hooked) Listen(ctx context.Context, addr string, admit func(netip.Addr) bool) (stream.Listener, error) {
	l, err := n.Network.Listen(ctx, addr, admit)
	return hookedListener{l, n}, err
}

type hookedListener struct {
	stream.Listener
	n *hooked
}

func (l hookedListener) Accept() (stream.Stream, error) {
	s, err := l.Listener.Accept()
	return hookedStream{s, l.n}, err
}

type hookedStream struct {
	stream.Stream
	n *hooked
}

func (s hookedStream) Write(try func() bool) error {
	if s.n.before != nil {
		s.n.before()
	}
	return s.Stream.Write(try)
}

// Writev of nothing takes nothing: who goes on until something is taken never ends.
func (s hookedStream) Writev(v [][]byte) (int, error) {
	if s.n.full != nil {
		s.n.full()
		return 0, stream.ErrAgain
	}
	n := 0
	for _, b := range v {
		n += len(b)
	}
	if n == 0 {
		return 0, errors.New("nothing is written")
	}
	return s.Stream.Writev(v)
}

// hookable runs f in simulated time with a connection on a hooked network, whose peer has sent a message; nothing is
// hooked in yet.
func hookable(t *testing.T, f func(t *testing.T, n *hooked, p *peer, o *ours)) {
	synctest.Test(t, func(t *testing.T) {
		n := &hooked{}
		o := opened(t, n, nil)
		p, _ := dialled(t, &n.Network, o.listen(t, o.options(1)), request(true))
		p.frame(send(1, 0, true), []byte("hello"))
		synctest.Wait()
		f(t, n, p, o)
		if err := o.dom.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestFlushWhileEnding: a Flush that comes late, while a connection that a fault has ended says its last words, takes
// nothing of them away.
func TestFlushWhileEnding(t *testing.T) {
	hookable(t, func(t *testing.T, n *hooked, p *peer, o *ours) {
		n.before = func() { o.conn.Flush() }
		p.frame(write(1, 0), []byte("where no window is"))
		p.wantTerminate(rdmap.FaultSTag)
		o.wantGone(t, verbs.ErrRemoteAccess)
	})
}

// TestEndWhileFlushing: a connection ends while a Flush finds no room in the socket; the writer has gone by then, and who
// flushes must let go of the role, or the connection is never buried.
func TestEndWhileFlushing(t *testing.T) {
	hookable(t, func(t *testing.T, n *hooked, _ *peer, o *ours) {
		n.full = func() {
			o.conn.Abort(nil)
			time.Sleep(time.Second) // until everybody else waits or has gone
		}
		o.conn.Post([]verbs.Work{{Op: verbs.OpSend, Segs: []verbs.Seg{{R: o.reg, Off: 4096, N: 900}}}})
		o.conn.Flush()
		o.wantGone(t, nil)
	})
}

// TestFlushForOthers: who flushes writes for others too, who post meanwhile, but not without end; what is left then leaves
// by itself.
func TestFlushForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, most = 64 << 10, 300
		n := &hooked{Network: memory.Network{Buffer: 2 * most * size}} // there is always room
		o := opened(t, n, nil)
		p, _ := dialled(t, &n.Network, o.listen(t, o.options(1)), request(true))
		p.frame(send(1, 0, true), nil)
		synctest.Wait()
		one := []verbs.Work{{Op: verbs.OpWrite, Key: 1, Segs: []verbs.Seg{{R: o.reg, N: size}}}}
		var posted int
		var flushed atomic.Bool
		n.before = func() {
			time.Sleep(time.Millisecond) // whoever flushed has returned by then, if it is not him
			if posted < most && !flushed.Load() {
				posted++
				o.conn.Post(one)
			}
		}
		o.conn.Post(one)
		o.conn.Flush()
		flushed.Store(true)
		if posted == most {
			t.Errorf("a Flush wrote all of %d works that others posted meanwhile", posted)
		}
		for got := 0; got < (1+posted)*size; {
			_, b := p.next()
			got += len(b)
		}
		_ = p.s.Close()
		o.wantGone(t, nil)
		if err := o.dom.Close(); err != nil {
			t.Error(err)
		}
	})
}
