package oracle

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/wire"
)

// describe is h in the driver's words.
func describe(h *wire.Header) string {
	var w words
	w.add(h.XID, h.Version, h.Credit, uint32(h.Proc))
	v2 := h.Version == wire.Version2
	switch h.Proc {
	case wire.Msg, wire.NoMsg:
		if v2 {
			w.add(uint32(h.Direction), h.InvHandle)
		}
		describeLists(&w, &h.Lists)
	case wire.MsgP:
		w.add(h.Align, h.Thresh)
		describeLists(&w, &h.Lists)
	case wire.ErrorMsg:
		e := h.Err
		w.add(uint32(e.Code))
		switch {
		case e.Code == wire.ErrVers:
			w.add(e.Low, e.High)
		case !v2:
		case e.Code == wire.ErrReadChunks, e.Code == wire.ErrWriteChunks, e.Code == wire.ErrSegments:
			w.add(e.Max)
		case e.Code == wire.ErrWriteResource:
			w.add(e.Index, e.Needed)
		case e.Code == wire.ErrReplyResource:
			w.add(e.Needed)
		}
	case wire.Optional:
		w.add(uint32(h.Direction), h.OptType)
		w.hex(h.OptInfo)
	case wire.ConnProp:
		describeProps(&w, h.Props)
		describeSubset(&w, h.NoChange)
	case wire.ReqProp, wire.UpdProp:
		describeProps(&w, h.Props)
	case wire.RespProp:
		describeSubset(&w, h.DoneSet)
		describeSubset(&w, h.Rejected)
		describeProps(&w, h.Props)
	}
	return w.String()
}

func describeLists(w *words, l *wire.Lists) {
	w.add(uint32(len(l.Reads)))
	for _, s := range l.Reads {
		w.add(s.Position, s.Handle, s.Length)
		w.u64(s.Offset)
	}
	w.add(uint32(len(l.Writes)))
	for _, c := range l.Writes {
		describeChunk(w, c)
	}
	if !l.HasReply {
		w.add(0)
		return
	}
	w.add(1)
	describeChunk(w, l.Reply)
}

func describeChunk(w *words, c wire.Chunk) {
	w.add(uint32(len(c)))
	for _, s := range c {
		w.add(s.Handle, s.Length)
		w.u64(s.Offset)
	}
}

func describeProps(w *words, ps []wire.Property) {
	w.add(uint32(len(ps)))
	for _, p := range ps {
		w.add(p.ID)
		w.hex(p.Data)
	}
}

func describeSubset(w *words, s wire.Subset) {
	w.add(uint32(len(s)))
	w.add(s...)
}

// agree asks that C and we write and read h alike.
func (d *driver) agree(t testing.TB, h *wire.Header) []byte {
	t.Helper()
	if err := h.Check(); err != nil {
		t.Fatalf("%v: %v", h, err)
	}
	b := h.Append(nil)
	if len(b) != h.Len() {
		t.Fatalf("%v: %d bytes, Len %d", h, len(b), h.Len())
	}
	d.same(t, fmt.Sprint(h.Version), describe(h), b)
	var back wire.Header
	n, err := back.Parse(b, wire.ProfileCel04)
	if err != nil || n != len(b) || describe(&back) != describe(h) {
		t.Fatalf("%x\nparsed %v, %d of %d, %v", b, &back, n, len(b), err)
	}
	return b
}

type random struct{ *rand.Rand }

func seeded(t *testing.T) random {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return random{rand.New(rand.NewPCG(seed, 0))}
}

func (r random) segment() wire.Segment {
	s := wire.Segment{Handle: r.Uint32(), Length: r.Uint32(), Offset: r.Uint64()}
	if r.IntN(8) == 0 {
		s.Length = []uint32{0, 1, 0xffffffff}[r.IntN(3)]
	}
	return s
}

func (r random) chunk(n int) wire.Chunk {
	c := wire.Chunk{}
	for range n {
		c = append(c, r.segment())
	}
	return c
}

func (r random) reads(n int) (rs []wire.ReadSegment) {
	pos := uint32(0)
	for range n {
		if r.IntN(2) == 0 {
			pos = r.Uint32() &^ 3
		}
		rs = append(rs, wire.ReadSegment{Position: pos, Segment: r.segment()})
	}
	return rs
}

func (r random) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (r random) props(n int) (ps []wire.Property) {
	for range n {
		ps = append(ps, wire.Property{ID: r.Uint32(), Data: r.bytes(r.IntN(10))})
	}
	return ps
}

func (r random) subset(n int) (s wire.Subset) {
	for range n {
		s = append(s, r.Uint32())
	}
	return s
}

func (r random) fixed(version uint32, p wire.Proc) *wire.Header {
	return &wire.Header{XID: r.Uint32(), Version: version, Credit: r.Uint32(), Proc: p}
}

// body fills what the procedure has beside lists and error.
func (r random) body(h *wire.Header) {
	switch h.Proc {
	case wire.Msg, wire.NoMsg, wire.MsgP:
		if h.Version == wire.Version2 {
			h.Direction, h.InvHandle = wire.Direction(r.IntN(2)), r.Uint32()
		} else if h.Proc == wire.MsgP {
			h.Align, h.Thresh = r.Uint32(), r.Uint32()
		}
	case wire.Optional:
		h.Direction, h.OptType = wire.Direction(r.IntN(2)), r.Uint32()
		h.OptInfo = r.bytes(r.IntN(40))
	case wire.ConnProp:
		h.Props, h.NoChange = r.props(r.IntN(4)), r.subset(r.IntN(3))
	case wire.ReqProp, wire.UpdProp:
		h.Props = r.props(r.IntN(4))
	case wire.RespProp:
		h.DoneSet, h.Rejected, h.Props = r.subset(r.IntN(3)), r.subset(r.IntN(3)), r.props(r.IntN(4))
	}
}

var procs = map[uint32][]wire.Proc{
	wire.Version1: {wire.Msg, wire.NoMsg, wire.MsgP, wire.Done, wire.ErrorMsg},
	wire.Version2: {wire.Msg, wire.NoMsg, wire.ErrorMsg, wire.Optional,
		wire.ConnProp, wire.ReqProp, wire.RespProp, wire.UpdProp},
}

// TestLists: every combination of lists that are absent, empty, short and longer, in every
// procedure that has them.
func TestLists(t *testing.T) {
	d, r := start(t), seeded(t)
	writes := [][]int{{}, {0}, {1}, {3}, {0, 0}, {1, 0}, {0, 2}, {1, 1}, {2, 3, 1}}
	n := 0
	for version, ps := range procs {
		for _, p := range ps {
			if p > wire.MsgP {
				continue
			}
			for _, reads := range []int{0, 1, 2, 5} {
				for _, sizes := range writes {
					for reply := -1; reply <= 3; reply++ {
						h := r.fixed(version, p)
						r.body(h)
						h.Reads = r.reads(reads)
						for _, k := range sizes {
							h.Writes = append(h.Writes, r.chunk(k))
						}
						if reply >= 0 {
							h.Reply, h.HasReply = r.chunk(reply), true
						}
						if p == wire.NoMsg && h.Lists.Empty() {
							continue
						}
						d.agree(t, h)
						n++
					}
				}
			}
		}
	}
	t.Logf("%d headers", n)
}

// TestErrors: every error body of both versions, and ERR_VERS under other version numbers.
func TestErrors(t *testing.T) {
	d, r := start(t), seeded(t)
	for range 20 {
		for code := wire.ErrVers; code <= wire.ErrSystem; code++ {
			for _, version := range []uint32{1, 2} {
				if version == 1 && code > wire.ErrChunk {
					continue
				}
				h := r.fixed(version, wire.ErrorMsg)
				h.Err.Code = code
				switch {
				case code == wire.ErrVers:
					h.Err.Low, h.Err.High = r.Uint32(), r.Uint32()
				case version == 1:
				case code == wire.ErrWriteResource:
					h.Err.Index, h.Err.Needed = r.Uint32(), r.Uint32()
				case code == wire.ErrReplyResource:
					h.Err.Needed = r.Uint32()
				case code >= wire.ErrReadChunks && code <= wire.ErrSegments:
					h.Err.Max = r.Uint32()
				}
				d.agree(t, h)
			}
		}
		h := r.fixed(r.Uint32(), wire.ErrorMsg)
		h.Err = wire.ErrorBody{Code: wire.ErrVers, Low: 1, High: 1}
		d.same(t, "1", describe(h), h.Append(nil))
		d.same(t, "2", describe(h), h.Append(nil))
	}
}

// TestRandom: headers of all kinds; then the same with a bit or a word changed, where C must
// read what we read whenever we accept it.
func TestRandom(t *testing.T) {
	d, r := start(t), seeded(t)
	headers, accepted, refused := 0, 0, 0
	for range 4000 {
		version := uint32(1 + r.IntN(2))
		p := procs[version][r.IntN(len(procs[version]))]
		if p == wire.ErrorMsg {
			continue
		}
		h := r.fixed(version, p)
		r.body(h)
		if p <= wire.MsgP {
			h.Reads = r.reads(r.IntN(6))
			for range r.IntN(4) {
				h.Writes = append(h.Writes, r.chunk(r.IntN(4)))
			}
			if h.HasReply = p == wire.NoMsg || r.IntN(2) == 0; h.HasReply {
				h.Reply = r.chunk(r.IntN(20))
			}
		}
		b := d.agree(t, h)
		headers++
		for range 4 {
			m := r.mutate(b)
			var got wire.Header
			n, err := got.Parse(m, wire.ProfileCel04)
			if err != nil {
				refused++
				d.refuses(t, version, m, err)
				continue
			}
			accepted++
			d.decodes(t, fmt.Sprint(version), describe(&got), m, n)
		}
	}
	t.Logf("%d headers; changed ones: %d accepted by both, %d refused", headers, accepted, refused)
}

// refuses asks that C, too, refuses m where the XDR alone is the reason. What C lets pass and we
// do not: bools and directions of any value, positions, NOMSG without chunks, sizes above our limits.
func (d *driver) refuses(t testing.TB, version uint32, m []byte, err error) {
	t.Helper()
	var e *wire.HeaderError
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	switch e.Reason {
	case wire.Truncated, wire.BadProc, wire.UnknownCode:
		if got := d.ask(t, "d"+fmt.Sprint(version), hexOf(m)); got != "!" {
			t.Fatalf("%v: %x\nC reads %s", err, m, got)
		}
	}
}

// mutate changes something behind XID and version.
func (r random) mutate(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) <= 8 {
		return b
	}
	at := 8 + r.IntN(len(b)-8)
	switch r.IntN(4) {
	case 0:
		b[at] ^= 1 << r.IntN(8)
	case 1:
		b[at|3] = byte(r.IntN(4)) // the low byte of a word: bools, counts, procedures
	case 2:
		b = b[:at]
	case 3:
		b = append(b, r.bytes(1+r.IntN(12))...)
	}
	return b
}
