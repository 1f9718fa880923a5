package watch

import (
	"testing"
	"time"
)

// TestWatch: what a tick makes of what has happened.
func TestWatch(t *testing.T) {
	const none, idle, stall, probe, mute = None, Idle, Stall, Probe, Mute
	still := func(a Activity, ticks int, more ...Activity) []Activity {
		var as []Activity
		for range ticks {
			as = append(as, a)
		}
		return append(as, more...)
	}
	reading := Activity{Busy: true, Reads: 1, ReadMost: 10}
	sending := Activity{Busy: true, Sends: 1}
	awaiting := Activity{Busy: true, Awaiting: true, Calls: 1}
	for _, tc := range []struct {
		name  string
		saw   []Activity
		last  Verdict
		after int // ticks with None before it
	}{
		{"idle", still(Activity{}, 9), idle, 8 - 1},
		{"served for long", still(Activity{Busy: true}, 40), none, 40},
		{"a call now and then", append(still(Activity{Calls: 1}, 7), still(Activity{Calls: 2}, 8)...), none, 15},
		{"idle behind a call", append(still(Activity{Calls: 1}, 7), still(Activity{Calls: 2}, 9)...), idle, 15},
		{"a Read without an answer: 4 ticks, and one for 10 bytes", still(reading, 9), stall, 6},
		{"Reads that follow each other", []Activity{
			reading, reading, reading, reading, reading, {Busy: true, Reads: 1, ReadsDone: 1, ReadMost: 10},
			{Busy: true, Reads: 1, ReadsDone: 1, ReadMost: 10}, {Busy: true, Reads: 1, ReadsDone: 2, ReadMost: 10},
		}, none, 8},
		{"a large Read takes its time", still(Activity{Busy: true, Reads: 1, ReadMost: 60}, 10), none, 10},
		{"calls instead of answers", []Activity{
			{Busy: true, Reads: 1, Calls: 1}, {Busy: true, Reads: 1, Calls: 2}, {Busy: true, Reads: 1, Calls: 3},
			{Busy: true, Reads: 1, Calls: 4}, {Busy: true, Reads: 1, Calls: 5}, {Busy: true, Reads: 1, Calls: 6},
		}, stall, 5},
		{"a reply that does not leave", still(sending, 9), stall, 5},
		{"a frame that does not end", still(Activity{Busy: true, Torn: true, Frames: 7}, 9), Torn, 5},
		{"nor does it by what comes", []Activity{
			{Torn: true, Heard: 1}, {Torn: true, Heard: 2}, {Torn: true, Heard: 3}, {Torn: true, Heard: 4}, {Torn: true, Heard: 5}, {Torn: true, Heard: 6},
		}, Torn, 5},
		{"frames that follow each other", []Activity{
			{Busy: true, Torn: true, Frames: 1}, {Busy: true, Torn: true, Frames: 1}, {Busy: true, Torn: true, Frames: 1}, {Busy: true, Torn: true, Frames: 1},
			{Busy: true, Torn: true, Frames: 2}, {Busy: true, Torn: true, Frames: 2}, {Busy: true, Frames: 2}, {Busy: true, Torn: true, Frames: 2},
		}, none, 8},
		{"replies that leave", []Activity{
			sending, sending, sending, {Busy: true, Sends: 3, SendsDone: 1}, {Busy: true, Sends: 3, SendsDone: 1},
			{Busy: true, Sends: 3, SendsDone: 2}, {Busy: true, Sends: 3, SendsDone: 2},
		}, none, 7},
		{"silence", still(awaiting, 4), probe, 3},
		{"silence without calls", still(Activity{Busy: true}, 9), none, 9},
		{"a word", append(still(awaiting, 3), Activity{Busy: true, Awaiting: true, Heard: 1}, Activity{Busy: true, Awaiting: true, Heard: 1},
			Activity{Busy: true, Awaiting: true, Heard: 1}), none, 6},
		{"not opened", still(Activity{Busy: true, Gated: true}, 7), Gate, 5},
		{"not opened, and nobody calls", still(Activity{Gated: true}, 7), Gate, 5},
		{"opened in time", append(still(Activity{Busy: true, Gated: true}, 5), still(Activity{Busy: true}, 9)...), none, 14},
	} {
		w := Watch{idle: 8, stall: 4, mute: 3, gate: 5, pace: 10}
		for i, a := range tc.saw {
			v := w.Step(a)
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

	w := Watch{mute: 3, pace: 1}
	w.Step(awaiting)
	for range 2 {
		w.Step(awaiting)
	}
	if v := w.Step(awaiting); v != probe {
		t.Fatalf("%d after 3 silent ticks, want the question", v)
	}
	if v := w.Step(awaiting); v != probe {
		t.Fatalf("%d: no question went out, it is to be tried again", v)
	}
	w.Probed()
	for i := range 2 {
		if v := w.Step(awaiting); v != none {
			t.Fatalf("%d, %d ticks after the question", v, i+1)
		}
	}
	if v := w.Step(awaiting); v != mute {
		t.Fatalf("%d, want the end 3 ticks after the question", v)
	}
	awaiting.Heard++
	if v := w.Step(awaiting); v != none || w.probed {
		t.Fatalf("%d: an answer starts anew", v)
	}
}

// TestRecords: a record may take its time by its length, and the next one is another.
func TestRecords(t *testing.T) {
	w := Watch{stall: 4, pace: 10}
	steps := func(a Activity) (n int) {
		for w.Step(a) == None {
			n++
		}
		return n
	}
	if n := steps(Activity{Torn: true, Frames: 1, TornMost: 60}); n != 11 { // one to see it, 4, and 6 for 60 bytes
		t.Errorf("ended after %d ticks", n)
	}
	for i := range uint64(40) {
		if v := w.Step(Activity{Torn: true, Frames: 2 + i/4}); v != None {
			t.Fatalf("tick %d says %d", i, v)
		}
	}
}

func TestLimits(t *testing.T) {
	w, tick := New(Limits{Idle: 6 * time.Minute, Stall: time.Minute, Mute: 20 * time.Second}, time.Minute)
	if tick != 2500*time.Millisecond || w.idle != 144 || w.stall != 24 || w.mute != 8 || w.gate != 0 || w.pace != 160<<10 || !w.Hears(false) {
		t.Errorf("%+v, a tick of %v", w, tick)
	}
	if w, tick = New(Limits{Idle: -1, Stall: -1, Mute: -1, Gate: -1}, time.Minute); tick != 7500*time.Millisecond || w.idle+w.stall+w.mute+w.gate != 0 || w.Hears(true) {
		t.Errorf("switched off: %+v, a tick of %v", w, tick)
	}
	if _, tick = New(Limits{Idle: -1}, 0); tick != 0 {
		t.Errorf("nothing to watch, and a tick of %v", tick)
	}
	if _, tick = New(Limits{Stall: time.Nanosecond}, 0); tick != time.Millisecond {
		t.Errorf("a tick of %v", tick)
	}
	for _, tc := range []struct {
		d    time.Duration
		want int
	}{{0, 0}, {-1, 0}, {1, 1}, {time.Second, 1}, {time.Second + 1, 2}} {
		if got := Ticks(tc.d, time.Second); got != tc.want {
			t.Errorf("%v is %d ticks, want %d", tc.d, got, tc.want)
		}
	}
}
