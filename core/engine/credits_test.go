package engine

import (
	"math/rand/v2"
	"testing"
)

func TestCreditWords(t *testing.T) {
	for _, tc := range []struct {
		name     string
		rule     creditRule // of who reads
		limit    int
		word     uint32
		answered bool
		want     int
		zero     bool
		slots    int
	}{
		{name: "plain", limit: 5, word: 9, answered: true, want: 9, slots: 64},
		{name: "plain 0 (D-11)", limit: 5, word: 0, answered: true, want: 1, zero: true, slots: 64},
		{name: "plain above the slots", limit: 5, word: 100, answered: true, want: 64, slots: 64},
		{name: "plain above 65535, no split asked for", limit: 5, word: 8<<16 | 1, answered: true, want: 64, slots: 64},
		{name: "split, one for one", rule: creditRule{both: true}, limit: 8, word: 8<<16 | 1, answered: true, want: 8, slots: 64},
		{name: "split, three more", rule: creditRule{both: true}, limit: 8, word: 16<<16 | 4, answered: true, want: 11, slots: 64},
		{name: "split, none", rule: creditRule{both: true}, limit: 8, word: 8 << 16, answered: true, want: 7, slots: 64},
		{name: "split, without an answer", rule: creditRule{both: true}, limit: 8, word: 12<<16 | 4, want: 12, slots: 64},
		{name: "split, fewer than there were", rule: creditRule{both: true}, limit: 8, word: 3 << 16, answered: true, want: 3, slots: 64},
		{name: "split, above the most", rule: creditRule{both: true}, limit: 8, word: 10<<16 | 9, answered: true, want: 10, slots: 64},
		{name: "split, above the slots", rule: creditRule{both: true}, limit: 8, word: 100<<16 | 90, answered: true, want: 64, slots: 64},
		{name: "split, nothing left (D-11)", rule: creditRule{both: true}, limit: 1, word: 8 << 16, answered: true, want: 1, zero: true, slots: 64},
		{name: "plain among split ones", rule: creditRule{both: true, split: true}, limit: 8, word: 20, answered: true, want: 20, slots: 64},
		{name: "largest halves", rule: creditRule{both: true}, limit: 8, word: 1<<32 - 1, answered: true, want: 64, slots: 64},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := credits{slots: tc.slots, limit: tc.limit}
			if zero := tc.rule.take(&c, tc.word, tc.answered); c.limit != tc.want || zero != tc.zero {
				t.Errorf("limit %d, zero %v; want %d, %v", c.limit, zero, tc.want, tc.zero)
			}
		})
	}
}

// TestCreditSwitch: whatever the order in which words of both kinds are written and read, the client may have outstanding
// what the server last told it, when the word has come: no credit is lost or made.
func TestCreditSwitch(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		slots, most := 1+rng.IntN(64), 1+rng.IntN(64)
		var client, server creditRule
		c := newCredits(slots)
		asked := false // at the server, and the client has heard of it
		type message struct {
			word     uint32
			answered bool
			now      int
		}
		var calls int         // on their way or being served
		var replies []message // on their way
		for step := range 400 {
			switch rng.IntN(8) {
			case 0:
				if !asked { // the server first
					server.set(true, false)
					asked = true
				} else {
					client.set(true, true)
				}
			case 1:
				if asked && rng.IntN(4) == 0 {
					client.set(false, true)
					server.set(false, false)
					asked = false
				}
			case 2, 3, 4:
				if !c.free() {
					continue
				}
				c.take()
				server.heard(client.ask(&c), false)
				calls++
			case 5, 6:
				if calls == 0 {
					continue
				}
				calls--
				now := 1 + rng.IntN(most)
				if rng.IntN(8) == 0 { // an RDMA_ERROR
					server.tell(now)
					replies = append(replies, message{uint32(now), true, now})
					continue
				}
				replies = append(replies, message{server.grant(now, true), true, now})
			default:
				if step%2 == 0 && server.split { // a grant by itself
					now := 1 + rng.IntN(most)
					replies = append(replies, message{server.grant(now, false), false, now})
				}
			}
			for len(replies) > 0 && rng.IntN(2) == 0 {
				m := replies[0]
				replies = replies[1:]
				if client.take(&c, m.word, m.answered); c.limit != min(m.now, slots) {
					t.Fatalf("seed %d: limit %d after a word %#x that tells %d to %d slots (%+v, %+v)", seed, c.limit, m.word, m.now, slots, client, server)
				}
				if m.answered {
					c.put()
				}
			}
		}
	}
}

func TestCreditAsk(t *testing.T) {
	c := credits{slots: 64, limit: 48}
	for _, tc := range []struct {
		rule creditRule
		want uint32
	}{{creditRule{}, 64}, {creditRule{both: true, want: true}, 64}, {creditRule{split: true}, 64<<16 | 16}} {
		if got := tc.rule.ask(&c); got != tc.want {
			t.Errorf("%+v: %#x, want %#x", tc.rule, got, tc.want)
		}
	}
}

// TestServerWaitsForTheWord: a server writes split words from the first on that it gets.
func TestServerWaitsForTheWord(t *testing.T) {
	var r creditRule
	r.heard(64<<16|1, false)
	for i, step := range []struct {
		do   func()
		want bool
	}{
		{func() {}, false},
		{func() { r.set(true, false) }, false},
		{func() { r.heard(64, false) }, false},
		{func() { r.heard(64<<16, false) }, true},
		{func() { r.heard(64, false) }, true},
		{func() { r.set(false, false) }, false},
		{func() { r.heard(64<<16, false) }, false},
	} {
		if step.do(); r.split != step.want {
			t.Errorf("step %d: %+v", i, r)
		}
	}
	if !r.both {
		t.Error("split words under way are not read any more")
	}
}
