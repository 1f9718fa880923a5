package rpcbind

import (
	"encoding/hex"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

func TestUniversalAddr(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.1:20049":        "192.0.2.1.78.81",
		"0.0.0.0:111":            "0.0.0.0.0.111",
		"[2001:db8::1]:20048":    "2001:db8::1.78.80",
		"[::]:65535":             "::.255.255",
		"[::ffff:192.0.2.1]:256": "192.0.2.1.1.0",
		"[fe80::1%eth0]:1":       "fe80::1.0.1",
	} {
		if got := UniversalAddr(netip.MustParseAddrPort(addr)); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
	for _, bad := range []string{"", ".", "..", "1.2.3.4", "1.2.3.4.5", "1.2.3.4.256.1", "1.2.3.4.1.256", "1.2.3.4.-1.1", "1.2.3.4.1.1.1", "fe80::1%eth0.1.1",
		"::.1", "host.1.1", "/run/rpcbind.sock", "1.2.3.4.+1.1"} {
		if a, err := ParseUniversalAddr(bad); err == nil {
			t.Errorf("%q: %v", bad, a)
		}
	}
}

func TestNetids(t *testing.T) {
	for _, c := range []struct {
		addr string
		rdma bool
		want string
	}{{"192.0.2.1", true, "rdma"}, {"192.0.2.1", false, "tcp"}, {"2001:db8::1", true, "rdma6"}, {"::", false, "tcp6"}, {"::ffff:192.0.2.1", true, "rdma"}} {
		if got := NetidFor(netip.MustParseAddr(c.addr), c.rdma); got != c.want {
			t.Errorf("%s: %s, want %s", c.addr, got, c.want)
		}
	}
}

// The octets of struct rpcb (RFC 1833 §2.1), as XDR has them.
func TestMappingOctets(t *testing.T) {
	m := Mapping{Program: 100003, Version: 3, Netid: "rdma", Addr: "10.0.0.1.78.81"}
	var w xdr.Writer
	m.MarshalXDR(&w)
	want := "000186a3 00000003 00000004 72646d61 0000000e 31302e302e302e312e37382e38310000 00000000"
	if got := hex.EncodeToString(w.Bytes()); got != strings.ReplaceAll(want, " ", "") {
		t.Errorf("%s", got)
	}
}

// What a peer may make us keep is bounded.
func TestBounds(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	for what, m := range map[string]Mapping{"netid": {Netid: long(maxNetid + 1)}, "address": {Addr: long(maxAddr + 1)}, "owner": {Owner: long(maxOwner + 1)}} {
		var w xdr.Writer
		m.MarshalXDR(&w)
		var got Mapping
		r := xdr.NewReader(w.Bytes())
		if got.UnmarshalXDR(r); r.Done() == nil {
			t.Errorf("a long %s is taken", what)
		}
	}
	var w xdr.Writer
	make(mappings, maxMappings+1).MarshalXDR(&w)
	r := xdr.NewReader(w.Bytes())
	if new(mappings).UnmarshalXDR(r); r.Done() == nil {
		t.Error("a long list is taken")
	}
	w.Reset()
	make(pmaps, maxMappings+1).MarshalXDR(&w)
	r = xdr.NewReader(w.Bytes())
	if new(pmaps).UnmarshalXDR(r); r.Done() == nil {
		t.Error("a long list of version 2 is taken")
	}
}

func TestOldMappings(t *testing.T) {
	for _, c := range []struct {
		pmap
		want string
	}{{pmap{1, 2, protoTCP, 2049}, "tcp 0.0.0.0.8.1"}, {pmap{1, 2, protoUDP, 111}, "udp 0.0.0.0.0.111"}, {pmap{1, 2, 17, 0}, ""}, {pmap{1, 2, 6, 65536}, ""}, {pmap{1, 2, 1, 5}, ""}} {
		m, ok := c.mapping()
		if got := strings.TrimSpace(m.Netid + " " + m.Addr); got != c.want || ok != (c.want != "") {
			t.Errorf("%+v: %q, %v", c.pmap, got, ok)
		}
	}
}

// FuzzMappings: refuse, or write and read the same again.
func FuzzMappings(f *testing.F) {
	var w xdr.Writer
	mappings{{100003, 3, "rdma", "10.0.0.1.78.81", "superuser"}, {100005, 3, "tcp6", "::.78.80", ""}}.MarshalXDR(&w)
	f.Add(w.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		var l, back mappings
		reread(t, b, &l, &back)
	})
}

type codec interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

// reread reads b into l, and what l then writes into back: the same. False: b is refused.
func reread(t *testing.T, b []byte, l, back codec) bool {
	t.Helper()
	r := xdr.NewReader(b)
	if l.UnmarshalXDR(r); r.Done() != nil {
		return false
	}
	var w xdr.Writer
	l.MarshalXDR(&w)
	r = xdr.NewReader(w.Bytes())
	if back.UnmarshalXDR(r); r.Done() != nil || !reflect.DeepEqual(l, back) || w.Len() != len(b) {
		t.Fatalf("%+v became %+v", l, back)
	}
	return true
}

// FuzzOldMappings is the same for version 2.
func FuzzOldMappings(f *testing.F) {
	var w xdr.Writer
	pmaps{{100003, 3, protoTCP, 2049}, {100005, 3, protoUDP, 635}}.MarshalXDR(&w)
	f.Add(w.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		var l, back pmaps
		if !reread(t, b, &l, &back) {
			return
		}
		for i := range l {
			if m, ok := l[i].mapping(); ok {
				if a, err := ParseUniversalAddr(m.Addr); err != nil || uint32(a.Port()) != l[i].port {
					t.Fatalf("%+v is %v, %v", l[i], a, err)
				}
			}
		}
	})
}

// FuzzUniversalAddr: refuse, or an address that means the same when it is written.
func FuzzUniversalAddr(f *testing.F) {
	for _, s := range []string{"192.0.2.1.78.81", "2001:db8::1.78.80", "::ffff:1.2.3.4.0.1", "/run/rpcbind.sock"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseUniversalAddr(s)
		if err != nil {
			return
		}
		back, err := ParseUniversalAddr(UniversalAddr(a))
		if err != nil || back.Port() != a.Port() || back.Addr() != a.Addr().Unmap() {
			t.Fatalf("%q is %v, written %v: %v", s, a, back, err)
		}
	})
}
