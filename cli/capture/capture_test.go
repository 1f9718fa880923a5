package capture

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
)

type buffer struct{ bytes.Buffer }

func (*buffer) Close() error { return nil }

var (
	a4 = netip.MustParseAddrPort("192.0.2.1:40000")
	b4 = netip.MustParseAddrPort("192.0.2.2:20049")
	a6 = netip.MustParseAddrPort("[2001:db8::1]:40000")
	b6 = netip.MustParseAddrPort("[2001:db8::2]:20049")
)

// piece is a piece of a stream.
func piece(local, remote netip.AddrPort, sent bool, parts ...[]byte) verbs.Frame {
	return verbs.Frame{Link: verbs.LinkTCP, Local: local, Remote: remote, Sent: sent, Parts: parts}
}

// TestTshark asks a dissector that we did not write: checksums, sequence numbers and payloads.
func TestTshark(t *testing.T) {
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("tshark is not installed")
	}
	name := t.TempDir() + "/x.pcapng"
	f, err := Create(name)
	if err != nil {
		t.Fatal(err)
	}
	big := bytes.Repeat([]byte("0123456789"), 15001) // three segments
	for _, p := range [][2]netip.AddrPort{{a4, b4}, {a6, b6}} {
		f.Frame(piece(p[0], p[1], true, []byte("odd"), []byte("hello")))
		f.Frame(piece(p[0], p[1], false, big[:77777], big[77777:]))
		f.Frame(piece(p[0], p[1], true, []byte("end")))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("tshark", "-r", name, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
		"-T", "fields", "-e", "frame.len", "-e", "tcp.len", "-e", "tcp.flags.syn", "-e", "tcp.checksum.status", "-e", "ip.checksum.status",
		"-e", "tcp.analysis.flags", "-e", "_ws.malformed", "-E", "separator=,").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "Running") {
			continue // as root, it says so
		}
		got = append(got, strings.TrimSpace(line))
	}
	want := []string{"40,0,1,1,1,,", "40,0,1,1,1,,", "40,0,0,1,1,,", "48,8,0,1,1,,", "60040,60000,0,1,1,,", "60040,60000,0,1,1,,", "30050,30010,0,1,1,,", "43,3,0,1,1,,",
		"60,0,1,1,,,", "60,0,1,1,,,", "60,0,0,1,,,", "68,8,0,1,,,", "60060,60000,0,1,,,", "60060,60000,0,1,,,", "30070,30010,0,1,,,", "63,3,0,1,,,"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("tshark says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// roce is a packet of RoCEv2: IPv4, UDP to port 4791, a base transport header with a Send of 8 octets, ICRC.
var roce = func() []byte {
	b := unhexed("4500 0034 beef 4000 4011 0000 c0000201 c0000202" + "c000 12b7 0020 0000" + "04 00 ffff 00000011 80000064" + "0001020304050607" + "deadbeef")
	var c checksum
	c.add(b[:20])
	binary.BigEndian.PutUint16(b[10:], c.fold())
	return b
}()

func unhexed(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// TestPackets: IP packets are written as they were on the wire, and nothing is added to them.
func TestPackets(t *testing.T) {
	name := t.TempDir() + "/x.pcapng"
	f, err := Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, sent := range []bool{true, false} {
		f.Frame(verbs.Frame{Link: verbs.LinkIP, Local: a4, Remote: b4, Sent: sent, First: sent, Parts: [][]byte{roce[:30], roce[30:]}})
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for {
		p, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n++; !bytes.Equal(p.Data, roce) || p.Link != linkRaw || !p.Whole {
			t.Errorf("packet %d: %x of link %d, want %x", n, p.Data, p.Link, roce)
		}
	}
	if n != 2 {
		t.Errorf("%d packets, want 2", n)
	}
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("tshark is not installed")
	}
	out, err := exec.Command("tshark", "-r", name, "-o", "ip.check_checksum:TRUE", "-T", "fields", "-e", "ip.id", "-e", "ip.checksum.status", "-e", "infiniband.bth.psn", "-E", "separator=,").Output()
	if want := strings.Repeat("0xbeef,1,100\n", 2); err != nil || string(out) != want {
		t.Errorf("tshark says %q, %v; want %q", out, err, want)
	}
}

// TestAddressesUsedAgain: the first frame of another connection between the same addresses begins another stream.
func TestAddressesUsedAgain(t *testing.T) {
	var s sink
	f := New(&s)
	offer := mpa.Frame{Revision: 2, Enhanced: true}
	reply := offer
	reply.Reply = true
	for range 3 {
		asked := piece(a4, b4, true, offer.Append(nil))
		asked.First = true
		f.Frame(asked)
		f.Frame(piece(a4, b4, false, reply.Append(nil)))
		f.Frame(piece(a4, b4, true, frame(false, true, 1, 0, "hello")))
	}
	if n := len(f.streams); n != 1 {
		t.Errorf("%d streams are kept, want 1", n)
	}
	f.Close()
	got, totals := shown(t, s.Bytes())
	if totals.Connections != 3 || totals.Sends != 3 {
		t.Errorf("%d connections and %d messages, want 3 of each: %q", totals.Connections, totals.Sends, got)
	}
}

// TestStreamsAreBounded: what is kept of connections does not grow without end.
func TestStreamsAreBounded(t *testing.T) {
	var s sink
	f := New(&s)
	defer f.Close()
	for i := range streamLimit + 100 {
		f.Frame(piece(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 16), 1}), uint16(i)), b4, true, []byte("x")))
	}
	if n := len(f.streams); n != streamLimit {
		t.Errorf("%d streams are kept, want %d", n, streamLimit)
	}
}

func TestAFullQueueLeavesAGap(t *testing.T) {
	var out buffer
	f := New(&out)
	f.mu.Lock()
	f.queue = make([]byte, queueLimit+1)
	f.mu.Unlock()
	// The writer may have taken the queue by now; either way nothing blocks.
	for range 3 {
		f.Frame(piece(a4, b4, true, make([]byte, 100)))
	}
	f.mu.Lock()
	sent, lost := f.streams[[2]netip.AddrPort{a4, b4}].sent, f.lost
	f.mu.Unlock()
	if sent != 301 {
		t.Errorf("sequence number %d, want 301", sent)
	}
	if err := f.Close(); (err != nil) != (lost > 0) {
		t.Errorf("lost %d, Close says %v", lost, err)
	}
}

func TestCut(t *testing.T) {
	parts := [][]byte{[]byte("ab"), []byte("cdef"), nil, []byte("g")}
	var got []string
	for len(parts) > 0 {
		var front [][]byte
		front, parts = cut(parts, 3)
		got = append(got, string(bytes.Join(front, nil)))
	}
	if strings.Join(got, " ") != "abc def g" {
		t.Errorf("%q", got)
	}
}
