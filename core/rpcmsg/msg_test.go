package rpcmsg

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/test/unhex"
)

func wrote(t testing.TB, f func(*xdr.Writer)) []byte {
	t.Helper()
	var w xdr.Writer
	f(&w)
	if w.Err() != nil {
		t.Fatal(w.Err())
	}
	return w.Bytes()
}

func TestCall(t *testing.T) {
	for _, tc := range []struct {
		name string
		hex  string
		want CallHeader
	}{
		{"§9 NULL of NFSv3 without credential: a Linux client's first",
			"3bbaeb74 00000000 00000002 000186a3 00000003 00000000 00000000 00000000 00000000 00000000",
			CallHeader{XID: 0x3bbaeb74, Program: 100003, Version: 3}},
		{"Appendix A AUTH_SYS",
			`1c0e6b60 00000000 00000002 000186a3 00000003 00000001
			 00000001 00000018 00000000 00000003 636c6900 00000000 00000000 00000000
			 00000000 00000000`,
			CallHeader{XID: 0x1c0e6b60, Program: 100003, Version: 3, Proc: 1,
				Cred: Auth{AuthSys, []byte("\x00\x00\x00\x00\x00\x00\x00\x03cli\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")}}},
		{"§8.2 an opaque credential and verifier of odd lengths",
			"00000001 00000000 00000002 00000002 00000003 00000004 00000006 00000001 aa000000 00000009 00000005 01020304 05000000",
			CallHeader{XID: 1, Program: 2, Version: 3, Proc: 4,
				Cred: Auth{AuthRPCGSS, []byte{0xaa}}, Verf: Auth{9, []byte{1, 2, 3, 4, 5}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := unhex.Octets(t, tc.hex)
			r := xdr.NewReader(append(b[:len(b):len(b)], "arguments..."...))
			var h CallHeader
			if err := h.Parse(r); err != nil || r.Offset() != len(b) {
				t.Fatalf("%v at %d of %d", err, r.Offset(), len(b))
			}
			if got := wrote(t, h.Append); !bytes.Equal(got, b) || h.Len() != len(b) {
				t.Errorf("%x", got)
			}
			if got := wrote(t, tc.want.Append); !bytes.Equal(got, b) {
				t.Errorf("want is %x", got)
			}
			if x, isReply, ok := PeekType(b); !ok || isReply || x != h.XID {
				t.Error("PeekType")
			}
			for i := range b {
				if err := h.Parse(xdr.NewReader(b[:i])); err == nil {
					t.Errorf("accepted %d of %d bytes", i, len(b))
				}
			}
		})
	}
}

func TestCallRefused(t *testing.T) {
	const tail = "00000002 00000003 00000004 00000000 00000000 00000000 00000000"
	for _, tc := range []struct {
		name string
		hex  string
		want error
	}{
		{"a reply", "00000001 00000001 00000002" + tail, ErrType},
		{"§9 message type 2", "00000001 00000002 00000002" + tail, xdr.ErrValue},
		{"§8.2 credential of 401 bytes", "00000001 00000000 00000002 00000002 00000003 00000004 00000001 00000191" +
			strings.Repeat("00", 412), xdr.ErrBounds},
		{"§8.2 verifier of 2^32-1 bytes", "00000001 00000000 00000002 00000002 00000003 00000004 00000000 00000000 00000000 ffffffff", xdr.ErrBounds},
		{"cut", "00000001 00000000", xdr.ErrShort},
	} {
		var h CallHeader
		r := xdr.NewReader(unhex.Octets(t, tc.hex))
		if err := h.Parse(r); !errors.Is(err, tc.want) || r.Err() != err {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// TestRPCMismatch: §9: rpcvers MUST be 2; another one is answered with what there is.
func TestRPCMismatch(t *testing.T) {
	var h CallHeader
	err := h.Parse(xdr.NewReader(unhex.Octets(t, "0000002a 00000000 00000003 ffffffff")))
	var m *RPCMismatch
	if !errors.As(err, &m) || m.XID != 42 || m.Version != 3 || h.XID != 42 {
		t.Fatalf("%v", err)
	}
	var rep ReplyHeader
	rep.Refuse(m.XID, err)
	want := unhex.Octets(t, "0000002a 00000001 00000001 00000000 00000002 00000002")
	if got := wrote(t, rep.Append); !bytes.Equal(got, want) {
		t.Errorf("%x", got)
	}
	var e *RejectError
	if !errors.As(rep.Err(), &e) || e.Low != 2 || e.High != 2 {
		t.Error(rep.Err())
	}
}

// replies are all states of a reply, with what they are as errors.
var replies = []struct {
	name string
	hex  string
	err  error
	is   []error
}{
	{"SUCCESS", "00000007 00000001 00000000 00000000 00000000 00000000", nil, nil},
	{"SUCCESS with a verifier", "00000007 00000001 00000000 00000002 00000005 01020304 05000000 00000000", nil, nil},
	{"PROG_UNAVAIL", "00000007 00000001 00000000 00000000 00000000 00000001", &AcceptError{Stat: ProgUnavail}, []error{ErrProgUnavail}},
	{"PROG_MISMATCH", "00000007 00000001 00000000 00000000 00000000 00000002 00000003 00000004", &AcceptError{ProgMismatch, 3, 4}, []error{ErrProgMismatch}},
	{"PROC_UNAVAIL", "00000007 00000001 00000000 00000000 00000000 00000003", &AcceptError{Stat: ProcUnavail}, []error{ErrProcUnavail}},
	{"GARBAGE_ARGS", "00000007 00000001 00000000 00000000 00000000 00000004", &AcceptError{Stat: GarbageArgs}, []error{ErrGarbageArgs}},
	{"SYSTEM_ERR", "00000007 00000001 00000000 00000000 00000000 00000005", &AcceptError{Stat: SystemErr}, []error{ErrSystem}},
	{"accept_stat 6: void by the default arm", "00000007 00000001 00000000 00000000 00000000 00000006", &AcceptError{Stat: 6}, nil},
	{"RPC_MISMATCH", "00000007 00000001 00000001 00000000 00000002 00000003", &RejectError{2, 3}, []error{ErrDenied}},
	{"AUTH_ERROR AUTH_BADCRED", "00000007 00000001 00000001 00000001 00000001", &AuthError{AuthBadCred}, []error{ErrAuth, ErrDenied, &AuthError{AuthBadCred}}},
	{"AUTH_ERROR AUTH_TOOWEAK", "00000007 00000001 00000001 00000001 00000005", &AuthError{AuthTooWeak}, []error{ErrAuth, ErrDenied, &AuthError{AuthTooWeak}}},
	{"AUTH_ERROR RPCSEC_GSS_CTXPROBLEM", "00000007 00000001 00000001 00000001 0000000e", &AuthError{RPCSECGSSCtxProblem}, []error{ErrAuth, ErrDenied}},
	{"AUTH_ERROR of a later mechanism", "00000007 00000001 00000001 00000001 000003e8", &AuthError{1000}, []error{ErrAuth, ErrDenied}},
}

func TestReply(t *testing.T) {
	for _, tc := range replies {
		t.Run(tc.name, func(t *testing.T) {
			b := unhex.Octets(t, tc.hex)
			var h ReplyHeader
			r := xdr.NewReader(append(b[:len(b):len(b)], "results"...))
			if err := h.Parse(r); err != nil || r.Offset() != len(b) || h.XID != 7 {
				t.Fatalf("%v at %d of %d", err, r.Offset(), len(b))
			}
			if got := wrote(t, h.Append); !bytes.Equal(got, b) || h.Len() != len(b) {
				t.Errorf("%x, Len %d", got, h.Len())
			}
			if x, isReply, ok := PeekType(b); !ok || !isReply || x != 7 {
				t.Error("PeekType")
			}
			err := h.Err()
			if !reflect.DeepEqual(err, tc.err) {
				t.Errorf("error %#v, want %#v", err, tc.err)
			}
			for _, target := range tc.is {
				if !errors.Is(err, target) {
					t.Errorf("%v is not %v", err, target)
				}
			}
			for _, other := range []error{ErrProgUnavail, ErrProgMismatch, ErrProcUnavail, ErrGarbageArgs, ErrSystem, ErrAuth, ErrDenied} {
				wanted := false
				for _, target := range tc.is {
					wanted = wanted || target == other
				}
				if errors.Is(err, other) != wanted {
					t.Errorf("%v: is %v", err, other)
				}
			}
			for i := range b {
				if err := h.Parse(xdr.NewReader(b[:i])); err == nil {
					t.Errorf("accepted %d of %d bytes", i, len(b))
				}
			}
			if tc.err != nil { // and back: what a server answers with that error
				var again ReplyHeader
				again.Refuse(7, tc.err)
				if got := wrote(t, again.Append); !bytes.Equal(got, b) {
					t.Errorf("Refuse(%v) is %x", tc.err, got)
				}
			}
		})
	}
}

func TestReplyRefused(t *testing.T) {
	for _, tc := range []struct {
		name, hex string
		want      error
	}{
		{"a call", "00000001 00000000 00000002 00000000 00000000 00000000", ErrType},
		{"message type 2", "00000001 00000002 00000000 00000000 00000000 00000000", xdr.ErrValue},
		{"reply_stat 2", "00000001 00000001 00000002 00000000 00000000", xdr.ErrValue},
		{"reject_stat 2", "00000001 00000001 00000001 00000002 00000000", xdr.ErrValue},
		{"verifier of 401 bytes", "00000001 00000001 00000000 00000000 00000191" + strings.Repeat("00", 412), xdr.ErrBounds},
	} {
		var h ReplyHeader
		if err := h.Parse(xdr.NewReader(unhex.Octets(t, tc.hex))); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// TestRefuse: what is no error of this package is SYSTEM_ERR, and so is a success.
func TestRefuse(t *testing.T) {
	for _, err := range []error{errors.New("disk on fire"), nil, &AcceptError{Stat: Success}} {
		var h ReplyHeader
		h.Refuse(1, err)
		if !errors.Is(h.Err(), ErrSystem) {
			t.Errorf("%v: %v", err, h.Err())
		}
	}
}

func TestPeekType(t *testing.T) {
	for _, tc := range []struct {
		hex string
		ok  bool
	}{
		{"", false}, {"00000001 000000", false}, {"00000001 00000000", true}, {"00000001 00000001", true},
		{"00000001 00000002", false}, {"00000001 ffffffff", false},
	} {
		if _, _, ok := PeekType(unhex.Octets(t, tc.hex)); ok != tc.ok {
			t.Errorf("%s: %v", tc.hex, ok)
		}
	}
}

// captured are RPC messages that Linux sent.
func captured(t testing.TB) (msgs [][]byte) {
	t.Helper()
	text, err := os.ReadFile("testdata/linux.hex")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			msgs = append(msgs, unhex.Octets(t, line))
		}
	}
	return msgs
}

// TestLinux: what Linux sends is read, and written as it was.
func TestLinux(t *testing.T) {
	calls, replies := 0, 0
	for _, b := range captured(t) {
		r := xdr.NewReader(b)
		_, isReply, ok := PeekType(b)
		if !ok {
			t.Fatalf("%x", b)
		}
		if isReply {
			var h ReplyHeader
			if err := h.Parse(r); err != nil || !bytes.Equal(wrote(t, h.Append), b[:r.Offset()]) {
				t.Errorf("%v %x", err, b)
			}
			replies++
			continue
		}
		var h CallHeader
		if err := h.Parse(r); err != nil || !bytes.Equal(wrote(t, h.Append), b[:r.Offset()]) {
			t.Errorf("%v %x", err, b)
		}
		var s Sys
		if h.Cred.Flavor == AuthSys {
			if err := s.Parse(h.Cred.Body); err != nil || !bytes.Equal(wrote(t, s.Append), h.Cred.Body) {
				t.Errorf("%v %+v", err, s)
			}
		}
		calls++
	}
	if calls < 5 || replies < 3 {
		t.Errorf("%d calls, %d replies", calls, replies)
	}
}
