package rpcmsg

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/test/unhex"
)

func TestSys(t *testing.T) {
	groups := make([]uint32, MaxGIDs)
	for i := range groups {
		groups[i] = uint32(i)
	}
	for _, s := range []Sys{
		{},
		{Stamp: 1, Machine: "client", UID: 1000, GID: 100, GIDs: []uint32{4, 24, 27}},
		{Machine: strings.Repeat("x", MaxMachine), UID: 1<<32 - 1, GID: 1<<32 - 2, GIDs: groups},
	} {
		a, err := s.Auth()
		if err != nil || a.Flavor != AuthSys || len(a.Body) > MaxAuthBody {
			t.Fatalf("%v, %d bytes: %v", a.Flavor, len(a.Body), err)
		}
		got := Sys{GIDs: make([]uint32, 3, 16)}
		if err := got.Parse(a.Body); err != nil {
			t.Fatal(err)
		}
		if len(got.GIDs) == 0 {
			got.GIDs = nil
		}
		if !reflect.DeepEqual(got, s) {
			t.Errorf("%+v became %+v", s, got)
		}
		for i := range a.Body {
			if got.Parse(a.Body[:i]) == nil {
				t.Errorf("accepted %d of %d bytes", i, len(a.Body))
			}
		}
	}
}

// TestSysRefused: RFC 5531 Appendix A: string<255>, gids<16>.
func TestSysRefused(t *testing.T) {
	for _, s := range []Sys{
		{Machine: strings.Repeat("x", MaxMachine+1)},
		{GIDs: make([]uint32, MaxGIDs+1)},
	} {
		if _, err := s.Auth(); !errors.Is(err, xdr.ErrBounds) {
			t.Errorf("%v", err)
		}
		if _, err := NewSys(&s); err == nil {
			t.Error("NewSys")
		}
	}
	for _, tc := range []struct {
		name, hex string
		want      error
	}{
		{"name of 256 bytes", "00000000 00000100" + strings.Repeat("78", 256) + "00000000 00000000 00000000", xdr.ErrBounds},
		{"17 groups", "00000000 00000000 00000000 00000000 00000011" + strings.Repeat("00000000", 17), xdr.ErrBounds},
		{"surplus", "00000000 00000000 00000000 00000000 00000000 00000000", xdr.ErrTrailing},
		{"groups cut", "00000000 00000000 00000000 00000000 00000002 00000000", xdr.ErrShort},
	} {
		var s Sys
		if err := s.Parse(unhex.Octets(t, tc.hex)); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// TestAuthBound: RFC 5531 §8.2: a body has 400 bytes at most.
func TestAuthBound(t *testing.T) {
	var w xdr.Writer
	(&Auth{Body: make([]byte, MaxAuthBody)}).Append(&w)
	if w.Err() != nil {
		t.Error(w.Err())
	}
	(&Auth{Body: make([]byte, MaxAuthBody+1)}).Append(&w)
	if !errors.Is(w.Err(), xdr.ErrBounds) {
		t.Error(w.Err())
	}
}

// signer is a mechanism whose verifier is a checksum over what it is said to sign.
type signer struct{ Plain }

func (*signer) Cred(h *CallHeader) error {
	h.Cred = Auth{AuthRPCGSS, []byte{byte(h.Proc)}}
	return nil
}

func (*signer) Verf(h *CallHeader, signed []byte) error {
	sum := byte(0)
	for _, b := range signed {
		sum += b
	}
	h.Verf = Auth{AuthRPCGSS, []byte{sum, byte(len(signed))}}
	return nil
}

// TestAppendCall: the verifier is made over the header up to and with the credential
// (RFC 2203 §5.3.1), wherever in the writer it stands.
func TestAppendCall(t *testing.T) {
	var w xdr.Writer
	w.Uint32(0xffffffff) // not ours
	h := CallHeader{XID: 1, Program: 2, Version: 3, Proc: 4}
	if err := AppendCall(&w, &h, &signer{}); err != nil {
		t.Fatal(err)
	}
	want := unhex.Octets(t, `ffffffff
		00000001 00000000 00000002 00000002 00000003 00000004 00000006 00000001 04000000
		00000006 00000002 17240000`)
	if !bytes.Equal(w.Bytes(), want) {
		t.Errorf("%x", w.Bytes())
	}
	sys, err := NewSys(&Sys{Machine: "m"})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []ClientAuth{nil, &Plain{}, sys} {
		var w, plain xdr.Writer
		if err := AppendCall(&w, &h, a); err != nil {
			t.Fatal(err)
		}
		if h.Append(&plain); !bytes.Equal(w.Bytes(), plain.Bytes()) {
			t.Errorf("%x", w.Bytes())
		}
	}
	if h.Cred.Flavor != AuthSys || h.Verf.Flavor != AuthNone {
		t.Errorf("%+v", h)
	}
}

func TestFlavorNames(t *testing.T) {
	for f, want := range map[Flavor]string{AuthNone: "AUTH_NONE", AuthSys: "AUTH_SYS", AuthRPCGSS: "RPCSEC_GSS", 99: "flavor 99"} {
		if f.String() != want {
			t.Error(f)
		}
	}
}

// TestAllocs: calls with AUTH_NONE and AUTH_SYS, and successful replies.
func TestAllocs(t *testing.T) {
	sys := &Sys{Machine: "client", GIDs: []uint32{1, 2, 3}}
	cred, err := sys.Auth()
	if err != nil {
		t.Fatal(err)
	}
	var w xdr.Writer
	var r xdr.Reader
	var call CallHeader
	var reply ReplyHeader
	var got Sys
	for name, f := range map[string]func(){
		"append AUTH_NONE": func() { call = CallHeader{XID: 1}; call.Append(&w) },
		"append AUTH_SYS":  func() { call = CallHeader{XID: 1, Cred: cred}; call.Append(&w) },
		"append success":   func() { reply = ReplyHeader{XID: 1}; reply.Append(&w) },
		"round trip": func() {
			call = CallHeader{XID: 1, Cred: cred}
			call.Append(&w)
			r.Reset(w.Bytes(), nil)
			if call.Parse(&r) != nil || got.ParseView(call.Cred.Body) != nil {
				t.Fatal("call")
			}
			w.Reset()
			reply = ReplyHeader{XID: 1}
			reply.Append(&w)
			r.Reset(w.Bytes(), nil)
			if reply.Parse(&r) != nil || reply.Err() != nil {
				t.Fatal("reply")
			}
		},
	} {
		w.Reset()
		f()
		if n := testing.AllocsPerRun(50, func() { w.Reset(); f() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkCallSys(b *testing.B) {
	cred, err := (&Sys{Machine: "client", GIDs: []uint32{1, 2, 3}}).Auth()
	if err != nil {
		b.Fatal(err)
	}
	h := CallHeader{XID: 1, Program: 100003, Version: 3, Proc: 1, Cred: cred}
	var w xdr.Writer
	var r xdr.Reader
	b.Run("Append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			w.Reset()
			h.Append(&w)
		}
	})
	b.Run("Parse", func(b *testing.B) {
		b.ReportAllocs()
		var got CallHeader
		for b.Loop() {
			r.Reset(w.Bytes(), nil)
			if err := got.Parse(&r); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestPlainServer: the identity, or the AUTH_ERROR that the caller gets.
func TestPlainServer(t *testing.T) {
	cred, err := (&Sys{Machine: "m", UID: 7}).Auth()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		server PlainServer
		cred   Auth
		uid    int // -1: no identity
		want   error
	}{
		{"AUTH_NONE", PlainServer(AuthNone), Auth{}, -1, nil},
		{"§10.1 AUTH_NONE with a body", PlainServer(AuthNone), Auth{Body: []byte{1}}, -1, nil},
		{"AUTH_SYS", PlainServer(AuthSys), cred, 7, nil},
		{"AUTH_SYS cut", PlainServer(AuthSys), Auth{AuthSys, cred.Body[:8]}, -1, &AuthError{AuthBadCred}},
		{"AUTH_NONE where AUTH_SYS is asked", PlainServer(AuthSys), Auth{}, -1, &AuthError{AuthRejectedCred}},
	} {
		id, err := tc.server.Accept(&CallHeader{Cred: tc.cred}, nil)
		if (err == nil) != (tc.want == nil) || err != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if s, ok := id.(*Sys); ok != (tc.uid >= 0) || ok && s.UID != uint32(tc.uid) {
			t.Errorf("%s: identity %v", tc.name, id)
		}
	}
}

func TestProtects(t *testing.T) { // RFC 2203 §5.3.1, RFC 5403 §3
	gss := func(words ...uint32) Auth {
		var w xdr.Writer
		for _, v := range words {
			w.Uint32(v)
		}
		return Auth{Flavor: AuthRPCGSS, Body: w.Bytes()}
	}
	for name, tc := range map[string]struct {
		cred Auth
		want bool
	}{
		"AUTH_NONE":                 {Auth{}, false},
		"AUTH_SYS":                  {Auth{Flavor: AuthSys, Body: make([]byte, 20)}, false},
		"none":                      {gss(1, 0, 7, 1, 0), false},
		"integrity":                 {gss(1, 0, 7, 2, 0), true},
		"privacy":                   {gss(1, 0, 7, 3, 0), true},
		"version 2, privacy":        {gss(2, 0, 7, 3, 0), true},
		"version 2, channel":        {gss(2, 0, 7, 4, 0), false},
		"making a context":          {gss(1, 1, 0, 2, 0), false},
		"an unknown service":        {gss(1, 0, 7, 9, 0), true},
		"an unknown version":        {gss(3, 0, 7, 1, 0), true},
		"a body that is cut short":  {gss(1, 0, 7), true},
		"a body that is not there":  {gss(), true},
		"destroying, with privacy":  {gss(1, 3, 9, 3, 0), false},
		"continuing, with anything": {gss(1, 2, 9, 99, 0), false},
	} {
		if got := tc.cred.Protects(); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
