package watch

import "time"

// Default limits. A server waits longer than a client, and than Linux's, which closes
// after five minutes: so the client, which knows whether calls are pending, is the one that reconnects.
const (
	DefaultClientIdle = 5 * time.Minute
	DefaultServerIdle = 6 * time.Minute
	DefaultStall      = time.Minute
	DefaultKeepAlive  = 20 * time.Second
)

// Slowest is the pace, in bytes per second, at which a transfer may move and still be in progress.
const Slowest = 64 << 10

// Activity is what a connection has done up to a tick.
type Activity struct {
	Calls                uint64 // received and sent
	Gated                bool   // an extension has not opened the connection, and it is time that it did
	Busy                 bool   // something is served, awaited or owed
	Awaiting             bool   // calls wait for replies
	Heard                uint64 // bytes from the peer
	Frames               uint64 // frames or records from the peer
	Torn                 bool   // one has begun to come and is not whole
	TornMost             int    // its bytes at most, where it is long enough to take time
	Reads, Sends         int    // posted and not completed
	ReadsDone, SendsDone uint64
	ReadMost, SendMost   int // bytes of the largest among them
}

// Verdict is what follows from a tick.
type Verdict uint8

const (
	None  Verdict = iota
	Idle          // close in order
	Stall         // abort: nothing posted has completed
	Torn          // abort: a frame that began is not whole
	Probe         // ask by a NULL call; Probed tells that one went out
	Mute          // abort: nothing was received, even after a probe
	Gate          // abort: it was not opened
)

// Limits are times; 0 or less: none.
type Limits struct {
	Idle  time.Duration // without a call
	Stall time.Duration // without progress, and a second more per 64 KiB of the largest transfer
	Mute  time.Duration // without a byte while calls wait, before the question and again after it
	Gate  time.Duration // until it is opened
}

// Watch judges a connection once a tick: a pure value, in ticks.
type Watch struct {
	idle, stall, mute int // limits; 0: none
	gate              int // the same
	pace              int // bytes that move in one tick at least

	last                          Activity
	quiet, reading, sending, hush int // ticks without a call, a Read, a Send or Write, a byte
	outside                       int // ticks gated
	torn                          int // ticks with the same frame unfinished
	probed                        bool
}

// ticksPer is how many ticks the shortest limit has.
const ticksPer = 8

// New makes a Watch and chooses its tick: an eighth of the shortest limit, and of most, which is another time that the
// connection's timer has to find; 0: there is nothing to watch.
func New(l Limits, most time.Duration) (w Watch, tick time.Duration) {
	for _, d := range []time.Duration{most, l.Idle, l.Stall, l.Mute, l.Gate} {
		if d > 0 && (tick == 0 || d < tick) {
			tick = d
		}
	}
	if tick == 0 {
		return Watch{}, 0
	}
	tick = max(tick/ticksPer, time.Millisecond)
	w = Watch{idle: Ticks(l.Idle, tick), stall: Ticks(l.Stall, tick), mute: Ticks(l.Mute, tick), gate: Ticks(l.Gate, tick)}
	w.pace = max(int(Slowest*tick.Seconds()), 1)
	return w, tick
}

// Ticks is d in ticks, rounded up; 0 for none.
func Ticks(d, tick time.Duration) int {
	if d <= 0 {
		return 0
	}
	return int((d + tick - 1) / tick)
}

// Hears reports whether Activity.Heard, Frames and Torn count.
func (w *Watch) Hears(mute bool) bool { return w.mute > 0 && mute || w.stall > 0 }

// KeepOpen lifts the limit on idleness.
func (w *Watch) KeepOpen() { w.idle = 0 }

// Probed notes that a Probe went out: what follows is counted from it.
func (w *Watch) Probed() { w.probed = true }

// SendsStuck reports whether no Send has completed since the last step.
func (w *Watch) SendsStuck(done uint64) bool { return done == w.last.SendsDone }

// Step takes what the connection has done since the last tick.
func (w *Watch) Step(a Activity) Verdict {
	count := func(n *int, same bool) {
		*n++
		if !same {
			*n = 0
		}
	}
	count(&w.quiet, !a.Busy && a.Calls == w.last.Calls)
	count(&w.reading, a.Reads > 0 && a.ReadsDone == w.last.ReadsDone && w.last.Reads > 0)
	count(&w.sending, a.Sends > 0 && a.SendsDone == w.last.SendsDone && w.last.Sends > 0)
	count(&w.outside, a.Gated && w.last.Gated)
	count(&w.hush, a.Awaiting && a.Heard == w.last.Heard && w.last.Awaiting)
	count(&w.torn, a.Torn && w.last.Torn && a.Frames == w.last.Frames)
	w.last = a
	if w.hush == 0 {
		w.probed = false
	}
	switch {
	case w.stall > 0 && (w.reading > w.stall+a.ReadMost/w.pace || w.sending > w.stall+a.SendMost/w.pace):
		return Stall
	case w.stall > 0 && w.torn > w.stall+a.TornMost/w.pace:
		return Torn
	case w.gate > 0 && w.outside >= w.gate:
		return Gate
	case w.mute > 0 && w.probed && w.hush >= 2*w.mute:
		return Mute
	case w.mute > 0 && !w.probed && w.hush >= w.mute:
		w.hush = w.mute // what follows is counted from the question
		return Probe
	case w.idle > 0 && w.quiet >= w.idle:
		return Idle
	}
	return None
}
