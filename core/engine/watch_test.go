package engine

import (
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/wire"
)

// TestWatch: what a tick makes of what has happened.
func TestWatch(t *testing.T) {
	const none, idle, stall, probe, mute = verdictNone, verdictIdle, verdictStall, verdictProbe, verdictMute
	still := func(a activity, ticks int, more ...activity) []activity {
		var as []activity
		for range ticks {
			as = append(as, a)
		}
		return append(as, more...)
	}
	reading := activity{busy: true, reads: 1, readMost: 10}
	sending := activity{busy: true, sends: 1}
	awaiting := activity{busy: true, awaiting: true, calls: 1}
	for _, tc := range []struct {
		name  string
		saw   []activity
		last  verdict
		after int // ticks with verdictNone before it
	}{
		{"idle", still(activity{}, 9), idle, 8 - 1},
		{"served for long", still(activity{busy: true}, 40), none, 40},
		{"a call now and then", append(still(activity{calls: 1}, 7), still(activity{calls: 2}, 8)...), none, 15},
		{"idle behind a call", append(still(activity{calls: 1}, 7), still(activity{calls: 2}, 9)...), idle, 15},
		{"a Read without an answer: 4 ticks, and one for 10 bytes", still(reading, 9), stall, 6},
		{"Reads that follow each other", []activity{
			reading, reading, reading, reading, reading, {busy: true, reads: 1, readsDone: 1, readMost: 10},
			{busy: true, reads: 1, readsDone: 1, readMost: 10}, {busy: true, reads: 1, readsDone: 2, readMost: 10},
		}, none, 8},
		{"a large Read takes its time", still(activity{busy: true, reads: 1, readMost: 60}, 10), none, 10},
		{"calls instead of answers", []activity{
			{busy: true, reads: 1, calls: 1}, {busy: true, reads: 1, calls: 2}, {busy: true, reads: 1, calls: 3},
			{busy: true, reads: 1, calls: 4}, {busy: true, reads: 1, calls: 5}, {busy: true, reads: 1, calls: 6},
		}, stall, 5},
		{"a reply that does not leave", still(sending, 9), stall, 5},
		{"a frame that does not end", still(activity{busy: true, torn: true, frames: 7}, 9), verdictTorn, 5},
		{"nor does it by what comes", []activity{
			{torn: true, heard: 1}, {torn: true, heard: 2}, {torn: true, heard: 3}, {torn: true, heard: 4}, {torn: true, heard: 5}, {torn: true, heard: 6},
		}, verdictTorn, 5},
		{"frames that follow each other", []activity{
			{busy: true, torn: true, frames: 1}, {busy: true, torn: true, frames: 1}, {busy: true, torn: true, frames: 1}, {busy: true, torn: true, frames: 1},
			{busy: true, torn: true, frames: 2}, {busy: true, torn: true, frames: 2}, {busy: true, frames: 2}, {busy: true, torn: true, frames: 2},
		}, none, 8},
		{"replies that leave", []activity{
			sending, sending, sending, {busy: true, sends: 3, sendsDone: 1}, {busy: true, sends: 3, sendsDone: 1},
			{busy: true, sends: 3, sendsDone: 2}, {busy: true, sends: 3, sendsDone: 2},
		}, none, 7},
		{"silence", still(awaiting, 4), probe, 3},
		{"silence without calls", still(activity{busy: true}, 9), none, 9},
		{"a word", append(still(awaiting, 3), activity{busy: true, awaiting: true, heard: 1}, activity{busy: true, awaiting: true, heard: 1},
			activity{busy: true, awaiting: true, heard: 1}), none, 6},
		{"not opened", still(activity{busy: true, gated: true}, 7), verdictGate, 5},
		{"not opened, and nobody calls", still(activity{gated: true}, 7), verdictGate, 5},
		{"opened in time", append(still(activity{busy: true, gated: true}, 5), still(activity{busy: true}, 9)...), none, 14},
	} {
		w := watch{idle: 8, stall: 4, mute: 3, gate: 5, pace: 10}
		for i, a := range tc.saw {
			v := w.step(a)
			if i < tc.after && v != none {
				t.Errorf("%s: tick %d says %d", tc.name, i, v)
				break
			}
			if i == tc.after {
				if v != tc.last {
					t.Errorf("%s: tick %d says %d, want %d", tc.name, i, v, tc.last)
				}
				break
			}
		}
	}

	w := watch{mute: 3, pace: 1}
	w.step(awaiting)
	for range 2 {
		w.step(awaiting)
	}
	if v := w.step(awaiting); v != probe {
		t.Fatalf("%d after 3 silent ticks, want the question", v)
	}
	if v := w.step(awaiting); v != probe {
		t.Fatalf("%d: no question went out, it is to be tried again", v)
	}
	w.probed = true
	for i := range 2 {
		if v := w.step(awaiting); v != none {
			t.Fatalf("%d, %d ticks after the question", v, i+1)
		}
	}
	if v := w.step(awaiting); v != mute {
		t.Fatalf("%d, want the end 3 ticks after the question", v)
	}
	awaiting.heard++
	if v := w.step(awaiting); v != none || w.probed {
		t.Fatalf("%d: an answer starts anew", v)
	}
}

func TestWatchLimits(t *testing.T) {
	c := Config{CallTimeout: time.Minute, IdleTimeout: 6 * time.Minute, StallTimeout: time.Minute, KeepAlive: 20 * time.Second}
	w, period, timeout := c.newWatch()
	if period != 2500*time.Millisecond || timeout != 24 || w.idle != 144 || w.stall != 24 || w.mute != 8 || w.pace != 160<<10 {
		t.Errorf("%+v, a tick of %v, %d for a call", w, period, timeout)
	}
	c.IdleTimeout, c.StallTimeout, c.KeepAlive = -1, -1, -1
	if w, period, timeout = c.newWatch(); period != 7500*time.Millisecond || timeout != 8 || w.idle+w.stall+w.mute != 0 {
		t.Errorf("switched off: %+v, a tick of %v, %d for a call", w, period, timeout)
	}
}

// TestSendsBehindReads: on a slow link a Send waits for the answer to the peer's Read before it.
func TestSendsBehindReads(t *testing.T) {
	cfg := Config{}.withDefaults()
	c := &Conn{cfg: cfg, client: true}
	c.watch, _, _ = cfg.newWatch()
	large := &Call{head: wire.Header{Lists: wire.Lists{Reads: []wire.ReadSegment{
		{Position: 76, Segment: wire.Segment{Length: 8 << 20}}, {Position: 76, Segment: wire.Segment{Length: 8 << 20}},
	}}}}
	at := c.calls.add(large)
	c.calls.add(new(Call))
	c.sends.out = 1
	last := func() (v verdict, ticks int) {
		for v == verdictNone && ticks < 1000 {
			v = c.watch.step(c.activity())
			ticks++
		}
		return v, ticks
	}
	c.watch.mute = 0
	perSecond := float64(c.watch.stall) / DefaultStall.Seconds()
	most := int((60 + 16<<20/slowest) * perSecond)
	if v, n := last(); v != verdictStall || n < most {
		t.Errorf("verdict %d after %d ticks, want a stall after %d", v, n, most)
	}
	c.calls.remove(at)
	c.watch.sending = 0
	if v, n := last(); v != verdictStall || n > c.watch.stall+2 {
		t.Errorf("verdict %d after %d ticks, want a stall after %d", v, n, c.watch.stall)
	}
}
