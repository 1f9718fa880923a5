package rdmap

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
	"github.com/rpcrdma/rpcrdma/test/unhex"
)

func tagged(op Opcode) ddp.Header { return ddp.AppendTagged(nil, true, Control(op), 1, 2) }

func untagged(op Opcode, qn uint32) ddp.Header {
	return ddp.AppendUntagged(nil, true, Control(op), 0, qn, 1, 0)
}

func TestCheck(t *testing.T) {
	version0 := untagged(Send, 0)
	version0[1] &= 0x3f
	for _, c := range []struct {
		name string
		h    ddp.Header
		want Fault
	}{
		{"RFC 5040 §4.3 Write", tagged(Write), 0},
		{"Read Response", tagged(ReadResponse), 0},
		{"Read Request", untagged(ReadRequest, ddp.QueueRead), 0},
		{"Send", untagged(Send, ddp.QueueSend), 0},
		{"Send with Invalidate", untagged(SendInvalidate, ddp.QueueSend), 0},
		{"Send with Solicited Event", untagged(SendSolicited, ddp.QueueSend), 0},
		{"Send with Solicited Event and Invalidate", untagged(SendSolicitedInvalidate, ddp.QueueSend), 0},
		{"Terminate", untagged(Terminate, ddp.QueueTerminate), 0},
		{"a Send that is tagged", tagged(Send), FaultOpcode},
		{"a Write that is not", untagged(Write, ddp.QueueSend), FaultOpcode},
		{"opcode 8", untagged(8, ddp.QueueSend), FaultOpcode},
		{"opcode 15", tagged(15), FaultOpcode},
		{"a Send on the queue of Reads", untagged(Send, ddp.QueueRead), DDPFault(ddp.FaultQN)},
		{"a Read Request on the queue of Sends", untagged(ReadRequest, ddp.QueueSend), DDPFault(ddp.FaultQN)},
		{"a Terminate on the queue of Sends", untagged(Terminate, ddp.QueueSend), DDPFault(ddp.FaultQN)},
		{"RFC 5040 §4.1 version 0", version0, FaultVersion},
		{"DDP's faults come first", untagged(Send, 7), DDPFault(ddp.FaultQN)},
	} {
		if got := Check(c.h); got != c.want {
			t.Errorf("%s: %v %s, want %v %s", c.name, got.LayerName(), got.Text(), c.want.LayerName(), c.want.Text())
		}
	}
}

// TestReadOfSiw: knfsd pulls a Read chunk of 5000 octets.
func TestReadOfSiw(t *testing.T) {
	b := unhex.Octets(t, "98235901ffff88801f98300000001388f44b470356fd34a7029b6000")
	r, ok := ParseRead(b)
	want := Read{SinkSTag: 0x98235901, SinkTO: 0xffff88801f983000, Size: 5000, SourceSTag: 0xf44b4703, SourceTO: 0x56fd34a7029b6000}
	if !ok || r != want {
		t.Errorf("%+v, %t; want %+v", r, ok, want)
	}
	if got := r.Append(nil); !bytes.Equal(got, b) {
		t.Errorf("re-encoded %x from %x", got, b)
	}
	for _, n := range []int{0, 27, 29} {
		if _, ok := ParseRead(make([]byte, n)); ok {
			t.Errorf("%d octets make a Read Request", n)
		}
	}
}

func TestMessage(t *testing.T) {
	send := func(op Opcode, inv uint32) ddp.Header {
		return ddp.AppendUntagged(nil, false, Control(op), inv, 0, 1, 0)
	}
	for _, c := range []struct {
		name       string
		first, and ddp.Header
		want       Fault
		stag       uint32
		invalidate bool
	}{
		{"a Send goes on as a Send", send(Send, 0), send(Send, 0), 0, 0, false},
		{"not as another kind", send(Send, 0), send(SendSolicited, 0), FaultOpcode, 0, false},
		{"RFC 5040 §4.2: an STag in a plain Send means nothing", send(Send, 7), send(Send, 8), 0, 0, false},
		{"each segment names the STag", send(SendInvalidate, 7), send(SendInvalidate, 7), 0, 7, true},
		{"not another", send(SendSolicitedInvalidate, 7), send(SendSolicitedInvalidate, 8), FaultOpcode, 7, true},
	} {
		var m Message
		m.Begin(c.first)
		stag, ok := m.Invalidates()
		if f := m.Continues(c.and); f != c.want || stag != c.stag || ok != c.invalidate {
			t.Errorf("%s: %v, %#x, %t", c.name, f, stag, ok)
		}
	}
}

// TestSink plays the answer to one Read of 100 octets.
func TestSink(t *testing.T) {
	type segment struct {
		stag uint32
		to   uint64
		n    int
		last bool
		want Fault
		done bool
	}
	bounds, stag := DDPFault(ddp.FaultBounds), DDPFault(ddp.FaultSTag)
	for _, c := range []struct {
		name     string
		size     int
		segments []segment
	}{
		{"whole", 100, []segment{{9, 1000, 100, true, 0, true}}},
		{"in pieces", 100, []segment{{9, 1000, 60, false, 0, false}, {9, 1060, 40, true, 0, true}}},
		{"of nothing", 0, []segment{{9, 1000, 0, true, 0, true}}},
		{"another STag", 100, []segment{{8, 1000, 100, true, stag, false}}},
		{"too much", 100, []segment{{9, 1000, 101, true, bounds, false}}},
		{"too little", 100, []segment{{9, 1000, 99, true, bounds, false}}},
		{"all, and not the last", 100, []segment{{9, 1000, 100, false, bounds, false}}},
		{"out of order", 100, []segment{{9, 1060, 40, false, bounds, false}}},
		{"the same bytes again", 100, []segment{{9, 1000, 60, false, 0, false}, {9, 1000, 40, true, bounds, false}}},
		{"below the start", 100, []segment{{9, 999, 100, true, bounds, false}}},
		{"nothing, for ever", 100, []segment{{9, 1000, 0, false, bounds, false}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Sink{STag: 9, TO: 1000, Size: c.size}
			for i, x := range c.segments {
				h := ddp.Header(ddp.AppendTagged(nil, x.last, Control(ReadResponse), x.stag, x.to))
				f := s.Next(h, x.n)
				done := false
				if f == 0 {
					if at := s.Offset(h); at != int(x.to-1000) {
						t.Errorf("segment %d belongs at %d", i, at)
					}
					done = s.Take(x.n)
				}
				if f != x.want || done != x.done {
					t.Fatalf("segment %d: %v %s, done %t", i, f, f.Text(), done)
				}
			}
		})
	}
}

func TestTermination(t *testing.T) {
	segment := ddp.Header(unhex.Octets(t, "0143000000000000000000000001"+"00000af0"))
	read := ddp.Header(ddp.AppendUntagged(nil, true, Control(ReadRequest), 0, 1, 3, 0))
	body := Read{Size: 1}.Append(nil)
	for _, c := range []struct {
		name, hex string
		want      Termination
		ours      bool // and we send it so
	}{
		{"RFC 5040 §4.8: DDP message too long, with the header", "1205c000" + "0578" + hex.EncodeToString(segment),
			Termination{Fault: DDPFault(ddp.FaultTooLong), Segment: 0x578, Header: segment}, true},
		{"siw swaps the halves of each octet", "21020300" + "0578" + hex.EncodeToString(segment),
			Termination{Fault: DDPFault(ddp.FaultNoBuffer), Segment: 0x578, Header: segment}, false},
		{"a Read refused, with its request", "0100e000" + "002e" + hex.EncodeToString(read) + hex.EncodeToString(body),
			Termination{Fault: FaultSTag, Segment: 0x2e, Header: read, Read: body}, true},
		{"siw's form of it", "10000700" + "002e" + hex.EncodeToString(read) + hex.EncodeToString(body),
			Termination{Fault: FaultSTag, Segment: 0x2e, Header: read, Read: body}, false},
		{"no header: RFC 5040's order", "01020000", Termination{Fault: FaultAccess}, true},
		{"no header: what RFC 5040's order cannot mean", "21020000", Termination{Fault: DDPFault(ddp.FaultNoBuffer)}, false},
		{"MPA CRC error", "20020000", Termination{Fault: FaultMPACRC}, true},
		{"header announced and cut short", "1205c000" + "0578" + "0143", Termination{Fault: DDPFault(ddp.FaultTooLong), Segment: 0x578}, false},
		{"length announced and not there", "1205c000", Termination{Fault: DDPFault(ddp.FaultTooLong)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := unhex.Octets(t, c.hex)
			got, ok := ParseTermination(b)
			if !ok || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v (%s: %s), want %+v", got, got.Fault.LayerName(), got.Fault.Text(), c.want)
			}
			if again := c.want.Append(nil); c.ours && !bytes.Equal(again, b) {
				t.Errorf("encoded %x, want %x", again, b)
			}
		})
	}
	if _, ok := ParseTermination([]byte{0x12, 5, 0}); ok {
		t.Error("three octets make a control word")
	}
}

func TestProtection(t *testing.T) {
	for f, want := range map[Fault]bool{
		FaultSTag: true, FaultBounds: true, FaultAccess: true, FaultInvalidate: true, DDPFault(ddp.FaultBounds): true,
		DDPFault(ddp.FaultTooLong): false, FaultOpcode: false, FaultMPACRC: false, MakeFault(0, 2, 9): true,
	} {
		if f.Protection() != want {
			t.Errorf("%s %s: protection %t", f.LayerName(), f.Text(), !want)
		}
	}
}

func FuzzParseRead(f *testing.F) {
	f.Add(unhex.Octets(f, "98235901ffff88801f98300000001388f44b470356fd34a7029b6000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, ok := ParseRead(b); ok && !bytes.Equal(r.Append(nil), b) {
			t.Fatalf("re-encoded %x from %x", r.Append(nil), b)
		}
	})
}

func FuzzParseTermination(f *testing.F) {
	f.Add(unhex.Octets(f, "2102030005780143000000000000000000000001"+"00000af0"))
	f.Add(unhex.Octets(f, "1205c00005780143000000000000000000000001"+"00000af0"))
	f.Add(unhex.Octets(f, "20020000"))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, ok := ParseTermination(b)
		if !ok {
			return
		}
		if x.Header == nil && x.Read != nil || x.Segment != 0 && x.Header == nil || faultTexts[x.Fault] == "" {
			return // said less than it could: nothing that we would send
		}
		if y, ok := ParseTermination(x.Append(nil)); !ok || !reflect.DeepEqual(x, y) {
			t.Fatalf("%x: %+v, then %+v", b, x, y)
		}
	})
}
