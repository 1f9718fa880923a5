package props

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// Properties of the tests.
var (
	depth  = Uint32(0xffffff10, "depth", 1, Range(1, 64), Mutable)
	strict = Bool(0xffffff11, "strict", false)
	label_ = Opaque(0xffffff12, "label", MaxLen(5000), Mutable)
	names  = NewNames(depth.Prop(), strict.Prop(), label_.Prop())
)

var rewrite = flag.Bool("rewrite", false, "write what the machine does into the transcripts; read the difference")

// TestTranscripts runs the machine by testdata/*.txt: a line that begins in the first column is an event, the indented ones
// below it are all that the machine wants done.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			got := transcript(t, string(text))
			if *rewrite {
				if err := os.WriteFile(f, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want := strings.Split(string(text), "\n")
			for i, line := range strings.Split(got, "\n") {
				if i >= len(want) || line != want[i] {
					t.Fatalf("%s:%d: the machine says\n%s\nthe transcript\n%s", f, i+1, line, at(want, i))
				}
			}
		})
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(its end)"
}

// transcript runs the events of a text and gives the text with what the machine does.
func transcript(t *testing.T, text string) string {
	var (
		out    strings.Builder
		x      *exchange
		owners = make(map[string]action)
	)
	for n, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(line + "\n")
		w := strings.Fields(line)
		if len(w) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		fail := func(err error) {
			if err != nil {
				t.Fatalf("line %d, %q: %v", n+1, line, err)
			}
		}
		verb, w := w[0], w[1:]
		switch verb {
		case "client", "server":
			x = newExchange(verb == "client", has(w, "optional"), 4096-longestHeader)
		case "room":
			room, err := strconv.Atoi(w[0])
			fail(err)
			x.room = room
		case "offer":
			v := property(t, w[0])
			x.offered(v.ID, v.Data, has(w, "fixed"))
		case "begin":
			x.begin(names.props)
		case "recv":
			m, err := message(t, w)
			fail(err)
			x.message(m)
		case "outcome":
			o, err := outcome(t, w[1:])
			fail(err)
			x.outcome(w[0], o)
		case "want":
			ref, err := strconv.ParseUint(w[0], 10, 64)
			fail(err)
			v := property(t, w[1])
			x.want(ref, v.ID, v.Data)
		case "granted":
			a := owners[w[0]]
			c := ext.Change{Kind: map[string]ext.ChangeKind{"done": ext.Done, "other": ext.Other}[w[1]]}
			if c.Kind == ext.Other {
				c.Value = property(t, names.ByID(a.id).Name+"="+w[2]).Data
			}
			x.granted(a.ref, a.at, a.id, a.data, c)
		case "silent":
			x.silent()
		case "closed":
			x.closed()
		case "count":
			v := reflect.ValueOf(x.count)
			for i := range v.NumField() {
				if n := v.Field(i).Uint(); n > 0 {
					fmt.Fprintf(&out, "  %d %s\n", n, strings.ToLower(v.Type().Field(i).Name))
				}
			}
		default:
			t.Fatalf("line %d: no event is called %q", n+1, verb)
		}
		if x == nil {
			continue
		}
		for _, a := range x.take() {
			if a.do == doOwner {
				owners[fmt.Sprintf("%d.%d", a.ref, a.at)] = a
			}
			fmt.Fprintf(&out, "  %s\n", describe(t, a))
		}
	}
	return out.String()
}

func has(words []string, w string) bool {
	for _, x := range words {
		if x == w {
			return true
		}
	}
	return false
}

// property reads NAME=VALUE, or NAME=#HEX for any bytes.
func property(t *testing.T, text string) wire.Property {
	t.Helper()
	name, v, _ := strings.Cut(text, "=")
	p, err := names.Prop(name)
	if err != nil {
		t.Fatal(err)
	}
	data, err := ParseValue(p, v)
	if errors.As(err, new(*ValueError)) && data != nil {
		err = nil // a value of its type that is out of bounds
	}
	if digits, ok := strings.CutPrefix(v, "#"); ok {
		data, err = hex.DecodeString(digits)
	}
	if n, ok := strings.CutPrefix(v, "*"); ok { // an opaque of that many bytes
		var size int
		size, err = strconv.Atoi(n)
		data = encodeOpaque(make([]byte, size))
	}
	if err != nil {
		t.Fatal(err)
	}
	return wire.Property{ID: p.ID, Data: data}
}

// body reads the words of an operation: properties, and positions behind nochg, done, rejected.
func body(t *testing.T, words []string) (h wire.Header) {
	t.Helper()
	subset := &h.NoChange
	for _, w := range words {
		switch w {
		case "nochg":
			subset = &h.NoChange
		case "done":
			subset = &h.DoneSet
		case "rejected":
			subset = &h.Rejected
		case "other", "optional", "reply":
		default:
			if n, err := strconv.Atoi(w); err == nil {
				subset.Add(n)
				continue
			}
			h.Props = append(h.Props, property(t, w))
		}
	}
	return h
}

func message(t *testing.T, w []string) (m ext.Message, err error) {
	m = ext.Message{Op: w[0], Token: 7, Optional: has(w, "optional"), Reply: has(w, "reply") || w[0] == opResp}
	if m.Reply {
		m.Token = 0
	}
	if len(w) > 1 && strings.HasPrefix(w[1], "#") {
		m.Info, err = hex.DecodeString(w[1][1:])
		return m, err
	}
	m.Info = encode(m.Op, body(t, w[1:]))
	return m, nil
}

func outcome(t *testing.T, w []string) (o ext.Outcome, err error) {
	switch w[0] {
	case "consumed":
		o.Kind = ext.Consumed
	case "lost":
		o.Kind = ext.Lost
	case "late":
		o.Kind = ext.TimedOut
	case "notsent":
		o.Kind = ext.NotSent
	case "refused":
		o.Kind = ext.Refused
		var code int
		code, err = strconv.Atoi(w[1])
		o.Code = ext.Code(code)
	case "answered":
		o.Kind = ext.Answered
		if len(w) > 1 && strings.HasPrefix(w[1], "#") {
			o.Info, err = hex.DecodeString(w[1][1:])
			break
		}
		o.Info = encode(opResp, body(t, w[1:]))
	default:
		err = fmt.Errorf("no outcome is called %q", w[0])
	}
	return o, err
}

func describe(t *testing.T, a action) string {
	named := func(id uint32, data []byte) string {
		p := names.ByID(id)
		s := FormatValue(p, data)
		if len(s) > 40 {
			s = fmt.Sprintf("(%d bytes)", len(data))
		}
		return label(p) + "=" + s
	}
	text := func(op string, info []byte) string {
		h, err := decode(op, info)
		if err != nil {
			t.Fatalf("the machine sends what nobody reads: %v", err)
		}
		s := op
		if op == opResp {
			s += fmt.Sprintf(" done %v rejected %v other", h.DoneSet, h.Rejected)
		}
		for _, v := range h.Props {
			s += " " + named(v.ID, v.Data)
		}
		if op == opConn && len(h.NoChange) > 0 {
			s += fmt.Sprintf(" nochg %v", h.NoChange)
		}
		return s
	}
	switch a.do {
	case doSend:
		s := "> " + text(a.op, a.info)
		if a.form {
			s += " (optional)"
		}
		return s
	case doAnswer:
		switch a.verdict.Kind {
		case ext.Accept:
			return fmt.Sprintf("answer %d: accept", a.token)
		case ext.Refuse:
			return fmt.Sprintf("answer %d: %v", a.token, a.verdict.Code)
		}
		return fmt.Sprintf("answer %d: %s", a.token, text(opResp, a.verdict.Info))
	case doTell:
		s := "tell " + named(a.id, a.data)
		if a.def {
			s += " (default)"
		}
		return s
	case doOwner:
		return fmt.Sprintf("owner %d.%d %s", a.ref, a.at, named(a.id, a.data))
	case doAsking:
		return "asking " + named(a.id, a.data)
	case doSettled:
		s := fmt.Sprintf("settled %d: %v", a.ref, a.change.Kind)
		if len(a.change.Value) > 0 {
			s += " " + named(a.id, a.change.Value)
		}
		if a.err != nil {
			s += fmt.Sprintf(" (%v)", a.err)
		}
		return s
	case doOver:
		if a.err != nil {
			return fmt.Sprintf("over: %v", a.err)
		}
		return "over"
	}
	return "?"
}
