package props

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// Names are properties as people write them: "rbsiz=65536", "brs=inline", "4294967056=0x00000005".
type Names struct{ props []ext.Prop }

// NewNames are the basic properties and those given.
func NewNames(more ...ext.Prop) Names {
	all := []ext.Prop{ReceiveSize.Prop(), Backward.Prop()}
	for _, p := range more {
		if !slices.ContainsFunc(all, func(q ext.Prop) bool { return q.ID == p.ID }) {
			all = append(all, p)
		}
	}
	return Names{all}
}

// NamesOf are the basic properties and those of the extensions of s.
func NamesOf(s *ext.Set) Names {
	var more []ext.Prop
	for i := range s.Len() {
		more = append(more, s.Declared(i).Props...)
	}
	return NewNames(more...)
}

// Prop finds a property by its name or its number. One that is not known has its number alone.
func (n Names) Prop(name string) (ext.Prop, error) {
	if i := slices.IndexFunc(n.props, func(p ext.Prop) bool { return p.Name == name }); i >= 0 {
		return n.props[i], nil
	}
	id, err := strconv.ParseUint(name, 0, 32)
	if err != nil || id == 0 {
		return ext.Prop{}, fmt.Errorf("no property is called %q: there are %s, and numbers", name, strings.Join(n.list(), ", "))
	}
	return n.ByID(uint32(id)), nil
}

// ByID finds a property by its number. One that is not known has its number alone.
func (n Names) ByID(id uint32) ext.Prop {
	if i := slices.IndexFunc(n.props, func(p ext.Prop) bool { return p.ID == id }); i >= 0 {
		return n.props[i]
	}
	return ext.Prop{ID: id}
}

func (n Names) list() (all []string) {
	for _, p := range n.props {
		all = append(all, p.Name)
	}
	return all
}

// Parse reads NAME=VALUE. "default" is the value of no length.
func (n Names) Parse(text string) (id uint32, value []byte, err error) {
	name, v, ok := strings.Cut(text, "=")
	if !ok {
		return 0, nil, fmt.Errorf("%q: a property is written NAME=VALUE", text)
	}
	p, err := n.Prop(strings.TrimSpace(name))
	if err != nil {
		return 0, nil, err
	}
	value, err = ParseValue(p, strings.TrimSpace(v))
	return p.ID, value, err
}

// enums are the names of values, by property.
var enums = map[uint32][]string{BRS: {"none", "inline", "general"}}

// ParseValue reads a value of p: a number, true or false, a name of the enumeration, the bytes of an opaque in
// hexadecimal ("0x0102"), "default". Of a property that is not known the value's XDR in hexadecimal.
// The error is a *ValueError.
func ParseValue(p ext.Prop, text string) ([]byte, error) {
	bad := func(want string) ([]byte, error) { return nil, &ValueError{p, fmt.Sprintf("%q is not %s", text, want)} }
	if text == "default" {
		return nil, nil
	}
	var data []byte
	switch p.Type {
	case ext.Uint32, ext.Enum:
		v, err := strconv.ParseUint(text, 0, 32)
		if i := slices.Index(enums[p.ID], text); i >= 0 {
			v, err = uint64(i), nil
		}
		switch {
		case err != nil && enums[p.ID] != nil:
			return bad("one of " + strings.Join(enums[p.ID], ", "))
		case err != nil:
			return bad("a number from 0 to 4294967295")
		}
		data = encodeUint32(uint32(v))
	case ext.Bool:
		v, err := strconv.ParseBool(text)
		if err != nil {
			return bad("true or false")
		}
		data = encodeBool(v)
	default:
		digits, ok := strings.CutPrefix(text, "0x")
		v, err := hex.DecodeString(digits)
		if !ok || err != nil {
			return bad("bytes in hexadecimal such as 0x0a0b")
		}
		if p.Type != ext.Opaque {
			return v, nil
		}
		data = encodeOpaque(v)
	}
	return data, Check(p, data)
}

// FormatValue writes a value of p as ParseValue reads it; what is no value of p is written as its XDR.
func FormatValue(p ext.Prop, data []byte) string {
	if len(data) == 0 {
		return "default"
	}
	if Check(p, data) == nil {
		switch v := decodeUint32(data); p.Type {
		case ext.Enum, ext.Uint32:
			if names := enums[p.ID]; v < uint32(len(names)) {
				return names[v]
			}
			return strconv.FormatUint(uint64(v), 10)
		case ext.Bool:
			return strconv.FormatBool(v == 1)
		case ext.Opaque:
			return "0x" + hex.EncodeToString(decodeOpaque(data))
		}
	}
	return "0x" + hex.EncodeToString(data)
}
