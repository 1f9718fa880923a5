package fair_test

import (
	"net/netip"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/fair"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestQuotaLeavesSomeForOthers(t *testing.T) {
	q := fair.Quota{Limit: 12}
	most := func(peer string) (n int) {
		for q.Take(addr(peer), 1) {
			n++
		}
		return n
	}
	for _, tc := range []struct {
		peer string
		want int
	}{
		{"192.0.2.1", 6}, // half
		{"192.0.2.2", 3}, // half of what is left
		{"192.0.2.3", 1}, // 1 ≤ 2 left, 2 > 1
		{"192.0.2.4", 1}, // as many
		{"192.0.2.5", 1}, // the last one
		{"192.0.2.6", 0}, // none left
		{"192.0.2.1", 0}, // no more for those who have some
	} {
		if n := most(tc.peer); n != tc.want {
			t.Errorf("%s got %d, want %d", tc.peer, n, tc.want)
		}
	}
	if q.Used() != 12 || q.Held(addr("192.0.2.1")) != 6 {
		t.Errorf("%d used, %d by the first", q.Used(), q.Held(addr("192.0.2.1")))
	}
	q.Give(addr("192.0.2.1"), 6)
	if q.Used() != 6 || q.Held(addr("192.0.2.1")) != 0 || !q.Take(addr("192.0.2.6"), 2) {
		t.Errorf("what was given back cannot be taken: %d used", q.Used())
	}
}

func TestQuotaPerPeer(t *testing.T) {
	q := fair.Quota{Limit: 10, PerPeer: 8}
	if q.Take(addr("192.0.2.1"), 9) {
		t.Error("more than one may have")
	}
	if !q.Take(addr("192.0.2.1"), 8) || q.Take(addr("192.0.2.1"), 1) || q.Take(addr("192.0.2.2"), 3) || !q.Take(addr("192.0.2.2"), 2) {
		t.Error("8 of 10 for one, the rest for others")
	}
}

func TestQuotaTellsPeersApart(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"2001:db8::1", "2001:db8::ffff:1", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
		{"fe80::1%eth0", "fe80::2%eth1", true},
	} {
		if same := fair.PeerKey(addr(tc.a)) == fair.PeerKey(addr(tc.b)); same != tc.same {
			t.Errorf("%s and %s: %v, want %v", tc.a, tc.b, same, tc.same)
		}
	}
}

func TestQuotaGivenBackTwicePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	q := fair.Quota{Limit: 1}
	q.Take(addr("192.0.2.1"), 1)
	q.Give(addr("192.0.2.1"), 1)
	q.Give(addr("192.0.2.1"), 1)
}
