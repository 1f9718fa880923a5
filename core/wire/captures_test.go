package wire

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/rpcrdma/rpcrdma/test/unhex"
)

// captured are the messages of testdata/linux.hex, by where they were seen.
func captured(t testing.TB) map[string][][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/linux.hex")
	if err != nil {
		t.Fatal(err)
	}
	msgs := map[string][][]byte{}
	where := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "# "); ok {
			where = name
			continue
		}
		b, err := hex.DecodeString(line)
		if err != nil {
			t.Fatal(err)
		}
		msgs[where] = append(msgs[where], b)
	}
	return msgs
}

// TestLinux: what Linux sends is read and written again as it was.
func TestLinux(t *testing.T) {
	n := 0
	for where, msgs := range captured(t) {
		for _, b := range msgs {
			var h Header
			at, err := h.Parse(b, ProfileV1)
			if err != nil {
				if !strings.Contains(where, "bad") {
					t.Errorf("%s: %v: %x", where, err, b)
				}
				continue
			}
			n++
			if got := h.Append(nil); !bytes.Equal(got, b[:at]) || h.Len() != at {
				t.Errorf("%s: %v\nwritten %x\nof      %x", where, &h, got, b)
			}
			if err := h.Check(); err != nil {
				t.Error(err)
			}
			may, _ := h.Payload()
			if rest := b[at:]; may && len(rest) >= 4 && h.Proc == Msg && !strings.Contains(where, "bad") &&
				!bytes.Equal(rest[:4], b[:4]) {
				t.Errorf("%s: the payload of %v begins with %x", where, &h, rest[:4])
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d messages", n)
	}
}

// TestKnfsd: where Linux's server answers with an error, so do we, with the same bytes; where it
// keeps silent, we do too, but for version 2, which we have in one profile (D-5).
func TestKnfsd(t *testing.T) {
	const rpc = " 11223344 00000000 00000002 000186a3 00000003 00000000 00000000 00000000 00000000 00000000"
	const errVers = "00000040 00000004 00000001 00000001 00000001"
	const errChunk = "00000040 00000004 00000002"
	for _, tc := range []struct{ name, sent, answer string }{
		{"version 2", "11223344 00000002 00000020 00000000 00000000 00000000 00000000" + rpc, "11223344 00000002" + errVers},
		{"version 3", "11223344 00000003 00000020 00000000 00000000 00000000 00000000" + rpc, "11223344 00000003" + errVers},
		{"version 0", "11223344 00000000 00000020 00000000 00000000 00000000 00000000" + rpc, "11223344 00000000" + errVers},
		{"MSGP", "11223344 00000001 00000020 00000002 00000000 00000000 00000000 00000000 00000000" + rpc, "11223344 00000001" + errChunk},
		{"procedure 9", "11223344 00000001 00000020 00000009 00000000 00000000 00000000" + rpc, "11223344 00000001" + errChunk},
		{"DONE", "11223344 00000001 00000020 00000003 00000000 00000000 00000000" + rpc, ""},
		{"ERROR", "11223344 00000001 00000020 00000004 00000002 00000000 00000000" + rpc, ""},
		{"broken Write list", "11223344 00000001 00000020 00000000 00000000 00000001 00000009 00001234", "11223344 00000001" + errChunk},
		{"MSG without an RPC message", "11223344 00000001 00000020 00000000 00000000 00000000 00000000", ""},
	} {
		var h Header
		n, err := h.Parse(unhex.Octets(t, tc.sent), ProfileV1)
		if err == nil {
			err = h.CheckRest(len(unhex.Octets(t, tc.sent)) - n)
		}
		if err == nil && (h.Proc == MsgP || h.Proc == Done) {
			err = h.Refuse(Obsolete)
		}
		var got []byte
		if e, ok := err.(*HeaderError); ok {
			if body, ok := e.Answer(Call, Version1, Version1); ok {
				var a Header
				a.SetError(e, body, 64)
				got = a.Append(nil)
			}
		} else if h.Proc != ErrorMsg {
			t.Errorf("%s: accepted as %v", tc.name, &h)
		}
		if !bytes.Equal(got, unhex.Octets(t, tc.answer)) {
			t.Errorf("%s: answer %x, want %s", tc.name, got, tc.answer)
		}
	}
}
