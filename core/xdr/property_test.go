package xdr

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// item is one thing in a stream: what it is, and its value.
type item struct {
	kind int
	n    uint64
	b    []byte
}

const kinds = 9

func drawItems(t *rapid.T) []item {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) item {
		return item{
			kind: rapid.IntRange(0, kinds-1).Draw(t, "kind"),
			n:    rapid.Uint64().Draw(t, "n"),
			b:    rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "b"),
		}
	}), 0, 20).Draw(t, "items")
}

func (it item) write(w *Writer) {
	switch it.kind {
	case 0:
		w.Uint32(uint32(it.n))
	case 1:
		w.Int32(int32(it.n))
	case 2:
		w.Uint64(it.n)
	case 3:
		w.Int64(int64(it.n))
	case 4:
		w.Bool(it.n&1 != 0)
	case 5:
		w.Fixed(it.b)
	case 6:
		w.Opaque(it.b)
	case 7:
		w.String(string(it.b))
	case 8:
		w.BulkOpaque(it.b)
	}
}

// check reads the item and says what differs.
func (it item) check(r *Reader) error {
	var same bool
	switch it.kind {
	case 0:
		same = r.Uint32() == uint32(it.n)
	case 1:
		same = r.Int32() == int32(it.n)
	case 2:
		same = r.Uint64() == it.n
	case 3:
		same = r.Int64() == int64(it.n)
	case 4:
		same = r.Bool() == (it.n&1 != 0)
	case 5:
		same = bytes.Equal(r.FixedView(len(it.b)), it.b)
	case 6:
		same = bytes.Equal(r.Opaque(20), it.b)
	case 7:
		same = r.String(20) == string(it.b)
	case 8:
		same = bytes.Equal(r.Bulk(20), it.b)
	}
	if !same || r.Err() != nil {
		return fmt.Errorf("kind %d: %v", it.kind, r.Err())
	}
	return nil
}

// TestIdentity: what is written is read again: unreduced, reduced by position (some items moved,
// with or without round-up, others put back in), and reduced in order.
func TestIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := drawItems(t)
		var w Writer
		for _, it := range items {
			it.write(&w)
		}
		whole := w.AppendUnreduced(nil)
		if len(whole) != w.Len() || len(whole)%4 != 0 {
			t.Fatalf("%d bytes, Len %d", len(whole), w.Len())
		}

		// Some bulk items go by position, the others back into the stream.
		var stream []byte
		var moved []Moved
		at := 0
		for _, b := range w.Bulk() {
			stream = append(stream, w.Bytes()[at:b.Off]...)
			at = b.Off
			pad := zeros[:-len(b.Data)&3]
			if !rapid.Bool().Draw(t, "move") {
				stream = append(append(stream, b.Data...), pad...)
				continue
			}
			if rapid.Bool().Draw(t, "round up") {
				b.Data = append(bytes.Clone(b.Data), pad...)
			}
			moved = append(moved, Moved{Position: b.Position, Data: b.Data})
		}
		stream = append(stream, w.Bytes()[at:]...)

		var ordered []Moved
		for _, b := range w.Bulk() {
			ordered = append(ordered, Moved{Position: InOrder, Data: b.Data})
		}
		for name, r := range map[string]*Reader{
			"whole":       {buf: whole},
			"by position": {buf: stream, moved: moved},
			"in order":    {buf: w.Bytes(), moved: ordered},
		} {
			for i, it := range items {
				if err := it.check(r); err != nil {
					t.Fatalf("%s: item %d: %v", name, i, err)
				}
			}
			if err := r.Done(); err != nil || r.Position() != w.Len() {
				t.Fatalf("%s: %v, position %d of %d", name, err, r.Position(), w.Len())
			}
		}
	})
}

// FuzzReader reads b by a programme that ops is: whatever the bytes are, nothing panics, the
// cursor stays within the stream, and no view is longer than it.
func FuzzReader(f *testing.F) {
	f.Add([]byte{0, 4, 6, 8}, []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 0, 0}, int32(8), []byte("moved"))
	f.Add([]byte{8, 8, 9}, []byte{0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff}, int32(4), []byte("moved"))
	f.Add([]byte{8, 6}, []byte{0, 0, 0, 5, 0, 0, 0, 0}, int32(InOrder), []byte("moved"))
	f.Fuzz(func(t *testing.T, ops, b []byte, pos int32, data []byte) {
		var r Reader
		r.Reset(b, []Moved{{Position: int(pos), Data: data, Into: make([]byte, 4)}})
		for _, op := range ops {
			var v []byte
			bound := uint32(op) << (op % 25)
			switch op % 11 {
			case 0:
				r.Uint32()
			case 2:
				r.Uint64()
			case 4:
				r.Bool()
			case 5:
				v = r.Fixed(int(int8(op)))
			case 6:
				v = r.Opaque(bound)
			case 7:
				v = []byte(r.String(bound))
			case 8:
				v = r.Bulk(bound)
			case 9:
				if n := r.Count(bound, int(op%5)); n > r.Remaining() {
					t.Fatalf("count %d of %d bytes", n, r.Remaining())
				}
			case 10:
				v = r.Rest()
			}
			if r.Err() != nil && len(v) != 0 {
				t.Fatalf("%d bytes despite %v", len(v), r.Err())
			}
			if len(v) > max(len(b), len(data)) || r.Offset() < 0 || r.Offset() > len(b) || r.Position() < r.Offset() {
				t.Fatalf("%d bytes; offset %d, position %d of %d", len(v), r.Offset(), r.Position(), len(b))
			}
		}
		if r.Done() == nil && r.Remaining() != 0 {
			t.Fatal("done with bytes left")
		}
	})
}
