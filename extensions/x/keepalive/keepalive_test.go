package keepalive

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

func TestOptions(t *testing.T) {
	for _, tc := range []struct {
		options map[string]string
		want    Options
		err     string
	}{
		{nil, Options{DefaultInterval, DefaultPatience}, ""},
		{map[string]string{"interval": "1m", "patience": "100ms"}, Options{time.Minute, MinTime}, ""},
		{map[string]string{"interval": "99ms"}, Options{}, "option interval"},
		{map[string]string{"patience": "61m"}, Options{}, "option patience"},
		{map[string]string{"interval": "0s"}, Options{}, "100ms to 1h"},
		{map[string]string{"interval": "30"}, Options{}, "a time such as 30s"},
		{map[string]string{"intervall": "30s"}, Options{}, "there are interval and patience"},
	} {
		x, err := Configured(tc.options)
		var oe *OptionError
		switch {
		case tc.err != "":
			if !errors.As(err, &oe) || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%v: %v", tc.options, err)
			}
		case err != nil || x.(*Extension).opts != tc.want:
			t.Errorf("%v: %v, %v", tc.options, x, err)
		}
	}
}

// TestDeclaration: it can be loaded, and has the numbers of the documentation.
func TestDeclaration(t *testing.T) {
	x, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d := x.Declare(); d.Check() != nil || d.Ops[0].Type != 4294967120 || d.Props[0].ID != 4294967120 || d.Class != ext.Control {
		t.Errorf("%+v: %v", d, d.Check())
	}
}

func TestWire(t *testing.T) {
	for _, tc := range []struct {
		info    []byte
		ask, ok bool
	}{
		{[]byte{0, 0, 0, 0}, false, true},
		{[]byte{0, 0, 0, 1}, true, true},
		{[]byte{0, 0, 0, 2}, false, false},
		{[]byte{1, 0, 0, 0}, false, false},
		{nil, false, false},
		{[]byte{0, 0, 0}, false, false},
		{[]byte{0, 0, 0, 1, 0, 0, 0, 0}, false, false},
	} {
		ask, ok := parseGrant(tc.info)
		if ok != tc.ok || ok && ask != tc.ask {
			t.Errorf("%x: ask %v, %v", tc.info, ask, ok)
		}
		if ok && !bytes.Equal(appendGrant(nil, ask), tc.info) {
			t.Errorf("%x is written as %x", tc.info, appendGrant(nil, ask))
		}
	}
}

func TestSilence(t *testing.T) {
	a, b := newPair(t, Options{})
	meet(a, b)
	for range 3 {
		if a.long != DefaultInterval {
			t.Fatalf("waits for %v of silence", a.long)
		}
		a.fallSilent()
		if a.long != DefaultPatience || !slices.Equal(a.sent, []bool{true}) {
			t.Fatalf("after the interval: sent %v, waits for %v", a.sent, a.long)
		}
		settle(a, b)
		if !slices.Equal(b.sent, []bool{false}) || a.failed != nil || b.failed != nil {
			t.Fatalf("the answer: %v", b.sent)
		}
		a.sent, b.sent = nil, nil
	}
	a.fallSilent()
	b.queue = nil // it is gone
	a.fallSilent()
	var gone *SilentError
	if !errors.As(a.failed, &gone) || gone.Interval != DefaultInterval || gone.Patience != DefaultPatience {
		t.Errorf("the end: %v", a.failed)
	}
}

// TestBothSilent: both ask at the same time.
func TestBothSilent(t *testing.T) {
	a, b := newPair(t, Options{})
	meet(a, b)
	for range 3 {
		a.fallSilent()
		b.fallSilent()
		settle(a, b)
	}
	if len(a.sent) != 6 || len(b.sent) != 6 || a.failed != nil || b.failed != nil {
		t.Errorf("sent %v and %v", a.sent, b.sent)
	}
}

// TestOtherTraffic: the answer is missing though other things come: it is not asked twice, and ends when all is silent.
func TestOtherTraffic(t *testing.T) {
	a, b := newPair(t, Options{})
	meet(a, b)
	a.fallSilent()
	b.queue = nil
	a.s.Message(ext.Message{Op: opGrant, Info: appendGrant(nil, true)}) // not the answer
	a.fallSilent()
	if want := []bool{true, false}; !slices.Equal(a.sent, want) || a.failed != nil || a.long != DefaultPatience {
		t.Fatalf("sent %v, failed %v, waits for %v", a.sent, a.failed, a.long)
	}
	a.fallSilent()
	if a.failed == nil {
		t.Error("a peer that never answers is kept")
	}
}

func TestGrantChange(t *testing.T) {
	a, b := newPair(t, Options{})
	meet(a, b)
	b.changeGrant()
	if !slices.Equal(b.sent, []bool{true}) {
		t.Fatalf("sent %v", b.sent)
	}
	b.changeGrant() // while the first is under way
	if len(b.sent) != 1 {
		t.Fatalf("a second GRANT before the answer: %v", b.sent)
	}
	settle(a, b)
	if !slices.Equal(b.sent, []bool{true, true}) || !slices.Equal(a.sent, []bool{false, false}) || b.grant == nil {
		t.Errorf("sent %v and %v", b.sent, a.sent)
	}
}

// TestPeerWithout: nothing is sent to a peer that announces nothing, and nothing is waited for.
func TestPeerWithout(t *testing.T) {
	for _, value := range [][]byte{{0, 0, 0, 0}, {0, 0, 0, 2}, nil, {0, 0, 0, 1, 0}} {
		a, _ := newPair(t, Options{})
		a.s.PeerValue(PropertyID, value, false)
		if a.silence != nil || a.grant != nil || len(a.sent) != 0 {
			t.Errorf("%x: something is under way", value)
		}
	}
	a, b := newPair(t, Options{})
	a.s.PeerValue(PropertyID, a.offered, true)
	if a.silence != nil {
		t.Error("the default counts as announced")
	}
	meet(a, b)
	a.s.PeerValue(PropertyID, []byte{0, 0, 0, 0}, false)
	a.fallSilent()
	a.changeGrant()
	if len(a.sent) != 0 {
		t.Error("sent to a peer that takes it no more")
	}
}

// TestOvertaking: a GRANT may come before the peer's property.
func TestOvertaking(t *testing.T) {
	a, b := newPair(t, Options{})
	a.s.PeerValue(PropertyID, b.offered, false)
	a.changeGrant()
	settle(a, b)
	b.s.PeerValue(PropertyID, a.offered, false)
	if a.s.asked || b.silence == nil || b.grant == nil {
		t.Error("it was not answered")
	}
}

// TestMalformed: it is ignored, and nothing is sent.
func TestMalformed(t *testing.T) {
	a, b := newPair(t, Options{})
	meet(a, b)
	for _, info := range [][]byte{nil, {1}, {0, 0, 0, 9}, make([]byte, 8)} {
		a.s.Message(ext.Message{Op: opGrant, Reply: true, Info: info})
	}
	a.s.Message(ext.Message{Op: opGrant, Reply: true, Info: appendGrant(nil, false)}) // an answer to nothing
	if len(a.sent) != 0 || a.failed != nil {
		t.Errorf("sent %v, failed %v", a.sent, a.failed)
	}
}

// TestNotSent: what could not be sent may be sent later.
func TestNotSent(t *testing.T) {
	a, b := newPair(t, Options{})
	meet(a, b)
	a.full = true
	a.fallSilent()
	settle(a, b)
	if a.s.asked || len(a.sent) != 0 {
		t.Fatal("it counts as sent")
	}
	b.changeGrant()
	settle(a, b) // the answer cannot be sent
	if a.s.owing != 0 {
		t.Error("an answer that was not sent is waited for")
	}
}

// TestAnyOrder: whatever happens when, no more GRANTs are unconsumed than receives are there for, and the two settle.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		a, b := newPair(t, Options{})
		meet(a, b)
		for range 200 {
			e := []*end{a, b}[rng.IntN(2)]
			switch rng.IntN(6) {
			case 0:
				if e.silence != nil && e.long == DefaultInterval {
					e.fallSilent()
				}
			case 1:
				e.changeGrant()
			default:
				e.step()
			}
		}
		settle(a, b)
		if a.s.asked || b.s.asked || a.failed != nil || b.failed != nil {
			t.Fatalf("seed %d: not settled", seed)
		}
		for _, e := range []*end{a, b} {
			if e.s.owing != e.out {
				t.Fatalf("seed %d: %d unconsumed, %d owing", seed, e.out, e.s.owing)
			}
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1}, []byte{0, 0, 0, 0})
	f.Add([]byte{0, 0, 0, 1, 2}, []byte{})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		a, b := newPair(t, Options{})
		meet(a, b)
		for _, info := range [][]byte{first, second, first} {
			a.s.Message(ext.Message{Op: opGrant, Reply: true, Info: info})
		}
		if len(a.sent) > 3 || a.failed != nil {
			t.Fatalf("sent %v, failed %v", a.sent, a.failed)
		}
	})
}
