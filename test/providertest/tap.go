package providertest

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

var tapChecks = []check{
	{name: "Tap gets what passes, in order, with the link's type and the connection's addresses", run: func(w *world) {
		var ta, tb tap
		a, b := w.connect(link{a: verbs.Options{Tap: &ta}, b: verbs.Options{Tap: &tb}})
		texts := [][]byte{[]byte("a text that can be found in frames"), []byte("and one that follows")}
		for i, text := range texts {
			a.do(send(a.mem(text)))
			b.message(i)
		}
		a.conn.Close()
		a.disconnected()
		b.disconnected()
		w.tapped(&ta, a.conn)
		w.tapped(&tb, b.conn)
		for _, got := range [][]byte{ta.bytes(true), tb.bytes(false)} {
			first := bytes.Index(got, texts[0])
			if second := bytes.Index(got, texts[1]); first < 0 || second < first {
				w.Errorf("the messages are at %d and %d of %d bytes that were tapped", first, second, len(got))
			}
		}
	}},
}

// tap keeps all frames.
type tap struct {
	mu     sync.Mutex
	frames []verbs.Frame
}

func (t *tap) Frame(f verbs.Frame) {
	f.Parts = [][]byte{slices.Concat(f.Parts...)}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frames = append(t.frames, f)
}

// bytes are those of one direction.
func (t *tap) bytes(sent bool) (all []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.frames {
		if f.Sent == sent {
			all = append(all, f.Parts[0]...)
		}
	}
	return all
}

// tapped checks what comes with the bytes.
func (w *world) tapped(t *tap, c verbs.Conn) {
	w.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, f := range t.frames {
		if f.Link != t.frames[0].Link || f.Link < verbs.LinkTCP || f.Link > verbs.LinkMessage {
			w.Errorf("frame %d is of link type %d, the first of %d", i, f.Link, t.frames[0].Link)
		}
		if f.Local != c.LocalAddr() || f.Remote != c.RemoteAddr() {
			w.Errorf("frame %d is between %v and %v, the connection between %v and %v", i, f.Local, f.Remote, c.LocalAddr(), c.RemoteAddr())
		}
		if f.First != (i == 0) {
			w.Errorf("frame %d: First is %v", i, f.First)
		}
		if f.Link == verbs.LinkIP {
			w.packet(i, f)
		}
	}
}

// packet checks that a frame is a whole IP packet between its addresses.
func (w *world) packet(i int, f verbs.Frame) {
	w.Helper()
	b := f.Parts[0]
	var length int
	var from, to netip.Addr
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		length, from, to = int(binary.BigEndian.Uint16(b[2:])), netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
	case len(b) >= 40 && b[0]>>4 == 6:
		length, from, to = 40+int(binary.BigEndian.Uint16(b[4:])), netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	}
	if !f.Sent {
		from, to = to, from
	}
	if length != len(b) || from != f.Local.Addr().Unmap() || to != f.Remote.Addr().Unmap() {
		w.Errorf("frame %d is no IP packet of %d bytes between %v and %v: %d, %v and %v", i, len(b), f.Local, f.Remote, length, from, to)
	}
}
