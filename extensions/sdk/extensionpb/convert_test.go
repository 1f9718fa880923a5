package extensionpb

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// filled sets every field of a value to something, so that one that a message lacks is missed.
func filled(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[netip.AddrPort]() {
			v.Set(reflect.ValueOf(netip.MustParseAddrPort("192.0.2.1:20049")))
			return
		}
		for i := range v.NumField() {
			filled(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			filled(v.Index(i))
		}
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(3)
	case reflect.Int, reflect.Int64:
		v.SetInt(4)
	default:
		panic("a field of kind " + v.Kind().String())
	}
}

func make1[T any]() (v T) {
	filled(reflect.ValueOf(&v).Elem())
	return v
}

// crossed is a message as the other side has it.
func crossed[M proto.Message](t *testing.T, m M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	c := m.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(b, c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEveryField: no field of the contract is lost in crossing.
func TestEveryField(t *testing.T) {
	d := make1[ext.Declaration]()
	same(t, d, crossed(t, FromDeclaration(d)).Ext())
	f := make1[ext.Facts]()
	same(t, f, crossed(t, FromFacts(f)).Ext())
	v := make1[ext.Verdict]()
	same(t, v, crossed(t, FromVerdict(v)).Ext())
	c := make1[ext.Change]()
	same(t, c, crossed(t, FromChange(c)).Ext())
	o := make1[ext.Outcome]()
	same(t, o, crossed(t, FromOutcome(1, o)).Ext())
	for _, r := range []ext.Request{ext.SendLimit(1), ext.ReceiveSize(2), ext.BackwardGeneral, ext.Invalidation(true), ext.CreditsSplit, ext.ExtraReceives(5), ext.Silence(6), ext.GrantChange{}} {
		same(t, r, crossed(t, FromRequest(1, r)).Ext())
	}
	same(t, ext.Facts{}, crossed(t, FromFacts(ext.Facts{})).Ext())
	same(t, ext.Verdict{}, FromVerdict(ext.Verdict{}).Ext())
}

func same(t *testing.T, want, got any) {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Errorf("sent     %+v\nreceived %+v", want, got)
	}
}

// TestTooLarge: a number that does not fit does not become one that does.
func TestTooLarge(t *testing.T) {
	d := (&Declaration{Name: "x", Class: 256, Ops: []*Op{{Name: "o", Type: 1 << 31, From: 256, Payload: 257, Window: 1 << 31, DeadlineNs: int64(time.Hour)}}}).Ext()
	if d.Class == 0 || d.Ops[0].From == 0 || d.Ops[0].Payload < 2 || d.Ops[0].Window < 1<<31 {
		t.Errorf("%+v", d)
	}
	if d.Check() == nil {
		t.Error("and it can be loaded")
	}
	if v := (&Verdict{Kind: 258}).Ext(); v.Kind <= ext.Refuse {
		t.Errorf("verdict 258 is %d", v.Kind)
	}
	if m := FromDeclaration(ext.Declaration{Limits: ext.Limits{Info: -1, Queue: 1 << 40}}); m.LimitInfo != 1<<32-1 || m.LimitQueue != 1<<32-1 {
		t.Errorf("%v", m)
	}
}

// FuzzDeclaration: of what a plugin declares only what passes Check is taken, and that is the same again when it is sent back.
func FuzzDeclaration(f *testing.F) {
	for _, d := range []ext.Declaration{
		{Name: "a", Version: "1"},
		{Name: "fuzz", Version: "1", Gate: true, Carrier: true, Ops: []ext.Op{
			{Name: "echo", Type: 4294967040, Answer: "echo", Deadline: time.Second}, {Name: "note", Type: 4294967041, Proves: true, Window: 4},
		}, Props: []ext.Prop{{ID: 4294967041, Name: "level", Type: ext.Uint32, Max: 9, Mutable: true}}},
	} {
		b, err := proto.Marshal(FromDeclaration(d))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Declaration
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		d := m.Ext()
		if d.Check() != nil {
			return
		}
		again := FromDeclaration(d).Ext()
		if again.Check() != nil || !proto.Equal(FromDeclaration(again), FromDeclaration(d)) {
			t.Errorf("%+v\ncame back as %+v", d, again)
		}
	})
}
