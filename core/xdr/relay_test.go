package xdr

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// What a relay takes from a Reader and hands to a Writer is the same message, however its items were cut out.
func TestRelay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var whole Writer
		whole.Uint32(7) // a header, which the relay has read
		n := rapid.IntRange(0, 4).Draw(t, "items")
		for range n {
			whole.Raw(make([]byte, 4*rapid.IntRange(0, 3).Draw(t, "words")))
			whole.BulkOpaque(bytes.Repeat([]byte{9}, rapid.IntRange(0, 9).Draw(t, "length")))
		}
		whole.Raw(make([]byte, 4*rapid.IntRange(0, 3).Draw(t, "words after")))
		want := whole.AppendUnreduced(nil)

		// Some items moved, by position or by order, the others inline.
		var stream []byte
		var moved []Moved
		at := 0
		byOrder := rapid.Bool().Draw(t, "by order")
		for _, it := range whole.Bulk() {
			stream = append(stream, whole.Bytes()[at:it.Off]...)
			at = it.Off
			padded := append(slices.Clone(it.Data), zeros[:-len(it.Data)&3]...)
			switch isMoved := rapid.Bool().Draw(t, "moved"); {
			case isMoved && byOrder:
				moved = append(moved, Moved{Position: InOrder, Data: it.Data})
			case isMoved && rapid.Bool().Draw(t, "with round-up"):
				moved = append(moved, Moved{Position: it.Position, Data: padded})
				continue
			case isMoved:
				moved = append(moved, Moved{Position: it.Position, Data: it.Data})
				continue
			case byOrder:
				moved = append(moved, Moved{Position: InOrder, Into: make([]byte, rapid.SampledFrom([]int{0, 20}).Draw(t, "into")), Loose: true})
			}
			if !byOrder || len(moved[len(moved)-1].Data) == 0 {
				stream = append(stream, padded...)
			}
		}
		stream = append(stream, whole.Bytes()[at:]...)

		var r Reader
		r.Reset(stream, moved)
		r.Uint32()
		var next func(*Reader) bool
		if byOrder || rapid.Bool().Draw(t, "known") {
			offs, i := []int{}, 0
			for _, it := range whole.Bulk() {
				offs = append(offs, it.Position)
			}
			next = func(r *Reader) bool {
				if i == len(offs) {
					return false
				}
				r.FixedView(offs[i] - 4 - r.Position())
				i++
				return true
			}
		}
		rest, items := r.Relay(nil, next)
		if r.Err() != nil || r.Remaining() != 0 {
			t.Fatalf("%v, %d bytes left", r.Err(), r.Remaining())
		}
		released := 0
		for i := range items {
			items[i].Release = func() { released++ }
		}
		var w Writer
		w.Uint32(7)
		w.Relay(rest, items)
		if got := w.AppendUnreduced(nil); w.Err() != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v: %x, want %x", w.Err(), got, want)
		}
		if next != nil && len(w.Bulk()) != n {
			t.Fatalf("%d items of %d", len(w.Bulk()), n)
		}
		if w.DropBulk(); released != len(items) {
			t.Fatalf("%d of %d items released", released, len(items))
		}
	})
}

func TestRelayRefuses(t *testing.T) {
	stream := []byte{0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 2}
	five := make([]byte, 5)
	for name, moved := range map[string][]Moved{
		"before the stream":                 {{Position: 3, Data: five}},
		"within the first word":             {{Position: 6, Data: five}},
		"behind the stream":                 {{Position: 13, Data: five}},
		"of another length":                 {{Position: 8, Data: five[:4]}},
		"of another length with round-up":   {{Position: 8, Data: make([]byte, 7)}},
		"twice":                             {{Position: 8, Data: five}, {Position: 8, Data: five}},
		"known by its order":                {{Position: InOrder, Data: five}},
		"the second is known by its order":  {{Position: 8, Data: five}, {Position: InOrder, Data: five}},
		"the second lies before the first ": {{Position: 8, Data: five}, {Position: 4, Data: nil}},
	} {
		var r Reader
		r.Reset(stream, moved)
		if rest, _ := r.Relay(nil, nil); rest != nil || !errors.Is(r.Err(), ErrChunk) {
			t.Errorf("a moved item %s: %x, %v", name, rest, r.Err())
		}
	}
	var r Reader
	r.Reset(stream, []Moved{{Position: 8, Data: five}})
	if r.Relay(nil, func(*Reader) bool { return false }); !errors.Is(r.Err(), ErrChunk) {
		t.Errorf("an item that next does not find: %v", r.Err())
	}
	for name, items := range map[string][]Item{
		"before the stream":        {{Off: 3, Data: five}},
		"behind the stream":        {{Off: 13, Data: five}},
		"inline, behind the end":   {{Off: 8, Data: five, Inline: true}},
		"of another length":        {{Off: 8, Data: five[:4]}},
		"twice":                    {{Off: 8, Data: five}, {Off: 8, Data: five}},
		"not in order":             {{Off: 8, Data: five}, {Off: 4, Data: five[:1]}},
		"far outside of any range": {{Off: 1 << 40, Data: five}},
	} {
		released := 0
		for i := range items {
			items[i].Release = func() { released++ }
		}
		var w Writer
		if w.Relay(stream, items); !errors.Is(w.Err(), ErrChunk) {
			t.Errorf("an item %s: %v", name, w.Err())
		}
		if w.DropBulk(); released != len(items) {
			t.Errorf("an item %s: %d of %d released", name, released, len(items))
		}
	}
}
