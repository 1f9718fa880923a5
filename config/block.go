package config

import (
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// attributes are those of one block. Each method reads one; where it is not there, or null, the default stays.
type attributes struct {
	*reader
	body *hclsyntax.Body
}

// attributes refuses what is not known in the block.
func (r *reader) attributes(b *hclsyntax.Block, known ...string) attributes {
	for _, a := range b.Body.Attributes {
		if !slices.Contains(known, a.Name) {
			r.bad(a.NameRange, "unknown %q in %s: want %s", a.Name, b.Type, strings.Join(known, ", "))
		}
	}
	for _, inner := range b.Body.Blocks {
		want := strings.Join(known, ", ")
		if slices.Contains(known, inner.Type) {
			want = inner.Type + " = …"
		}
		r.bad(inner.TypeRange, "no block stands in %s: want %s", b.Type, want)
	}
	return attributes{r, b.Body}
}

// at is where an attribute stands; nil: it does not.
func (a attributes) at(name string) *hcl.Range {
	attr := a.body.Attributes[name]
	if attr == nil || isNull(attr.Expr) {
		return nil
	}
	at := attr.Expr.Range()
	return &at
}

// isNull tells whether the file says null, which is the same as nothing.
func isNull(e hclsyntax.Expression) bool {
	l, ok := e.(*hclsyntax.LiteralValueExpr)
	return ok && l.Val.IsNull()
}

// value is an attribute's; ok is false where it is not there, null, or was reported.
func (a attributes) value(name string) (v cty.Value, at hcl.Range, ok bool) {
	attr := a.body.Attributes[name]
	if attr == nil || isNull(attr.Expr) {
		return v, at, false
	}
	v, ok = a.evaluate(attr.Expr)
	return v, attr.Expr.Range(), ok
}

func (a attributes) evaluate(e hclsyntax.Expression) (cty.Value, bool) {
	v, diags := e.Value(nil)
	if diags.HasErrors() {
		a.bad(e.Range(), "want a value; a text stands in quotes")
		return cty.NilVal, false
	}
	return v, true
}

func (a attributes) path(name string, into *string) {
	v, at, ok := a.value(name)
	switch {
	case !ok:
	case v.Type() != cty.String || v.AsString() == "" || strings.ContainsRune(v.AsString(), 0):
		a.bad(at, "%s: want the plugin's executable in quotes, not %s; an extension that is compiled in has no path", name, kind(v))
	default:
		*into = v.AsString()
	}
}

func (a attributes) hostPort(name string, into *string) {
	v, at, ok := a.value(name)
	switch {
	case !ok:
	case v.Type() != cty.String || !HostPort(v.AsString()):
		a.bad(at, "%s: want an address and a port, such as \"127.0.0.1:9464\", not %s", name, kind(v))
	default:
		*into = v.AsString()
	}
}

func (a attributes) boolean(name string, into *bool) {
	if v, at, ok := a.value(name); ok && v.Type() != cty.Bool {
		a.bad(at, "%s: want true or false, not %s", name, kind(v))
	} else if ok {
		*into = v.True()
	}
}

// number wants a whole one, a multiple of step.
func (a attributes) number(name string, into *int, least, most, step int) {
	v, at, ok := a.value(name)
	if !ok {
		return
	}
	if n, whole := integer(v); whole && n >= int64(least) && n <= int64(most) && n%int64(step) == 0 {
		*into = int(n)
		return
	}
	what := "a number"
	if step != 1 {
		what = "a multiple of " + big.NewInt(int64(step)).String()
	}
	a.bad(at, "%s: want %s from %d to %d, not %s", name, what, least, most, kind(v))
}

func integer(v cty.Value) (n int64, ok bool) {
	if v.IsNull() || v.Type() != cty.Number {
		return 0, false
	}
	n, acc := v.AsBigFloat().Int64()
	return n, acc == big.Exact
}

func (a attributes) duration(name string, into *time.Duration, least, most time.Duration) {
	v, at, ok := a.value(name)
	if !ok {
		return
	}
	if v.Type() == cty.String {
		if d, err := time.ParseDuration(v.AsString()); err == nil && d >= least && d <= most {
			*into = d
			return
		}
	}
	a.bad(at, "%s: want a time from %v to %v with its unit, such as \"200ms\", not %s", name, least, most, kind(v))
}

func (a attributes) digest(name string, into *string) {
	v, at, ok := a.value(name)
	if !ok {
		return
	}
	if v.Type() == cty.String {
		s := strings.ToLower(v.AsString())
		if len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" {
			*into = s
			return
		}
	}
	a.bad(at, "%s: want 64 hexadecimal digits, as sha256sum prints them, not %s", name, kind(v))
}

// versions reads the list of versions; what it returns is where it is wrong.
func (a attributes) versions(name string, least, most *uint32) *hcl.Range {
	v, at, ok := a.value(name)
	if !ok {
		return nil
	}
	if !v.Type().IsTupleType() {
		return &at
	}
	var list []int64
	for _, e := range v.AsValueSlice() {
		n, ok := integer(e)
		if !ok {
			return &at
		}
		list = append(list, n)
	}
	switch {
	case slices.Equal(list, []int64{2, 1}):
		*least, *most = 1, 2
	case slices.Equal(list, []int64{2}):
		*least, *most = 2, 2
	case slices.Equal(list, []int64{1}):
		*least, *most = 1, 1
	default:
		return &at
	}
	return nil
}

// options are texts by key; numbers and booleans become texts.
func (a attributes) options(name string, into *map[string]string) {
	attr := a.body.Attributes[name]
	if attr == nil || isNull(attr.Expr) {
		return
	}
	object, ok := attr.Expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		a.bad(attr.Expr.Range(), "%s: want { key = \"value\", … }", name)
		return
	}
	options := make(map[string]string)
	for _, p := range object.Items {
		k, kok := a.evaluate(p.KeyExpr)
		v, vok := a.evaluate(p.ValueExpr)
		if !kok || !vok {
			continue
		}
		if k.IsNull() || k.Type() != cty.String || k.AsString() == "" {
			a.bad(p.KeyExpr.Range(), "%s: want a name before =", name)
			continue
		}
		key := k.AsString()
		if _, twice := options[key]; twice {
			a.bad(p.KeyExpr.Range(), "%s: %s stands there twice", name, key)
			continue
		}
		s, ok := plainText(v)
		if !ok {
			a.bad(p.ValueExpr.Range(), "%s: %s: want a text, a number, true or false, not %s", name, key, kind(v))
			continue
		}
		options[key] = s
	}
	*into = options
}

// maxExponent keeps numbers from becoming long texts.
const maxExponent = 128

func plainText(v cty.Value) (string, bool) {
	if v.IsNull() || !v.Type().IsPrimitiveType() {
		return "", false
	}
	if v.Type() == cty.Number {
		f := v.AsBigFloat()
		if f.IsInf() || f.MantExp(nil) > maxExponent || f.MantExp(nil) < -maxExponent {
			return "", false
		}
	}
	s, err := convert.Convert(v, cty.String)
	if err != nil || strings.ContainsRune(s.AsString(), 0) {
		return "", false
	}
	return s.AsString(), true
}

// kind says what a value is, for a person who looks for it in the file.
func kind(v cty.Value) string {
	const longest = 40
	switch {
	case v.IsNull():
		return "null"
	case v.Type() == cty.String:
		s := v.AsString()
		if len(s) > longest {
			s = strings.ToValidUTF8(s[:longest], "") + "…"
		}
		return "\"" + s + "\""
	case v.Type() == cty.Number:
		return v.AsBigFloat().Text('g', 10)
	case v.Type() == cty.Bool && v.True():
		return "true"
	case v.Type() == cty.Bool:
		return "false"
	case v.Type().IsTupleType():
		return "a list"
	}
	return "an object"
}
