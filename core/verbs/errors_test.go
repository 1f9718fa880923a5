package verbs_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

func TestOptionError(t *testing.T) {
	for _, c := range []struct {
		err  verbs.OptionError
		want string
	}{
		{verbs.OptionError{Provider: "iwarp", Key: "mtu", Value: "x", Want: "a number"}, `iwarp: option mtu="x": want a number`},
		{verbs.OptionError{Provider: "rxe", Key: "color", Want: "unknown"}, `rxe: option "color": unknown`},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		var oe *verbs.OptionError
		if wrapped := fmt.Errorf("open: %w", &c.err); !errors.As(wrapped, &oe) || oe.Key != c.err.Key {
			t.Errorf("%v: no OptionError found in it", wrapped)
		}
	}
}

func TestPrivateDataError(t *testing.T) {
	err := &verbs.PrivateDataError{Step: "dial", Len: 57, Max: 56}
	if want := "57 bytes of private data, but a dial carries at most 56 here"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

func TestTerminatedErrorUnwrapsToItsReason(t *testing.T) {
	for _, reason := range []error{verbs.ErrRemoteAccess, verbs.ErrNoReceive, verbs.ErrTooLong, verbs.ErrProtocol} {
		for _, remote := range []bool{false, true} {
			err := fmt.Errorf("conn 7: %w", &verbs.TerminatedError{Remote: remote, Layer: "DDP", Code: "tagged buffer error", Err: reason})
			if !errors.Is(err, reason) {
				t.Errorf("%v is not %v", err, reason)
			}
			for _, other := range []error{verbs.ErrRemoteAccess, verbs.ErrNoReceive, verbs.ErrTooLong, verbs.ErrProtocol} {
				if other != reason && errors.Is(err, other) {
					t.Errorf("%v is %v too", err, other)
				}
			}
		}
	}
	ours := &verbs.TerminatedError{Layer: "IB", Code: "NAK"}
	theirs := &verbs.TerminatedError{Remote: true, Layer: "IB", Code: "NAK"}
	if ours.Error() == theirs.Error() {
		t.Errorf("%q does not tell who said it", ours)
	}
}

func TestRejectedError(t *testing.T) {
	err := fmt.Errorf("dial: %w", &verbs.RejectedError{Private: []byte("why"), Reason: "not today"})
	var re *verbs.RejectedError
	if !errors.As(err, &re) || string(re.Private) != "why" {
		t.Errorf("%v: no RejectedError found in it", err)
	}
}

func TestNamesOfOpsAndStatuses(t *testing.T) {
	seen := map[string]bool{}
	for op := verbs.OpRecv; op <= verbs.OpInvalidate; op++ {
		s := op.String()
		if seen[s] || s == fmt.Sprintf("Op(%d)", uint8(op)) {
			t.Errorf("Op %d has no name of its own: %q", uint8(op), s)
		}
		seen[s] = true
	}
	for s := verbs.OK; s <= verbs.RemoteError; s++ {
		if seen[s.String()] || s.String() == fmt.Sprintf("Status(%d)", uint8(s)) {
			t.Errorf("Status %d has no name of its own: %q", uint8(s), s)
		}
		seen[s.String()] = true
	}
	if got := verbs.Op(0).String() + verbs.Op(99).String() + verbs.Status(99).String(); got != "Op(0)Op(99)Status(99)" {
		t.Errorf("unknown values are called %s", got)
	}
}

// mem is a Region of Go memory.
type mem []byte

func (m mem) Bytes() []byte { return m }
func (mem) Release()        {}

func TestSegBytesAreCapped(t *testing.T) {
	s := verbs.Seg{R: mem("0123456789"), Off: 2, N: 3}
	if string(s.Bytes()) != "234" {
		t.Errorf("Bytes is %q", s.Bytes())
	}
	if cap(s.Bytes()) != 3 {
		t.Errorf("an append would run into the next segment: cap is %d", cap(s.Bytes()))
	}
}
