package capture

import (
	"bytes"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
)

type buffer struct{ bytes.Buffer }

func (*buffer) Close() error { return nil }

var (
	a4 = netip.MustParseAddrPort("192.0.2.1:40000")
	b4 = netip.MustParseAddrPort("192.0.2.2:20049")
	a6 = netip.MustParseAddrPort("[2001:db8::1]:40000")
	b6 = netip.MustParseAddrPort("[2001:db8::2]:20049")
)

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
		f.Frame(p[0], p[1], true, []byte("odd"), []byte("hello"))
		f.Frame(p[0], p[1], false, big[:77777], big[77777:])
		f.Frame(p[0], p[1], true, []byte("end"))
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

func TestAFullQueueLeavesAGap(t *testing.T) {
	var out buffer
	f := New(&out)
	f.mu.Lock()
	f.queue = make([]byte, queueLimit+1)
	f.mu.Unlock()
	// The writer may have taken the queue by now; either way nothing blocks.
	for range 3 {
		f.Frame(a4, b4, true, make([]byte, 100))
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
