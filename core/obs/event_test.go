package obs

import (
	"slices"
	"testing"
)

type counter struct{ kinds []Kind }

func (c *counter) Record(e Event) { c.kinds = append(c.kinds, e.Kind) }

func TestTee(t *testing.T) {
	a, b, c := &counter{}, &counter{}, &counter{}
	if r := Tee(); r != nil {
		t.Errorf("of none: %v", r)
	}
	if r := Tee(nil, nil); r != nil {
		t.Errorf("of nil alone: %v", r)
	}
	if r := Tee(nil, a, Tee(nil)); r != Recorder(a) {
		t.Errorf("of one: %v", r)
	}
	r := Tee(Tee(a, nil), Tee(nil, Tee(b, c)))
	if got, ok := r.(tee); !ok || !slices.Equal(got, tee{a, b, c}) {
		t.Errorf("of three in a tree: %v", r)
	}
	r.Record(Event{Kind: ConnUp})
	r.Record(Event{Kind: ConnDown})
	for i, x := range []*counter{a, b, c} {
		if !slices.Equal(x.kinds, []Kind{ConnUp, ConnDown}) {
			t.Errorf("recorder %d got %v", i, x.kinds)
		}
	}
}

type sum struct{ took int64 }

func (s *sum) Record(e Event) { s.took += int64(e.Took) }

func TestTeeAllocatesNothing(t *testing.T) {
	a, b := &sum{}, &sum{}
	r := Tee(a, b)
	if n := testing.AllocsPerRun(100, func() { r.Record(Event{Kind: CallDone, Took: 1, At: Now()}) }); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
	if a.took != 101 || b.took != 101 {
		t.Errorf("%d and %d events", a.took, b.took)
	}
}

// Which end records a kind does not depend on order: every kind about a call has a side, but for Registered.
func TestSides(t *testing.T) {
	neither := []Kind{ConnUp, ConnDown, Negotiated, Dropped, ControlSent, ControlRecv, ControlLate, ExtPanic, Registered, ConnRefused,
		FabricRetry, TerminateSent, TerminateRecv, CorruptReceived}
	for k := Kind(1); int(k) < Kinds; k++ {
		if got := k.Side() == NoSide; got != slices.Contains(neither, k) {
			t.Errorf("kind %d has side %d", k, k.Side())
		}
	}
}

func TestProcedure(t *testing.T) {
	for _, c := range [][2]uint32{{100003, 7}, {0xffffffff, 0xffffffff}, {0x80000000, 0}, {0, 1}} {
		if program, proc := SplitProcedure(Procedure(c[0], c[1])); program != c[0] || proc != c[1] {
			t.Errorf("%v came back as %d, %d", c, program, proc)
		}
	}
}
