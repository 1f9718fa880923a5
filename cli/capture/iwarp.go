package capture

import (
	"bytes"
	"fmt"
	"net/netip"
	"time"

	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
)

// Event is something that a capture shows of an iWARP connection. One of SetUp, Send, Read,
// Terminate, Problem and End is set.
type Event struct {
	Packet   int // in which it became complete
	Time     time.Time
	Conn     int // from 1, in the order of their beginning
	From, To netip.AddrPort
	Asked    bool // From made the connection

	SetUp     *mpa.Frame
	Send      []byte // a Send's message, valid until the next packet
	Op        rdmap.Opcode
	STag      uint32 // what a Send With Invalidate names
	Read      *rdmap.Read
	Terminate *rdmap.Termination
	Problem   string // what is wrong with the connection's bytes; nothing more comes of this direction
	End       bool   // FIN or RST
}

// Totals count what makes no events.
type Totals struct {
	Packets, Connections      int
	Earlier                   int // TCP connections that were there before the capture
	Other                     int // TCP connections that are no iWARP
	Cut                       int // packets captured in part
	Sends, Invalidates        int
	Writes, WriteBytes        uint64 // messages of RDMA Write
	Reads, ReadBytes          uint64 // Read Responses
	FPDUs, WithCRC, BadCRC    uint64
	OutOfOrder, Retransmitted int
}

// Finder follows the iWARP connections of a capture from their start.
type Finder struct {
	Totals
	// Frame, if not nil, is called with every whole MPA frame, start-up frames and FPDUs. begun is the packet that
	// its first byte came in: packets from begun to e.Packet share it. b is valid until it returns.
	Frame func(e Event, b []byte, begun int)

	conns   map[[2]netip.AddrPort]*conn
	earlier map[[2]netip.AddrPort]bool
	emit    func(Event)
}

// conn is one TCP connection that may be iWARP's.
type conn struct {
	number  int // 0: not known to be iWARP
	client  netip.AddrPort
	crc     bool
	refused bool
	ways    [2]way // of the client, of the server
}

// way is one direction.
type way struct {
	flow
	begun   bool   // SYN seen
	set     bool   // MPA's frame is through
	dead    bool   // no iWARP, or broken
	pending []byte // bytes of a frame that is not complete
	first   int    // packet of its first byte
	msg     []byte // of a Send in progress
	ended   bool
}

// NewFinder calls emit with every event.
func NewFinder(emit func(Event)) *Finder {
	return &Finder{conns: map[[2]netip.AddrPort]*conn{}, earlier: map[[2]netip.AddrPort]bool{}, emit: emit}
}

// maxMessage bounds a Send put together; RFC 8797 knows none longer.
const maxMessage = 1 << 20

// Packet takes the next packet of the capture.
func (f *Finder) Packet(p Packet) {
	f.Packets++
	if !p.Whole {
		f.Cut++
	}
	s, ok := tcp(p)
	if !ok {
		return
	}
	key, to := [2]netip.AddrPort{s.src, s.dst}, 0
	if s.src.Compare(s.dst) > 0 {
		key = [2]netip.AddrPort{s.dst, s.src}
	}
	c := f.conns[key]
	if s.flags&(flagSYN|flagACK) == flagSYN && (c == nil || c.ways[0].ended || c.ways[1].ended || s.src != c.client || c.ways[0].next != s.seq+1) {
		c = &conn{client: s.src}
		f.conns[key] = c
	}
	if c == nil {
		if len(s.payload) > 0 && !f.earlier[key] {
			f.earlier[key] = true
			f.Earlier++
		}
		return
	}
	if s.src != c.client {
		to = 1
	}
	w := &c.ways[to]
	if s.flags&flagSYN != 0 {
		if !w.begun {
			w.begin(s.seq)
			w.begun = true
		}
		s.seq++
	}
	if !w.begun || w.dead {
		return
	}
	at := Event{Packet: p.Number, Time: p.Time, From: s.src, To: s.dst, Asked: to == 0}
	if d := int32(s.seq - w.next); len(s.payload) > 0 && d > 0 {
		f.OutOfOrder++
	} else if len(s.payload) > 0 && d < 0 {
		f.Retransmitted++
	}
	w.add(s.seq, s.payload, func(b []byte) { f.bytes(c, w, to, b, at) })
	if w.lost && !w.dead {
		f.problem(c, w, at, "segments are missing in the capture")
	}
	if s.flags&(flagFIN|flagRST) != 0 && !w.ended {
		w.ended = true
		if c.number > 0 && !w.dead {
			if len(w.later) > 0 {
				f.problem(c, w, at, "segments are missing in the capture")
			}
			at.Conn, at.End = c.number, true
			f.emit(at)
		}
	}
}

func (f *Finder) problem(c *conn, w *way, at Event, format string, args ...any) {
	w.dead, w.pending, w.msg, w.later = true, nil, nil, nil
	if c.number > 0 {
		at.Conn, at.Problem = c.number, fmt.Sprintf(format, args...)
		f.emit(at)
	}
}

func (f *Finder) bytes(c *conn, w *way, to int, b []byte, at Event) {
	if w.dead {
		return
	}
	first := at.Packet
	if len(w.pending) > 0 {
		w.pending = append(w.pending, b...)
		b, first = w.pending, w.first
	}
	rest := f.frames(c, w, to, b, at, first)
	if w.dead {
		return
	}
	if len(rest) < len(b) {
		first = at.Packet
	}
	w.first = first
	w.pending = append(w.pending[:0], rest...)
}

// frames takes whole frames off the front of b.
// first is the packet that b begins in.
func (f *Finder) frames(c *conn, w *way, to int, b []byte, at Event, first int) (rest []byte) {
	if !w.set {
		n, err := mpa.Length(b, to == 1)
		if err != nil {
			if to == 0 || c.number == 0 {
				f.Other++ // one of many other protocols
				c.ways[0].dead, c.ways[1].dead = true, true
				return nil
			}
			f.problem(c, w, at, "instead of an MPA reply: %v", err)
			return nil
		}
		if n == 0 || len(b) < n {
			return b
		}
		frame, err := mpa.Parse(b[:n], to == 1)
		if err != nil {
			f.problem(c, w, at, "%v", err)
			return nil
		}
		frame.Private = bytes.Clone(frame.Private)
		w.set = true
		if to == 0 {
			f.Connections++
			c.number = f.Connections
		} else {
			c.crc, c.refused = frame.CRC, frame.Rejected
		}
		e := at
		e.Conn, e.SetUp = c.number, &frame
		f.whole(e, b[:n], first)
		f.emit(e)
		b, first = b[n:], at.Packet
	}
	at.Conn = c.number
	for len(b) >= mpa.LengthLen && !w.dead {
		n := mpa.FPDULen(mpa.ULPDULen(b))
		if len(b) < n {
			break
		}
		f.whole(at, b[:n], first)
		f.fpdu(c, w, b[:n], at)
		b, first = b[n:], at.Packet
	}
	return b
}

func (f *Finder) whole(at Event, b []byte, begun int) {
	if f.Frame != nil {
		f.Frame(at, b, begun)
	}
}

// fpdu is one DDP segment with MPA's frame around it.
func (f *Finder) fpdu(c *conn, w *way, b []byte, at Event) {
	f.FPDUs++
	if c.crc {
		f.WithCRC++
		if mpa.CRC(b[len(b)-mpa.CRCLen:]) != mpa.Sum(0, b[:len(b)-mpa.CRCLen]) {
			f.BadCRC++
			f.problem(c, w, at, "an FPDU with a wrong CRC")
			return
		}
	}
	h, payload, ok := ddp.Cut(b[mpa.LengthLen : mpa.LengthLen+mpa.ULPDULen(b)])
	if !ok {
		f.problem(c, w, at, "an FPDU too short for a DDP header")
		return
	}
	at.Op = rdmap.Op(h)
	if h.Tagged() {
		n, msgs := &f.WriteBytes, &f.Writes
		if at.Op == rdmap.ReadResponse {
			n, msgs = &f.ReadBytes, &f.Reads
		}
		*n += uint64(len(payload))
		if h.Last() {
			*msgs++
		}
		return
	}
	switch {
	case at.Op == rdmap.ReadRequest:
		if r, ok := rdmap.ParseRead(payload); ok {
			at.Read = &r
			f.emit(at)
		}
	case at.Op == rdmap.Terminate:
		t, _ := rdmap.ParseTermination(payload)
		at.Terminate = &t
		f.emit(at)
	case at.Op.IsSend():
		if int(h.MO()) != len(w.msg) || len(w.msg)+len(payload) > maxMessage {
			f.problem(c, w, at, "a Send's segment for offset %d, but %d bytes are there", h.MO(), len(w.msg))
			return
		}
		w.msg = append(w.msg, payload...)
		if !h.Last() {
			return
		}
		f.Sends++
		if at.Op.Invalidates() {
			f.Invalidates++
			at.STag = h.ULP2()
		}
		at.Send = w.msg
		f.emit(at)
		w.msg = w.msg[:0]
	default:
		f.problem(c, w, at, "an untagged segment of %v", at.Op)
	}
}
