package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestControlProofs: what each proof says of each message (D-8).
func TestControlProofs(t *testing.T) {
	const plain, other, own = 0, 1, 2
	sent := []sentOp{ // in this order; the numbers are their XIDs
		{op: plain, xid: 1, calls: 10},
		{op: other, xid: 2, calls: 10},
		{op: own, xid: 3, calls: 10},
		{op: plain, xid: 4, calls: 12},
		{op: own, xid: 5, calls: 12},
		{op: plain, xid: 6, calls: 16},
	}
	for _, tc := range []struct {
		name string
		ev   controlEvent
		gone []uint32
	}{
		{"an answer names its message only", controlEvent{kind: proofAnswer, xid: 4}, []uint32{4}},
		{"an answer to nothing", controlEvent{kind: proofAnswer, xid: 9}, nil},
		{"an answer to one that its extension proves", controlEvent{kind: proofAnswer, xid: 3}, nil},
		{"the reply to a call sent before all", controlEvent{kind: proofReply, seq: 0}, nil},
		{"the reply to a call sent after the second", controlEvent{kind: proofReply, seq: 2}, []uint32{1, 2}},
		{"the reply to a call sent after the third", controlEvent{kind: proofReply, seq: 3}, []uint32{1, 2}},
		{"the reply to a call sent last", controlEvent{kind: proofReply, seq: 6}, []uint32{1, 2, 4, 6}},
		{"as many calls as were granted", controlEvent{kind: proofCalls, calls: 18, grant: 8}, nil},
		{"one call more than was granted", controlEvent{kind: proofCalls, calls: 19, grant: 8}, []uint32{1, 2}},
		{"many calls", controlEvent{kind: proofCalls, calls: 29, grant: 8}, []uint32{1, 2, 4, 6}},
		{"its own proof of one", controlEvent{kind: proofOwn, op: own, n: 1}, []uint32{3}},
		{"its own proof of more than there are", controlEvent{kind: proofOwn, op: own, n: 7}, []uint32{3, 5}},
		{"its own proof of another operation", controlEvent{kind: proofOwn, op: plain, n: 7}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := control{ops: []controlOp{{window: 3}, {window: 1}, {window: 2, own: true}}}
			for _, s := range sent {
				c.reserve(s.op, false)
				c.post(s)
			}
			for op := range c.ops {
				if c.room(op) {
					t.Fatalf("room for one more of operation %d", op)
				}
			}
			var gone []uint32
			for _, s := range c.step(tc.ev, nil) {
				gone = append(gone, s.xid)
			}
			if !slices.Equal(gone, tc.gone) {
				t.Fatalf("consumed: %v, want %v", gone, tc.gone)
			}
			if len(c.sent) != len(sent)-len(gone) {
				t.Errorf("%d are left", len(c.sent))
			}
			for op, o := range c.ops {
				left := 0
				for _, s := range c.sent {
					if s.op == op {
						left++
					}
				}
				if o.out != left || c.room(op) != (left < o.window) {
					t.Errorf("operation %d: %d out, %d left", op, o.out, left)
				}
			}
			if c.step(tc.ev, nil) != nil && tc.ev.kind != proofOwn {
				t.Error("the same proof a second time")
			}
		})
	}
}

// TestControlCredits: a credit is held from reserve to consumption, or until it is released; never given back twice.
func TestControlCredits(t *testing.T) {
	c := control{ops: []controlOp{{window: 4}}}
	for i, credit := range []bool{true, true, false, true} {
		c.reserve(0, credit)
		if i == 3 {
			c.cancel(0, credit) // it could not be posted
			continue
		}
		c.post(sentOp{xid: uint32(i), credit: credit})
	}
	if c.held != 2 || !c.room(0) {
		t.Fatalf("%d held, %d out", c.held, c.ops[0].out)
	}
	if n := c.release(func(s *sentOp) bool { return s.xid == 1 }); n != 1 || c.held != 1 {
		t.Fatalf("%d released, %d held", n, c.held)
	}
	credits := 0
	for _, s := range c.step(controlEvent{kind: proofReply, seq: c.seq}, nil) {
		if s.credit {
			credits++
		}
	}
	if credits != 1 || c.held != 0 || c.ops[0].out != 0 {
		t.Errorf("%d given back at the proof, %d held, %d out", credits, c.held, c.ops[0].out)
	}
	for range 4 {
		c.reserve(0, false)
	}
	panics(t, "a message beyond the window", func() { c.reserve(0, false) })
}

// TestControlNeverOverruns: two sides with an ordered channel each way, stepped at random. However late either takes what
// has come, never are more messages of an operation on their way, or not taken, than its window: that is what receives are
// posted for. A message counts as taken when its receiver has it, which the sender learns by D-8's proofs only.
func TestControlNeverOverruns(t *testing.T) {
	const window, most, steps = 3, 5, 4000
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 8))
		type message struct {
			control, call, reply bool
			seq                  uint64 // of a call: what its sender had sent before it
			grant                int
		}
		var (
			toServer, toClient []message
			client, server     = control{ops: []controlOp{{window: window}}}, control{ops: []controlOp{{window: window}}}
			// The truth: messages without an RPC not taken by the other side.
			fromClient, fromServer int
			inFlight, limit        = 0, 1    // the client's credits
			unanswered             []message // at the server
			received               uint64    // calls, by the server
			sent                   int
		)
		proved := func(c *control, ev controlEvent) { c.step(ev, nil) }
		for range steps {
			switch rng.IntN(7) {
			case 0: // the client sends an operation
				if client.room(0) {
					client.reserve(0, false)
					client.post(sentOp{})
					toServer = append(toServer, message{control: true})
					fromClient++
					sent++
				}
			case 1: // so does the server
				if server.room(0) {
					server.reserve(0, false)
					server.post(sentOp{calls: received})
					toClient = append(toClient, message{control: true})
					fromServer++
					sent++
				}
			case 2, 3: // a call
				if inFlight < limit {
					inFlight++
					toServer = append(toServer, message{call: true, seq: client.seq})
				}
			case 4: // the server takes what has come
				if len(toServer) == 0 {
					continue
				}
				m := toServer[0]
				toServer = toServer[1:]
				if m.control {
					fromClient--
				} else {
					received++
					proved(&server, controlEvent{kind: proofCalls, calls: received, grant: most})
					unanswered = append(unanswered, m)
				}
			case 5: // and answers a call, of any age
				if n := len(unanswered); n > 0 {
					i := rng.IntN(n)
					toClient = append(toClient, message{reply: true, seq: unanswered[i].seq, grant: 1 + rng.IntN(most)})
					unanswered = slices.Delete(unanswered, i, i+1)
				}
			case 6: // the client takes what has come
				if len(toClient) == 0 {
					continue
				}
				m := toClient[0]
				toClient = toClient[1:]
				if m.control {
					fromServer--
				} else {
					inFlight--
					limit = m.grant
					proved(&client, controlEvent{kind: proofReply, seq: m.seq})
				}
			}
			if fromClient > window || fromServer > window {
				t.Fatalf("seed %d: %d and %d messages not taken, the window is %d", seed, fromClient, fromServer, window)
			}
		}
		if sent < steps/40 {
			t.Errorf("seed %d: only %d messages were sent: the proofs do not come", seed, sent)
		}
	}
}
