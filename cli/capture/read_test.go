package capture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
)

type sink struct{ bytes.Buffer }

func (*sink) Close() error { return nil }

// frame wraps a Send's segment as MPA does, with or without a CRC.
func frame(crc, last bool, msn, mo uint32, payload string) []byte {
	ulpdu := append(ddp.AppendUntagged(nil, last, rdmap.Control(rdmap.Send), 0, ddp.QueueSend, msn, mo), payload...)
	b := binary.BigEndian.AppendUint16(nil, uint16(len(ulpdu)))
	b = append(b, ulpdu...)
	b = append(b, make([]byte, mpa.Pad(len(ulpdu)))...)
	if !crc {
		return append(b, 0, 0, 0, 0)
	}
	return mpa.AppendCRC(b, mpa.Sum(0, b))
}

// sample is a connection with Sends both ways, as File writes it.
func sample(crc bool) []byte {
	var s sink
	f := New(&s)
	local, remote := netip.MustParseAddrPort("10.0.0.1:1000"), netip.MustParseAddrPort("10.0.0.2:20049")
	offer := mpa.Frame{Revision: 2, Enhanced: true, CRC: crc, Private: []byte("private")}
	reply := offer
	reply.Reply = true
	f.Frame(piece(local, remote, true, offer.Append(nil)))
	f.Frame(piece(local, remote, false, reply.Append(nil)))
	f.Frame(piece(local, remote, true, frame(crc, false, 1, 0, "hello, "), frame(crc, true, 1, 7, "server")))
	f.Frame(piece(local, remote, false, frame(crc, true, 1, 0, "hello, client")))
	f.Close()
	return s.Bytes()
}

// shown reads a capture to its end and tells what it shows.
func shown(t testing.TB, file []byte) (got []string, totals Totals) {
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	f := NewFinder(func(e Event) {
		switch {
		case e.SetUp != nil:
			got = append(got, fmt.Sprintf("%d reply=%v %s", e.Conn, e.SetUp.Reply, e.SetUp.Private))
		case e.Send != nil:
			got = append(got, fmt.Sprintf("%d asked=%v %s", e.Conn, e.Asked, e.Send))
		case e.Problem != "":
			got = append(got, e.Problem)
		}
	})
	for {
		p, err := r.Next()
		if err == io.EOF {
			return got, f.Totals
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Packet(p)
	}
}

var want = fmt.Sprint([]string{"1 reply=false private", "1 reply=true private", "1 asked=true hello, server", "1 asked=false hello, client"})

// packets takes a capture apart; order may put them otherwise.
func packets(t *testing.T, file []byte) (ps []Packet) {
	r, err := NewReader(bytes.NewReader(file))
	for err == nil {
		var p Packet
		if p, err = r.Next(); err == nil {
			p.Data = bytes.Clone(p.Data)
			ps = append(ps, p)
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	return ps
}

// pcap writes the old format.
func pcap(order binary.AppendByteOrder, magic uint32, ps []Packet) []byte {
	b := order.AppendUint32(nil, magic)
	b = order.AppendUint16(order.AppendUint16(b, 2), 4)
	b = append(b, make([]byte, 8)...)
	b = order.AppendUint32(order.AppendUint32(b, 1<<16), linkEthernet)
	for _, p := range ps {
		n := uint32(len(p.Data) + 14)
		b = order.AppendUint32(order.AppendUint32(b, 1000), 5)
		b = order.AppendUint32(order.AppendUint32(b, n), n)
		b = append(append(b, make([]byte, 12)...), 8, 0)
		b = append(b, p.Data...)
	}
	return b
}

func TestRead(t *testing.T) {
	for _, crc := range []bool{false, true} {
		file := sample(crc)
		if got, n := shown(t, file); fmt.Sprint(got) != want || n.Sends != 2 || n.BadCRC != 0 || crc != (n.WithCRC == 3) {
			t.Errorf("CRC %v: %q, %+v", crc, got, n)
		}
		ps := packets(t, file)
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			for _, magic := range []uint32{0xa1b2c3d4, 0xa1b23c4d} {
				if got, _ := shown(t, pcap(order, magic, ps)); fmt.Sprint(got) != want {
					t.Errorf("%v %x: %q", order, magic, got)
				}
			}
		}
		// Segments in another order, and each twice.
		mixed := append([]Packet{}, ps...)
		mixed[5], mixed[6] = mixed[6], mixed[5]
		var twice []Packet
		for _, p := range mixed {
			twice = append(twice, p, p)
		}
		if got, n := shown(t, pcap(binary.LittleEndian, 0xa1b2c3d4, twice)); len(got) != 4 || n.Retransmitted == 0 {
			t.Errorf("doubled: %q, %+v", got, n)
		}
		// From the middle on there is nothing to be known.
		if got, n := shown(t, pcap(binary.LittleEndian, 0xa1b2c3d4, ps[4:])); len(got) != 0 || n.Earlier != 1 {
			t.Errorf("from the middle: %q, %+v", got, n)
		}
	}
	p := packets(t, sample(false))
	if at := p[0].Time; time.Since(at) > time.Minute || p[0].Number != 1 {
		t.Errorf("time %v of packet %d", at, p[0].Number)
	}
}

// TestFlow delivers a stream that arrives cut, doubled, overlapping and in any order.
func TestFlow(t *testing.T) {
	text := make([]byte, 5000)
	for i := range text {
		text[i] = byte(i * 7)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		const isn = 0xfffff000 // the numbers wrap
		type piece struct{ at, n int }
		var pieces []piece
		for at := 0; at < len(text); {
			n := min(1+r.IntN(300), len(text)-at)
			pieces = append(pieces, piece{at, n})
			if lap := r.IntN(3); lap == 0 && at > 50 {
				pieces = append(pieces, piece{at - 50, 50 + n/2})
			}
			at += n
		}
		r.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		var f flow
		f.begin(isn)
		var got []byte
		for _, p := range pieces {
			f.add(uint32(isn+1+p.at), text[p.at:p.at+p.n], func(b []byte) { got = append(got, b...) })
		}
		if !bytes.Equal(got, text) || len(f.later) != 0 || f.held != 0 {
			t.Fatalf("%d bytes of %d, equal %v; %d segments and %d bytes are left", len(got), len(text), bytes.Equal(got, text), len(f.later), f.held)
		}
	}
}

func TestBadCRC(t *testing.T) {
	file := sample(true)
	at := bytes.Index(file, []byte("hello, client"))
	file[at] ^= 1
	if got, n := shown(t, file); n.BadCRC != 1 || got[len(got)-1] != "an FPDU with a wrong CRC" {
		t.Errorf("%q, %+v", got, n)
	}
}

func TestNoCapture(t *testing.T) {
	file := sample(false)
	for _, b := range [][]byte{nil, []byte("GET / HTTP/1.1"), file[:3]} {
		if _, err := NewReader(bytes.NewReader(b)); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %v", b, err)
		}
	}
	r, err := NewReader(bytes.NewReader(file[:len(file)-9]))
	for err == nil {
		_, err = r.Next()
	}
	if !errors.Is(err, ErrFormat) {
		t.Errorf("a file that breaks off: %v", err)
	}
}

// FuzzRead reads anything as a capture, and anything as a connection's bytes.
func FuzzRead(f *testing.F) {
	f.Add(sample(false))
	f.Add(sample(true))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := NewReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		find := NewFinder(func(Event) {})
		for {
			p, err := r.Next()
			if err != nil {
				return
			}
			find.Packet(p)
		}
	})
}
