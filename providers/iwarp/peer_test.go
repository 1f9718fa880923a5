package iwarp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/ddp"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/rdmap"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
	"github.com/rpcrdma/rpcrdma/test/memory"
	"github.com/rpcrdma/rpcrdma/test/unhex"
)

// siw gives a frame of a capture by its name.
func siw(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/siw.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			return unhex.Octets(t, f[1])
		}
	}
	t.Fatalf("no frame %s", name)
	return nil
}

// peer is the other end in a test's hands: it says what the test lets it say.
type peer struct {
	t   *testing.T
	s   stream.Stream
	crc bool
	got []byte // everything that came
	at  int    // of it, what the test has seen
}

func (p *peer) raw(b []byte) {
	p.t.Helper()
	for len(b) > 0 {
		var n int
		var err error
		if e := p.s.Write(func() bool { n, err = p.s.Writev([][]byte{b}); return err != stream.ErrAgain }); e != nil || err != nil {
			p.t.Fatalf("peer's write: %v, %v", e, err)
		}
		b = b[n:]
	}
}

// take waits for n more octets.
func (p *peer) take(n int) ([]byte, error) {
	for len(p.got)-p.at < n {
		b := make([]byte, 64<<10)
		var k int
		var err error
		if e := p.s.Read(func() bool { k, err = p.s.Readv([][]byte{b}); return err != stream.ErrAgain }); e != nil {
			return nil, e
		}
		if err != nil {
			return nil, err
		}
		p.got = append(p.got, b[:k]...)
	}
	b := p.got[p.at : p.at+n]
	p.at += n
	return b, nil
}

func (p *peer) octets(n int) []byte {
	p.t.Helper()
	b, err := p.take(n)
	if err != nil {
		p.t.Fatalf("peer's read: %v", err)
	}
	return b
}

// ends wants nothing more from us but err.
func (p *peer) ends(want error) {
	p.t.Helper()
	if b, err := p.take(1); !errors.Is(err, want) {
		p.t.Errorf("the stream goes on with %x, %v; want %v", b, err, want)
	}
}

// frame sends one FPDU.
func (p *peer) frame(header, payload []byte) {
	p.t.Helper()
	p.raw(p.bytes(header, payload))
}

// bytes is such a frame.
func (p *peer) bytes(header, payload []byte) []byte {
	n := len(header) + len(payload)
	b := []byte{byte(n >> 8), byte(n)}
	b = append(append(b, header...), payload...)
	b = append(b, make([]byte, mpa.Pad(n))...)
	sum := uint32(0)
	if p.crc {
		sum = mpa.Sum(0, b)
	}
	return mpa.AppendCRC(b, sum)
}

func send(msn, mo uint32, last bool) []byte {
	return ddp.AppendUntagged(nil, last, rdmap.Control(rdmap.Send), 0, ddp.QueueSend, msn, mo)
}

func write(stag uint32, to uint64) []byte {
	return ddp.AppendTagged(nil, true, rdmap.Control(rdmap.Write), stag, to)
}

func read(msn uint32) []byte {
	return ddp.AppendUntagged(nil, true, rdmap.Control(rdmap.ReadRequest), 0, ddp.QueueRead, msn, 0)
}

// next wants one FPDU, and checks what every frame of ours must hold.
func (p *peer) next() (ddp.Header, []byte) {
	p.t.Helper()
	head := p.octets(mpa.LengthLen)
	n := mpa.ULPDULen(head)
	whole := append(bytes.Clone(head), p.octets(mpa.FPDULen(n)-mpa.LengthLen)...)
	if mss := p.s.MSS(); len(whole) > mss && mss <= 16<<10 {
		p.t.Errorf("a frame of %d octets where a segment carries %d", len(whole), mss)
	}
	body, sum := whole[:len(whole)-mpa.CRCLen], whole[len(whole)-mpa.CRCLen:]
	want := uint32(0)
	if p.crc {
		want = mpa.Sum(0, body)
	}
	if mpa.CRC(sum) != want {
		p.t.Errorf("CRC %#x, want %#x", mpa.CRC(sum), want)
	}
	h, payload, ok := ddp.Cut(whole[mpa.LengthLen : mpa.LengthLen+n])
	if !ok {
		p.t.Fatalf("a ULPDU of %d octets", n)
	}
	if f := rdmap.Check(h); f != 0 {
		p.t.Errorf("%v: %s", h, f.Text())
	}
	return h, payload
}

// wantTerminate wants f to be told, then the end.
func (p *peer) wantTerminate(f rdmap.Fault) rdmap.Termination {
	p.t.Helper()
	h, payload := p.next()
	if rdmap.Op(h) != rdmap.Terminate {
		p.t.Fatalf("%v instead of a Terminate", h)
	}
	t, ok := rdmap.ParseTermination(payload)
	if !ok || t.Fault != f {
		p.t.Errorf("Terminate says %s: %s, want %s: %s", t.Fault.LayerName(), t.Fault.Text(), f.LayerName(), f.Text())
	}
	p.ends(io.EOF)
	_ = p.s.Close()
	return t
}

// ours is our end of a connection with a peer.
type ours struct {
	end
	all []verbs.Completion
}

func (o *ours) Complete(cs []verbs.Completion) {
	for _, cp := range cs {
		cp.Buf = bytes.Clone(cp.Buf)
		o.all = append(o.all, cp)
	}
}

// is finds the first completion of the kind.
func (o *ours) first(op verbs.Op) (verbs.Completion, bool) {
	for _, cp := range o.all {
		if cp.Op == op {
			return cp, true
		}
	}
	return verbs.Completion{}, false
}

const recvSize = 1024

// bubble runs f in simulated time with a domain of ours on a network in memory.
func bubble(t *testing.T, options map[string]string, f func(t *testing.T, n *memory.Network, o *ours)) {
	synctest.Test(t, func(t *testing.T) {
		n := &memory.Network{}
		o := opened(t, n, options)
		f(t, n, o)
		if err := o.dom.Close(); err != nil {
			t.Error(err)
		}
	})
}

// opened is a domain of ours on n, with memory.
func opened(t *testing.T, n stream.Network, options map[string]string) *ours {
	t.Helper()
	d, err := iwarp.New(n).Open(t.Context(), "", options)
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.Alloc(mib)
	if err != nil {
		t.Fatal(err)
	}
	return &ours{end: end{dom: d, reg: r, gone: make(chan error, 1)}}
}

// options post recvs receives at the slab's start.
func (o *ours) options(recvs int) verbs.Options {
	return verbs.Options{Handler: o, Ready: func(c verbs.Conn) error {
		o.conn = c
		rs := make([]verbs.Recv, recvs)
		for i := range rs {
			rs[i] = verbs.Recv{ID: uint64(100 + i), Seg: verbs.Seg{R: o.reg, Off: i * recvSize, N: recvSize}}
		}
		_, err := c.PostRecv(rs)
		return err
	}}
}

// listen accepts one connection when it comes.
func (o *ours) listen(t *testing.T, options verbs.Options) (addr string) {
	t.Helper()
	l, err := o.dom.Listen(t.Context(), "127.0.0.1:0", verbs.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		r, err := l.Accept(context.Background())
		if err != nil {
			return
		}
		if _, err := r.Accept(context.Background(), options); err != nil {
			t.Errorf("Accept: %v", err)
		}
	}()
	return l.Addr().String()
}

// dialled is a peer that has dialled us, said request and heard our reply.
func dialled(t *testing.T, n *memory.Network, addr string, request []byte) (*peer, mpa.Frame) {
	t.Helper()
	s, err := n.Dial(t.Context(), "", addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, s: s}
	p.raw(request)
	head := p.octets(mpa.HeaderLen)
	whole, err := mpa.Length(head, true)
	if err != nil {
		t.Fatal(err)
	}
	f, err := mpa.Parse(append(bytes.Clone(head), p.octets(whole-len(head))...), true)
	if err != nil {
		t.Fatal(err)
	}
	p.crc = f.CRC
	return p, f
}

// request is an MPA request as we send it ourselves.
func request(crc bool) []byte {
	return mpa.Offer{Revision: 2, CRC: crc, Reads: 4, Reading: 4}.Request(nil).Append(nil)
}

// wantGone wants Disconnected, with an error that is want; nil wants nil.
func (o *ours) wantGone(t *testing.T, want error) error {
	t.Helper()
	err := <-o.gone
	if !errors.Is(err, want) {
		t.Errorf("Disconnected(%v), want %v", err, want)
	}
	return err
}
