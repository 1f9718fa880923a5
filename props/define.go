package props

import (
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// Property is a transport property whose values are of type T. The extension that defines it lists Prop in
// its Declaration, and uses the rest on its connections.
type Property[T any] struct {
	prop   ext.Prop
	encode func(T) []byte
	decode func([]byte) T // of what Check has passed
}

// Rule narrows a property that is being defined: Range, MaxLen, Mutable, Lenient.
type Rule func(*ext.Prop)

// Range bounds a Uint32 or an Enum. A value outside is refused as one that is malformed is (D-13).
func Range(least, greatest uint32) Rule {
	return func(p *ext.Prop) { p.Min, p.Max = least, greatest }
}

// MaxLen bounds the bytes of an Opaque. Default 1024; at most ext.MaxInfo.
func MaxLen(n int) Rule { return func(p *ext.Prop) { p.MaxLen = n } }

// Mutable is the Rule that the value may change while the connection lives, and may be asked to.
func Mutable(p *ext.Prop) { p.Mutable = true }

// Lenient is the Rule that values outside Range are taken from the peer: the extension deals with them.
func Lenient(p *ext.Prop) { p.Lenient = true }

// Uint32 defines a property that is a number; def is its default.
func Uint32(id uint32, name string, def uint32, rules ...Rule) Property[uint32] {
	return define(ext.Prop{ID: id, Name: name, Type: ext.Uint32}, def, encodeUint32, decodeUint32, rules)
}

// Bool defines a property that is true or false.
func Bool(id uint32, name string, def bool, rules ...Rule) Property[bool] {
	return define(ext.Prop{ID: id, Name: name, Type: ext.Bool}, def, encodeBool,
		func(b []byte) bool { return decodeUint32(b) == 1 }, rules)
}

// Enum defines a property that is one of a few values. Range says which.
func Enum[E ~uint8 | ~uint16 | ~uint32](id uint32, name string, def E, rules ...Rule) Property[E] {
	return define(ext.Prop{ID: id, Name: name, Type: ext.Enum}, def,
		func(v E) []byte { return encodeUint32(uint32(v)) },
		func(b []byte) E { return E(decodeUint32(b)) }, rules)
}

// Opaque defines a property that is bytes; its default is none. They are the extension's alone.
func Opaque(id uint32, name string, rules ...Rule) Property[[]byte] {
	return define(ext.Prop{ID: id, Name: name, Type: ext.Opaque}, []byte{}, encodeOpaque, decodeOpaque, rules)
}

// define panics where the default is no value of the property: that is a mistake in the program's text.
func define[T any](p ext.Prop, def T, encode func(T) []byte, decode func([]byte) T, rules []Rule) Property[T] {
	for _, r := range rules {
		r(&p)
	}
	p.Default = encode(def)
	if err := Check(p, p.Default); err != nil && !p.Lenient {
		panic(fmt.Sprintf("props: the default of %v", err))
	}
	return Property[T]{p, encode, decode}
}

// Prop is the property as a Declaration lists it.
func (p Property[T]) Prop() ext.Prop { return p.prop }

// ID is its number.
func (p Property[T]) ID() uint32 { return p.prop.ID }

// Encode is v as XDR.
func (p Property[T]) Encode(v T) []byte { return p.encode(v) }

// Decode reads a value; data of no length is the default. The error is a *ValueError.
func (p Property[T]) Decode(data []byte) (v T, err error) {
	if len(data) == 0 {
		data = p.prop.Default
	}
	if err := Check(p.prop, data); err != nil {
		return v, err
	}
	return p.decode(data), nil
}

// Offer makes v our value. What is not offered before Connect returns keeps its default for the connection's life
// (D-24): a property that may change later is offered there, if need be with its default.
func (p Property[T]) Offer(c ext.Conn, v T) { c.Offer(p.prop.ID, p.encode(v), false) }

// Fix makes v our value and says that it will not change.
func (p Property[T]) Fix(c ext.Conn, v T) { c.Offer(p.prop.ID, p.encode(v), true) }

// Reset makes our value the default.
func (p Property[T]) Reset(c ext.Conn) { c.Offer(p.prop.ID, nil, false) }

// Ask asks the peer to make its value v. done gets what became of it; now is the peer's value with ext.Done and
// ext.Other, else the default.
func (p Property[T]) Ask(c ext.Conn, v T, done func(kind ext.ChangeKind, now T)) {
	c.Ask(p.prop.ID, p.encode(v), func(ch ext.Change) {
		now := v
		if ch.Kind != ext.Done {
			var err error
			if now, err = p.Decode(ch.Value); err != nil {
				ch.Kind = ext.Rejected
				now = p.decode(p.prop.Default)
			}
		}
		if done != nil {
			done(ch.Kind, now)
		}
	})
}

// Instead is the answer to a request for another value: v is in force.
func (p Property[T]) Instead(v T) ext.Change { return ext.Change{Kind: ext.Other, Value: p.encode(v)} }
