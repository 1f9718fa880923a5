package ext

import (
	"errors"
	"strings"
	"testing"
	"time"
)

type fake struct{ d Declaration }

func (f fake) Declare() Declaration { return f.d }
func (fake) Connect(Conn) Session   { return nil }

const exp = ExperimentalFirst

func TestCheck(t *testing.T) {
	ok := Declaration{Name: "acme", Ops: []Op{{Name: "HELLO", Type: exp, Answer: "HELLO"}}, Props: []Prop{{ID: exp, Name: "depth", Type: Uint32}}}
	for _, tc := range []struct {
		name   string
		change func(*Declaration)
		want   string // in the error; empty: none
	}{
		{"as it is", func(d *Declaration) {}, ""},
		{"no name", func(d *Declaration) { d.Name = "" }, "its name"},
		{"name in capitals", func(d *Declaration) { d.Name = "Acme" }, "its name"},
		{"name of 33", func(d *Declaration) { d.Name = strings.Repeat("a", 33) }, "its name"},
		{"class", func(d *Declaration) { d.Class = 9 }, "class 9"},
		{"too many operations", func(d *Declaration) { d.Ops = make([]Op, MaxOps+1) }, "at most 64"},
		{"queue", func(d *Declaration) { d.Limits.Queue = MaxQueue + 1 }, "messages waiting"},
		{"optinfo", func(d *Declaration) { d.Limits.Info = -1 }, "bytes of optinfo"},
		{"operation without a name", func(d *Declaration) { d.Ops[0].Name = "" }, "no name"},
		{"operation twice", func(d *Declaration) { d.Ops = append(d.Ops, Op{Name: "HELLO", Type: exp + 1}) }, "twice"},
		{"no id", func(d *Declaration) { d.Ops[0].Type = 0 }, "neither"},
		{"§6.2 base procedure", func(d *Declaration) { d.Ops[0].Proc = 4 }, "base protocol"},
		{"§5.3 option type of CONNPROP", func(d *Declaration) { d.Ops[0].Type = 1 }, "reserved"},
		{"§6.2 procedure of UPDPROP", func(d *Declaration) { d.Ops[0].Proc = 9 }, "reserved"},
		{"§5.3 of a carrier", func(d *Declaration) {
			d.Ops[0].Type, d.Ops[0].Proc, d.Ops[0].Answer, d.Carrier, d.Document = 1, 6, "", true, "draft"
		}, ""},
		{"procedure that answers itself", func(d *Declaration) { d.Ops[0].Proc = exp }, "no direction"},
		{"§4.1 assigned id", func(d *Declaration) { d.Ops[0].Type = 77 }, "assigned by documents"},
		{"§4.1 assigned id with its document", func(d *Declaration) { d.Ops[0].Type, d.Document = 77, "RFC 9999" }, ""},
		{"payload with an answer", func(d *Declaration) { d.Ops[0].Payload = Wraps }, "the RPC's answer"},
		{"part in class control", func(d *Declaration) { d.Ops[0].Payload, d.Ops[0].Answer = Part, "" }, "class payload"},
		{"part in class payload", func(d *Declaration) {
			d.Ops[0].Payload, d.Ops[0].Answer, d.Ops[0].Proves, d.Class = Part, "", true, Payload
		}, ""},
		{"part without proof", func(d *Declaration) { d.Ops[0].Payload, d.Ops[0].Answer, d.Class = Part, "", Payload }, "prove"},
		{"window", func(d *Declaration) { d.Ops[0].Window = MaxWindow + 1 }, "window"},
		{"deadline", func(d *Declaration) { d.Ops[0].Deadline = time.Hour }, "deadline"},
		{"late verdict", func(d *Declaration) { d.Ops[0].Late = Verdict{Kind: Refuse, Code: 4} }, "late verdict"},
		{"answer missing", func(d *Declaration) { d.Ops[0].Answer = "BYE" }, "not declared"},
		{"answer is no reply", func(d *Declaration) { d.Ops = append(d.Ops, Op{Name: "BYE", Type: exp + 1}); d.Ops[0].Answer = "BYE" }, "\"BYE\""},
		{"property 0", func(d *Declaration) { d.Props[0].ID = 0 }, "no id"},
		{"§5.2 basic property", func(d *Declaration) { d.Props[0].ID = 2 }, "reserved"},
		{"§5.4.2 below the experimental range", func(d *Declaration) { d.Props[0].ID = exp - 1 }, "assigned by documents"},
		{"property without a type", func(d *Declaration) { d.Props[0].Type = 0 }, "its type"},
		{"bounds crossed", func(d *Declaration) { d.Props[0].Min = 1 }, "above its greatest"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := ok
			d.Ops, d.Props = append([]Op(nil), ok.Ops...), append([]Prop(nil), ok.Props...)
			tc.change(&d)
			_, err := NewSet(fake{d})
			var de *DeclareError
			switch {
			case tc.want == "" && err != nil:
				t.Fatalf("refused: %v", err)
			case tc.want != "" && (!errors.As(err, &de) || !strings.Contains(err.Error(), tc.want)):
				t.Fatalf("%v, want a DeclareError with %q", err, tc.want)
			}
		})
	}
}

// TestClashes: what two extensions claim is refused with both names.
func TestClashes(t *testing.T) {
	a := Declaration{Name: "first", Ops: []Op{{Name: "X", Type: exp, Proc: exp}}, Props: []Prop{{ID: exp, Name: "x", Type: Bool}}}
	for _, tc := range []struct {
		name string
		b    Declaration
		want string
	}{
		{"opttype", Declaration{Name: "second", Ops: []Op{{Name: "Y", Type: exp}}}, "opttype 4294967040"},
		{"rdma_proc", Declaration{Name: "second", Ops: []Op{{Name: "Y", Proc: exp}}}, "rdma_proc 4294967040"},
		{"property", Declaration{Name: "second", Props: []Prop{{ID: exp, Name: "y", Type: Bool}}}, "property 4294967040"},
		{"name", Declaration{Name: "first"}, "the name first"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := NewSet(fake{a}, fake{tc.b})
			var ce *ClashError
			if !errors.As(err, &ce) || ce.What != tc.want || ce.A != "first" || ce.B != tc.b.Name {
				t.Fatalf("%v, want %q and %q to clash over %s", err, "first", tc.b.Name, tc.want)
			}
		})
	}
	two := Declaration{Name: "one", Carrier: true}
	other := Declaration{Name: "other", Carrier: true}
	if _, err := NewSet(fake{two}, fake{other}); err == nil || !strings.Contains(err.Error(), "carrier") {
		t.Errorf("two carriers: %v", err)
	}
	if _, err := NewSet(fake{Declaration{Name: "a", Needs: []string{"b"}}}); err == nil || !strings.Contains(err.Error(), `"b", which is not loaded`) {
		t.Errorf("missing need: %v", err)
	}
}

// TestTables: ids lead to their operations, answers to theirs, defaults are filled in and the extension's
// own declaration stays as it was.
func TestTables(t *testing.T) {
	d := Declaration{Name: "acme", Ops: []Op{
		{Name: "ASK", Type: exp + 1, Answer: "TELL"},
		{Name: "TELL", Type: exp + 2, Reply: true},
		{Name: "SAME", Type: exp + 3, Answer: "SAME", Window: 7},
		{Name: "ONE-WAY", Proc: exp + 4},
	}, Props: []Prop{{ID: exp, Name: "blob", Type: Opaque}}}
	s, err := NewSet(fake{Declaration{Name: "other", Ops: []Op{{Name: "Z", Type: exp}}}}, fake{d})
	if err != nil {
		t.Fatal(err)
	}
	ask, ok := s.Type(exp + 1)
	if !ok || s.Ops()[ask].Op.Name != "ASK" || s.Ops()[ask].Ext != 1 || s.Ops()[s.Ops()[ask].Answer].Op.Name != "TELL" {
		t.Errorf("ASK: %+v", s.Ops()[ask])
	}
	if o := s.Ops()[ask].Op; o.Window != 1 || o.Deadline != time.Second || o.Late.Kind != Refuse || o.Late.Code != System || o.Info != 4096 {
		t.Errorf("defaults: %+v", o)
	}
	same, _ := s.Type(exp + 3)
	if r := s.Ops()[same]; r.Answer != same || r.Op.Window != 7 {
		t.Errorf("SAME: %+v", r)
	}
	one, ok := s.Proc(exp + 4)
	if !ok || s.Ops()[one].Answer != -1 || s.Ops()[one].Op.Late.Kind != Default {
		t.Errorf("ONE-WAY: %+v", s.Ops()[one])
	}
	if p, ok := s.Prop(exp); !ok || p.Prop.MaxLen != 1024 || p.Ext != 1 {
		t.Errorf("property: %+v", p)
	}
	if _, ok := s.Type(5); ok {
		t.Error("an option type that nobody claims was found")
	}
	if d.Ops[0].Window != 0 {
		t.Error("the extension's declaration was changed")
	}
	if s.Gated() || (*Set)(nil).Gated() || (*Set)(nil).Len() != 0 {
		t.Error("nobody gates")
	}
}
