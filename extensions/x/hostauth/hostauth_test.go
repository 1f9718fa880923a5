package hostauth

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/test/unhex"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDeclaration(t *testing.T) {
	d := with(t, "a "+keyOne, Options{}).Declare()
	if err := d.Check(); err != nil || !d.Gate || d.Class != ext.Control || d.Props[0].ID != 4294967128 || !d.Props[0].Mutable {
		t.Errorf("%+v: %v", d, err)
	}
}

func TestOptions(t *testing.T) {
	one, two := keyFile(t, "a "+keyOne), keyFile(t, "a "+keyOne+"\nb "+keyTwo)
	for _, tc := range []struct {
		options map[string]string
		key     string
		want    string // in the error
	}{
		{map[string]string{"key_file": one}, "a", ""},
		{map[string]string{"key_file": two}, "", ""},
		{map[string]string{"key_file": two, "key_id": "b", "bind": "addresses", "timeout": "1m"}, "b", ""},
		{map[string]string{}, "", "option key_file"},
		{map[string]string{"key_file": two, "key_id": "c"}, "", "option key_id"},
		{map[string]string{"key_file": one, "bind": "channel"}, "", "none or addresses"},
		{map[string]string{"key_file": one, "timeout": "99ms"}, "", "100ms to 1m0s"},
		{map[string]string{"key_file": one, "timeout": "0s"}, "", "option timeout"},
		{map[string]string{"key_file": one, "keyid": "a"}, "", "there are bind, key_file"},
		{map[string]string{"key_file": "keys"}, "", "begins with /"},
	} {
		x, err := Configured(tc.options)
		switch {
		case tc.want != "":
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "1f1f") {
				t.Errorf("%v: %v", tc.options, err)
			}
		case err != nil || x.(*Extension).key != tc.key:
			t.Errorf("%v: %v, %v", tc.options, x, err)
		}
	}
}

func TestKeyFile(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"# keys\n\nnode-1 " + keyOne + "  # the first\nnode-2\t" + keyTwo, ""},
		{"", "it has no key"},
		{"# none", "it has no key"},
		{"node-1", ":1: a line has an id"},
		{"node-1 " + keyOne + " more", ":1: a line has an id"},
		{"\nnode-1 " + keyOne[:62], ":2: a key is 32 to 64 octets"},
		{"node-1 " + keyTwo + "00", ":1: a key is 32 to 64 octets"},
		{"node-1 " + strings.Repeat("xy", 32), "hexadecimal digits"},
		{"node/1 " + keyOne, "an id is"},
		{strings.Repeat("n", 65) + " " + keyOne, "an id is"},
		{"a " + keyOne + "\na " + keyTwo, ":2: the id \"a\" is there twice"},
		{strings.Repeat("#", maxFileSize+1), "octets"},
	} {
		keys, err := readKeys(keyFile(t, tc.text))
		var fe *KeyFileError
		switch {
		case tc.want == "":
			if err != nil || len(keys) != 2 || len(keys["node-1"]) != 32 || len(keys["node-2"]) != 64 {
				t.Errorf("%q: %v, %v", tc.text, keys, err)
			}
		case !errors.As(err, &fe) || !strings.Contains(err.Error(), tc.want):
			t.Errorf("%.60q: %v, want %q", tc.text, err, tc.want)
		case strings.Contains(err.Error(), keyOne[:16]):
			t.Errorf("the error has a part of the key: %v", err)
		}
	}
}

// TestKeyFileKept: a file that others may use is none, nor what is no file.
func TestKeyFileKept(t *testing.T) {
	path := keyFile(t, "a "+keyOne)
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o602, 0o610, 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := readKeys(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %#o: %v", mode, err)
		}
	}
	for _, mode := range []os.FileMode{0o600, 0o400} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := readKeys(path); err != nil {
			t.Errorf("mode %#o: %v", mode, err)
		}
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "no regular file", t.TempDir(): "no regular file", pipe + "x": "no such file"} {
		if _, err := readKeys(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, 4711, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := readKeys(path); err == nil || !strings.Contains(err.Error(), "belongs to user 4711") {
			t.Errorf("another's file: %v", err)
		}
	}
}

// TestOctets: the layout is that of the documentation, octet by octet.
func TestOctets(t *testing.T) {
	m := message{step: stepHello, bind: Addresses, key: "node-1"}
	for i := range m.nonce {
		m.nonce[i] = byte(i)
	}
	want := unhex.Octets(t, "00000034 00000001 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f 00000001 00000006 6e6f64652d31 0000")
	if got := m.value(); !bytes.Equal(got, want) {
		t.Errorf("a hello is %x", got)
	}
	p := message{step: stepProof}
	copy(p.mac[:], m.nonce[:])
	want = unhex.Octets(t, "00000024 00000002 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")
	if got := p.value(); !bytes.Equal(got, want) {
		t.Errorf("a proof is %x", got)
	}
	for _, m := range []message{m, p} {
		got, octets, err := parse(m.value())
		if err != nil || got != m || !bytes.Equal(octets, m.octets()) {
			t.Errorf("read as %+v: %v", got, err)
		}
	}
	// What is signed, written by hand.
	s := signed{client: []byte{1, 2, 3, 4}, server: []byte{5, 6, 7, 8}, addresses: addresses(netip.MustParseAddrPort("192.0.2.1:700"), netip.MustParseAddrPort("[2001:db8::2]:20049"))}
	text := "00000019" + "72706372646d6120686f737461757468203120636c69656e74 000000" +
		"00000004 01020304 00000004 05060708" +
		"00000024 00000000000000000000ffffc0000201 02bc 20010db8000000000000000000000002 4e51" + "00000000"
	h := hmac.New(sha256.New, []byte("key"))
	h.Write(unhex.Octets(t, text))
	mac := s.byClient([]byte("key"))
	if !bytes.Equal(mac[:], h.Sum(nil)) {
		t.Error("something else is signed by the client")
	}
	text = strings.Replace(text, "636c69656e74", "736572766572", 1)
	text = text[:len(text)-8] + "00000020" + hex.EncodeToString(mac[:])
	h.Reset()
	h.Write(unhex.Octets(t, text))
	if got := s.byServer([]byte("key"), mac); !bytes.Equal(got[:], h.Sum(nil)) {
		t.Error("something else is signed by the server")
	}
}

func TestRefusedValues(t *testing.T) {
	m := message{step: stepHello, key: "node-1"}
	good := m.value()
	p := message{step: stepProof}
	for _, v := range [][]byte{good, p.value()} {
		for n := range v {
			if _, _, err := parse(v[:n]); err == nil {
				t.Errorf("the first %d of %d octets are taken", n, len(v))
			}
		}
		if _, _, err := parse(append(v[:len(v):len(v)], 0, 0, 0, 0)); err == nil {
			t.Error("surplus octets behind the value are taken")
		}
		longer := append([]byte(nil), v...)
		longer[3] += 4
		if _, _, err := parse(append(longer, 0, 0, 0, 0)); err == nil {
			t.Error("surplus octets in the value are taken")
		}
	}
	for _, v := range [][]byte{
		append([]byte{0, 0, 0, 132}, make([]byte, 132)...), // longer than the property
		append([]byte{0, 0, 0, 4}, 0, 0, 0, 3),             // no step
		bytes.Replace(good, []byte{0, 0, 0, 6}, []byte{0, 0, 0, 65}, 1),
		unhex.Octets(t, "00000034 00000001 "+strings.Repeat("00", 32)+" 00000002 00000006 6e6f64652d31 0000"), // binding 2
		{255, 255, 255, 255}, nil,
	} {
		if _, _, err := parse(v); err == nil {
			t.Errorf("%x is taken", v)
		}
	}
}

func TestExchange(t *testing.T) {
	file := "a " + keyOne + "\nb " + keyTwo
	for _, o := range []Options{{KeyID: "a"}, {KeyID: "b"}, {KeyID: "b", Bind: Addresses}} {
		c, s := join(t, with(t, file, o), with(t, file, Options{Bind: o.Bind}))
		run(c, s, nil, nil, nil)
		for _, e := range []*end{c, s} {
			if open, why := e.outcome(); !open {
				t.Errorf("%+v: client %v: not open, %v", o, e.facts.Client, why)
			}
		}
		// What comes later changes nothing.
		s.s.Requested(2, PropertyID, c.asking)
		if s.change.Kind != ext.Rejected {
			t.Errorf("a second proof is %v", s.change.Kind)
		}
		c.s.PeerValue(PropertyID, s.offer, false)
		s.s.PeerValue(PropertyID, nil, true)
		if _, why := c.outcome(); why != nil {
			t.Error(why)
		}
	}
}

// TestNotAuthenticated: what is wrong opens neither side, and each says what it was.
func TestNotAuthenticated(t *testing.T) {
	file := "a " + keyOne
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[at] ^= 1; return b }
	}
	value := func(f func([]byte) []byte) func(ext.Change) ext.Change {
		return func(c ext.Change) ext.Change { c.Value = f(bytes.Clone(c.Value)); return c }
	}
	kind := func(k ext.ChangeKind) func(ext.Change) ext.Change {
		return func(ext.Change) ext.Change { return ext.Change{Kind: k} }
	}
	old, oldServer := join(t, with(t, file, Options{}), with(t, file, Options{}))
	run(old, oldServer, nil, nil, nil)
	for _, tc := range []struct {
		name           string
		here, there    string // key files
		bind, bound    Bind
		hello, proof   func([]byte) []byte
		answer         func(ext.Change) ext.Change
		client, server Reason // 0: it is not the one that finds out
		serverOpens    bool   // the client has proved itself, and the server has not
	}{
		{name: "wrong key", there: "a " + keyTwo, client: Refused, server: WrongProof},
		{name: "unknown key", there: "b " + keyOne, client: Refused, server: UnknownKey},
		{name: "other binding", bind: Addresses, client: OtherBind, server: OtherBind},
		{name: "hello changed", hello: flip(20), client: Refused, server: WrongProof},
		{name: "proof changed", proof: flip(20), client: Refused, server: WrongProof},
		{name: "proof of another connection", proof: func([]byte) []byte { return bytes.Clone(old.asking) }, client: Refused, server: WrongProof},
		{name: "hello and proof of another connection", hello: func([]byte) []byte { return bytes.Clone(old.offer) },
			proof: func([]byte) []byte { return bytes.Clone(old.asking) }, client: Refused, server: WrongProof},
		{name: "hello instead of the proof", proof: func([]byte) []byte { return bytes.Clone(old.offer) }, client: Refused, server: Malformed},
		{name: "proof cut", proof: func(b []byte) []byte { return b[:20] }, client: Refused, server: Malformed},
		{name: "no hello", hello: func([]byte) []byte { return []byte{0, 0, 0, 0} }, client: Refused, server: Malformed},
		{name: "hello without a key", hello: func([]byte) []byte { return bytes.Clone(oldServer.offer) }, client: Refused, server: Malformed},
		{name: "server's proof changed", answer: value(flip(20)), client: WrongProof, serverOpens: true},
		{name: "server's proof is ours", answer: func(c ext.Change) ext.Change { return ext.Change{Kind: ext.Other, Value: nil} }, client: Malformed, serverOpens: true},
		{name: "server's proof of another connection", answer: func(ext.Change) ext.Change { return *oldServer.change }, client: WrongProof, serverOpens: true},
		{name: "server without a proof", answer: kind(ext.Done), client: WrongProof, serverOpens: true},
		{name: "nobody carries properties", answer: kind(ext.Unsupported), client: NoCarrier, serverOpens: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tc.here == "" {
					tc.here = file
				}
				if tc.there == "" {
					tc.there = file
				}
				var log strings.Builder
				c, s := join(t, with(t, tc.here, Options{Bind: tc.bind}), with(t, tc.there, Options{Bind: tc.bound, Log: slog.New(slog.NewTextHandler(&log, nil))}))
				run(c, s, tc.hello, tc.proof, tc.answer)
				if open, why := c.outcome(); open || c.opened != 0 || why == nil || why.Reason != tc.client || !why.Client || why.Error() == "" {
					t.Errorf("the client is open %t: %v", open, why)
				}
				if tc.serverOpens {
					if open, why := s.outcome(); !open || why != nil {
						t.Errorf("the server: %v", why)
					}
					return
				}
				time.Sleep(linger - time.Nanosecond)
				synctest.Wait()
				if _, why := s.outcome(); why != nil {
					t.Errorf("the server ended it before the client could hear: %v", why)
				}
				time.Sleep(2 * time.Nanosecond)
				synctest.Wait()
				open, why := s.outcome()
				if open || s.opened != 0 || why == nil || why.Reason != tc.server || why.Client {
					t.Fatalf("the server is open %t: %v", open, why)
				}
				if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), strconv.Quote(why.Error())) {
					t.Errorf("the server's log has %d lines, want one with %q:\n%s", n, why, &log)
				}
			})
		})
	}
}

// TestRefusalsToldSeldom: many clients do not fill the log.
func TestRefusalsToldSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		x := with(t, "a "+keyOne, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		for range 1000 {
			x.tell(netip.AddrPort{}, &Error{Reason: WrongProof})
		}
		time.Sleep(time.Second)
		x.tell(netip.AddrPort{}, &Error{Reason: WrongProof})
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "others=999") {
			t.Errorf("%d lines:\n%s", n, &log)
		}
	})
}

// TestReflected: a peer that has no key sends back what it gets, as server and as client.
func TestReflected(t *testing.T) {
	x := with(t, "a "+keyOne, Options{})
	c, s := join(t, x, x)
	own := message{step: stepHello}
	c.s.PeerValue(PropertyID, own.value(), false) // a server's hello that anybody can make
	c.asked(ext.Change{Kind: ext.Other, Value: bytes.Clone(c.asking)})
	if _, why := c.outcome(); why == nil || why.Reason != WrongProof || c.opened != 0 {
		t.Errorf("our own proof as the server's: %v", why)
	}
	c, _ = join(t, x, x)
	c.s.PeerValue(PropertyID, bytes.Clone(c.offer), false)
	if _, why := c.outcome(); why == nil || why.Reason != Malformed {
		t.Errorf("our own hello as the server's: %v", why)
	}
	s.s.PeerValue(PropertyID, c.offer, false)
	s.s.Requested(1, PropertyID, bytes.Clone(s.offer))
	if s.change.Kind != ext.Rejected || s.opened != 0 {
		t.Error("a server's own hello opened it")
	}
}

// TestAskedEarly: nothing is proved before the hellos, to a client's side never, and a server allows one attempt.
func TestAskedEarly(t *testing.T) {
	x := with(t, "a "+keyOne, Options{})
	c, s := join(t, x, x)
	zero := message{step: stepProof, mac: (&signed{}).byClient(x.keys["a"])}
	for _, e := range []*end{c, s} {
		e.s.Requested(1, PropertyID, zero.value())
		if e.change.Kind != ext.Rejected || e.opened != 0 {
			t.Errorf("before the hellos: %v", e.change.Kind)
		}
	}
	s.s.PeerValue(PropertyID, c.offer, false)
	c.s.PeerValue(PropertyID, s.offer, false)
	s.s.Requested(2, PropertyID, zero.value())
	s.s.Requested(3, PropertyID, c.asking) // the right one, too late
	if s.change.Kind != ext.Rejected || s.opened != 0 {
		t.Error("a second attempt opened it")
	}
}

func TestPeerWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := with(t, "a "+keyOne, Options{Timeout: 3 * time.Second})
		c, s := join(t, x, x)
		c.s.PeerValue(PropertyID, make([]byte, 4), true)
		if _, why := c.outcome(); why == nil || why.Reason != NoPeer {
			t.Errorf("a server that does not authenticate: %v", why)
		}
		s.s.PeerValue(PropertyID, make([]byte, 4), true)
		if _, why := s.outcome(); why != nil {
			t.Errorf("a client that does not authenticate may call NULL: %v", why)
		}
		quiet, alone := join(t, x, x) // nobody carries properties: nothing is ever heard
		time.Sleep(3 * time.Second)
		synctest.Wait()
		for _, e := range []*end{s, quiet, alone} {
			if _, why := e.outcome(); why == nil || why.Reason != Late || why.After != 3*time.Second || e.opened != 0 {
				t.Errorf("client %t: %v", e.facts.Client, why)
			}
		}
	})
}

func TestSeveralKeys(t *testing.T) {
	x := with(t, "a "+keyOne+"\nb "+keyTwo, Options{})
	c, _ := join(t, x, x)
	if _, why := c.outcome(); why == nil || why.Reason != NoKey || c.offer != nil {
		t.Errorf("a client with two keys and no key_id: %v", why)
	}
}

func TestTranslated(t *testing.T) {
	file := "a " + keyOne
	c, s := join(t, with(t, file, Options{Bind: Addresses}), with(t, file, Options{Bind: Addresses}))
	moved, _ := join(t, with(t, file, Options{Bind: Addresses}), with(t, file, Options{Bind: Addresses}))
	s.facts.Remote = netip.MustParseAddrPort("198.51.100.7:1024")
	server := &end{t: t, facts: s.facts}
	server.s = with(t, file, Options{Bind: Addresses}).Connect(server).(*session)
	t.Cleanup(func() { server.s.Closed(nil) })
	run(moved, server, nil, nil, nil)
	if _, why := moved.outcome(); why == nil || why.Reason != Refused || !strings.Contains(why.Error(), "translated") {
		t.Errorf("behind a translator: %v", why)
	}
	run(c, s, nil, nil, nil)
	if open, why := c.outcome(); !open {
		t.Error(why)
	}
}

// TestTexts: each reason says what to do, and none has a key.
func TestTexts(t *testing.T) {
	for r := NoPeer; r <= Late; r++ {
		for _, client := range []bool{true, false} {
			text := (&Error{Reason: r, Client: client, Key: "node-1", Bind: Addresses, After: time.Second}).Error()
			if len(text) < 20 || text == (&Error{}).Error() || strings.Contains(text, "\n") {
				t.Errorf("%d: %q", r, text)
			}
		}
	}
}

// FuzzValue: whatever a peer sends opens nothing, and what is taken is written the same way.
func FuzzValue(f *testing.F) {
	m := message{step: stepHello, key: "a", bind: Addresses}
	f.Add(m.value(), (&message{step: stepProof}).value())
	f.Add([]byte{0, 0, 0, 0}, []byte{0, 0, 0, 4, 0, 0, 0, 1})
	keys, _, _ := parseKeys([]byte("a " + keyOne))
	x := &Extension{opts: Options{Timeout: time.Minute}, keys: keys, key: "a", dummy: make([]byte, 32)}
	f.Fuzz(func(t *testing.T, hello, proof []byte) {
		if m, _, err := parse(hello); err == nil {
			if again, _, err := parse(m.value()); err != nil || again != m {
				t.Fatalf("%+v became %+v: %v", m, again, err)
			}
		}
		c, s := join(t, x, x)
		s.s.PeerValue(PropertyID, hello, false)
		s.s.Requested(1, PropertyID, proof)
		c.s.PeerValue(PropertyID, hello, false)
		if c.asked != nil {
			c.asked(ext.Change{Kind: ext.Other, Value: proof})
		}
		if c.opened+s.opened != 0 || s.change == nil {
			t.Fatal("opened")
		}
	})
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("a " + keyOne + "\nb\t" + keyTwo + " # second"))
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, _, why := parseKeys(b)
		if (why == "") != (len(keys) > 0) {
			t.Fatalf("%d keys, %q", len(keys), why)
		}
		for id, k := range keys {
			if !validID(id) || len(k) < minKey || len(k) > maxKey {
				t.Fatalf("key %q of %d octets", id, len(k))
			}
		}
	})
}
