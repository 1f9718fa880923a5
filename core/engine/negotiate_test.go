package engine

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestNegotiation lists every pair of state and event (v2 draft §7).
func TestNegotiation(t *testing.T) {
	connected := NegEvent{Kind: NegConnected}
	reply := func(v uint32) NegEvent { return NegEvent{Kind: NegReply, Version: v} }
	called := func(v uint32) NegEvent { return NegEvent{Kind: NegCalled, Version: v} }
	refused := func(low, high uint32) NegEvent { return NegEvent{Kind: NegErrVers, Low: low, High: high} }
	neg := func(s NegState, v uint32) Negotiation { return Negotiation{State: s, Version: v, Min: 1, Max: 2} }
	only := func(s NegState, v, lo, hi uint32) Negotiation {
		return Negotiation{State: s, Version: v, Min: lo, Max: hi}
	}
	for _, tc := range []struct {
		name string
		from Negotiation
		ev   NegEvent
		to   Negotiation
		act  NegAction
	}{
		{"§7 the highest version is tried first", neg(NegIdle, 0), connected, neg(NegProbing, 2), NegProbe},
		{"§7 a client of version 1 only", only(NegIdle, 0, 1, 1), connected, only(NegProbing, 1, 1, 1), NegProbe},
		{"a reply before the connection", neg(NegIdle, 0), reply(2), neg(NegIdle, 0), NegNothing},
		{"a refusal before the connection", neg(NegIdle, 0), refused(1, 1), neg(NegIdle, 0), NegNothing},

		{"D-4 the client's first call, at its server", neg(NegIdle, 0), called(1), neg(NegSettled, 1), NegOpen},
		{"called while probing", neg(NegProbing, 2), called(2), neg(NegProbing, 2), NegNothing},
		{"D-4 a later call of another version", neg(NegSettled, 2), called(1), neg(NegSettled, 2), NegNothing},
		{"called when failed", neg(NegFailed, 2), called(2), neg(NegFailed, 2), NegNothing},

		{"connected twice", neg(NegProbing, 2), connected, neg(NegProbing, 2), NegNothing},
		{"§7.1 the server supports version 2", neg(NegProbing, 2), reply(2), neg(NegSettled, 2), NegOpen},
		{"a reply of the version that was refused", neg(NegProbing, 1), reply(2), neg(NegProbing, 1), NegNothing},
		{"a reply of a version not probed yet", neg(NegProbing, 2), reply(1), neg(NegProbing, 2), NegNothing},
		{"a reply of no version", neg(NegProbing, 2), reply(0), neg(NegProbing, 2), NegNothing},
		{"§7.2 the server has version 1", neg(NegProbing, 2), refused(1, 1), neg(NegProbing, 1), NegProbe},
		{"§7.2 the server has 0 and 1", neg(NegProbing, 2), refused(0, 1), neg(NegProbing, 1), NegProbe},
		{"D-5 it refuses 2 and lists it", neg(NegProbing, 2), refused(1, 2), neg(NegProbing, 1), NegProbe},
		{"D-5 it refuses 2 and lists nothing else", neg(NegProbing, 2), refused(2, 2), neg(NegFailed, 2), NegFail},
		{"D-5 versions above ours only", neg(NegProbing, 2), refused(5, 7), neg(NegFailed, 2), NegFail},
		{"D-5 versions below ours only", neg(NegProbing, 2), refused(0, 0), neg(NegFailed, 2), NegFail},
		{"D-5 a range upside down", neg(NegProbing, 2), refused(2, 1), neg(NegFailed, 2), NegFail},
		{"D-5 every version there is", neg(NegProbing, 2), refused(0, 1<<32-1), neg(NegProbing, 1), NegProbe},
		{"version 1 is refused as well", neg(NegProbing, 1), refused(1, 1), neg(NegFailed, 1), NegFail},
		{"version 2 is asked back for", neg(NegProbing, 1), refused(2, 2), neg(NegFailed, 1), NegFail},
		{"version 1 is not allowed here", only(NegProbing, 2, 2, 2), refused(1, 1), only(NegFailed, 2, 2, 2), NegFail},

		{"connected when settled", neg(NegSettled, 2), connected, neg(NegSettled, 2), NegNothing},
		{"a later reply", neg(NegSettled, 2), reply(2), neg(NegSettled, 2), NegNothing},
		{"a later reply of another version", neg(NegSettled, 2), reply(1), neg(NegSettled, 2), NegNothing},
		{"§7.3 a later refusal is its call's", neg(NegSettled, 2), refused(1, 1), neg(NegSettled, 2), NegNothing},

		{"connected when failed", neg(NegFailed, 2), connected, neg(NegFailed, 2), NegNothing},
		{"a reply when failed", neg(NegFailed, 2), reply(2), neg(NegFailed, 2), NegNothing},
		{"a refusal when failed", neg(NegFailed, 2), refused(1, 1), neg(NegFailed, 2), NegNothing},
	} {
		if to, act := tc.from.Step(tc.ev); to != tc.to || act != tc.act {
			t.Errorf("%s: %+v, %d; want %+v, %d", tc.name, to, act, tc.to, tc.act)
		}
	}
}

func TestVersionCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v VersionCache
		const a, b = "x://a", "x://b"
		want := func(what string, peer string, n uint32) {
			t.Helper()
			if got := v.Max(peer, 2); got != n {
				t.Errorf("%s: start with %d, want %d", what, got, n)
			}
		}
		want("nothing known", a, 2)
		v.settled(a, 1, 2)
		want("after ERR_VERS", a, 1)
		want("another server", b, 2)
		if v.Max(a, 1) != 1 {
			t.Error("more than allowed")
		}
		time.Sleep(versionMemory)
		want("ten minutes later", a, 2)
		v.settled(a, 1, 1)
		want("version 1 was all we tried", a, 2)

		v.lost(b)
		want("one loss", b, 2)
		v.settled(b, 1, 1)
		v.lost(b)
		want("two losses, not in a row", b, 2)
		v.lost(b)
		want("two in a row", b, 1)
		v.forget(b)
		want("forgotten", b, 2)
		v.settled(b, 2, 2)
		v.lost(b)
		v.lost(b)
		v.lost(b)
		want("it has spoken version 2 before", b, 2)
		v.settled(b, 1, 2)
		want("it says itself that it no longer does", b, 1)

		for i := range 2 * versionPeers {
			v.settled(fmt.Sprint(i), 1, 2)
		}
		if len(v.peers) > versionPeers {
			t.Errorf("%d peers remembered", len(v.peers))
		}
		var none *VersionCache
		none.settled(a, 1, 2)
		none.lost(a)
		none.forget(a)
		if none.Max(a, 2) != 2 {
			t.Error("no cache remembers")
		}
	})
}
