package ddp

import (
	"bytes"
	"testing"

	"github.com/rpcrdma/rpcrdma/test/unhex"
)

// Headers as Linux siw sends them.
const (
	siwWrite   = "c14071244f01cffc4a5a0420a000"         // last segment of a Write
	siwSend    = "414300000000000000000000000100000000" // a Send of one segment
	siwSendInv = "414400005555000000000000000100000000"
	siwRead    = "414100000000000000010000000100000000"
	siwMiddle  = "01430000000000000000" + "00000001" + "00000af0" // not the last
)

func TestHeaders(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		want      string
		appended  []byte
	}{
		{"RFC 5041 §4.1 tagged", siwWrite, "tagged last=true ulp=0x40 stag=0x71244f01 to=0xcffc4a5a0420a000",
			AppendTagged(nil, true, 0x40, 0x71244f01, 0xcffc4a5a0420a000)},
		{"RFC 5041 §4.2 untagged", siwSend, "untagged last=true ulp=0x43 ulp2=0x0 qn=0 msn=1 mo=0",
			AppendUntagged(nil, true, 0x43, 0, QueueSend, 1, 0)},
		{"with an STag to invalidate", siwSendInv, "untagged last=true ulp=0x44 ulp2=0x5555 qn=0 msn=1 mo=0",
			AppendUntagged(nil, true, 0x44, 0x5555, QueueSend, 1, 0)},
		{"on the queue of Reads", siwRead, "untagged last=true ulp=0x41 ulp2=0x0 qn=1 msn=1 mo=0",
			AppendUntagged(nil, true, 0x41, 0, QueueRead, 1, 0)},
		{"in the middle of a message", siwMiddle, "untagged last=false ulp=0x43 ulp2=0x0 qn=0 msn=1 mo=2800",
			AppendUntagged(nil, false, 0x43, 0, QueueSend, 1, 2800)},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := unhex.Octets(t, c.hex)
			h, payload, ok := Cut(append(bytes.Clone(b), "payload"...))
			if !ok || string(payload) != "payload" || !bytes.Equal(h, b) {
				t.Fatalf("cut into %x and %q, %t", []byte(h), payload, ok)
			}
			if got := h.String(); got != c.want {
				t.Errorf("reads %s, want %s", got, c.want)
			}
			if !bytes.Equal(c.appended, b) {
				t.Errorf("appended %x, want %x", c.appended, b)
			}
			if f := Check(h); f != 0 {
				t.Errorf("Check: %#x", f)
			}
		})
	}
}

func TestCutRefuses(t *testing.T) {
	for _, s := range []string{"", "c1", siwWrite[:26], siwSend[:34]} {
		if h, _, ok := Cut(unhex.Octets(t, s)); ok {
			t.Errorf("%s: cut into %x", s, []byte(h))
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		h    Header
		want Fault
	}{
		{"RFC 5041 §8.1 tagged version 0", with(AppendTagged(nil, true, 0x40, 1, 1), 0, 0xc0), FaultTaggedVersion},
		{"RFC 5041 §8.2 untagged version 2", with(AppendUntagged(nil, true, 0x43, 0, 0, 1, 0), 0, 0x42), FaultUntaggedVersion},
		{"queue 3", AppendUntagged(nil, true, 0x43, 0, 3, 1, 0), FaultQN},
		{"queue 2", AppendUntagged(nil, true, 0x47, 0, QueueTerminate, 1, 0), 0},
	} {
		if got := Check(c.h); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
	if FaultTooLong.Type() != 2 || FaultTooLong.Code() != 5 || FaultSTag.Type() != 1 || FaultSTag.Code() != 0 {
		t.Error("the numbers of RFC 5041 §8")
	}
}

func with(h []byte, off int, v byte) Header {
	h[off] = v
	return h
}

// TestInbound plays the queue segment by segment.
func TestInbound(t *testing.T) {
	type segment struct {
		msn, mo uint32
		n       int
		last    bool
		want    Fault
		inside  bool
	}
	for _, c := range []struct {
		name     string
		segments []segment
	}{
		{"RFC 5041 §5.3: MSN begins at 1", []segment{{0, 0, 8, true, FaultMSN, false}, {2, 0, 8, true, FaultMSN, false}, {1, 0, 8, true, 0, false}}},
		{"messages follow each other", []segment{{1, 0, 8, true, 0, false}, {2, 0, 0, true, 0, false}, {3, 0, 8, true, 0, false}}},
		{"MO counts the bytes of the message", []segment{{1, 0, 100, false, 0, true}, {1, 100, 50, false, 0, true}, {1, 150, 1, true, 0, false}, {2, 0, 1, true, 0, false}}},
		{"a gap", []segment{{1, 0, 100, false, 0, true}, {1, 101, 1, true, FaultMO, true}}},
		{"an overlap", []segment{{1, 0, 100, false, 0, true}, {1, 99, 1, true, FaultMO, true}}},
		{"the next message before the last segment", []segment{{1, 0, 100, false, 0, true}, {2, 0, 1, true, FaultMSN, true}}},
		{"a first segment that is not the first", []segment{{1, 8, 8, true, FaultMO, false}}},
		{"an empty segment begins a message too", []segment{{1, 0, 0, false, 0, true}, {1, 0, 4, true, 0, false}}},
		{"MO does not wrap", []segment{{1, 0, 1<<32 - 2, false, 0, true}, {1, 1<<32 - 2, 2, true, FaultTooLong, true}, {1, 1<<32 - 2, 1, true, 0, false}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var q Inbound
			for i, s := range c.segments {
				h := Header(AppendUntagged(nil, s.last, 0x43, 0, QueueSend, s.msn, s.mo))
				got := q.Next(h, s.n)
				if got == 0 {
					q.Take(h, s.n)
				}
				if got != s.want || q.Inside() != s.inside {
					t.Fatalf("segment %d: fault %#x, inside %t; want %#x, %t", i, got, q.Inside(), s.want, s.inside)
				}
			}
		})
	}
}

func FuzzCut(f *testing.F) {
	for _, s := range []string{siwWrite, siwSend, siwSendInv, siwRead, siwMiddle} {
		f.Add(unhex.Octets(f, s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, payload, ok := Cut(b)
		if !ok {
			return
		}
		if Check(h) != 0 {
			return
		}
		var again []byte
		if h.Tagged() {
			again = AppendTagged(nil, h.Last(), h.ULP(), h.STag(), h.TO())
		} else {
			again = AppendUntagged(nil, h.Last(), h.ULP(), h.ULP2(), h.QN(), h.MSN(), h.MO())
		}
		again[0] |= b[0] & 0x3c // reserved bits
		if again = append(again, payload...); !bytes.Equal(again, b) {
			t.Fatalf("re-encoded %x from %x", again, b)
		}
	})
}
