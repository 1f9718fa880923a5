package props

import (
	"encoding/binary"
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// ValueError is a value that a property does not take.
type ValueError struct {
	Prop ext.Prop
	Why  string
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("property %s: %s", label(e.Prop), e.Why)
}

// Check tells whether data is a value of p: of its XDR type, whole, without surplus bytes (D-13), and within its
// bounds. Data of no length is the default (v2 draft §5.1.1, D-16) and always one. The error is a *ValueError.
func Check(p ext.Prop, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	bad := func(format string, args ...any) error { return &ValueError{p, fmt.Sprintf(format, args...)} }
	r := xdr.NewReader(data)
	switch p.Type {
	case ext.Uint32, ext.Enum:
		v := r.Uint32()
		if r.Err() == nil && !p.Lenient && bounded(p) && (v < p.Min || v > p.Max) {
			return bad("%d is outside %d to %d", v, p.Min, p.Max)
		}
	case ext.Bool:
		r.Bool()
	case ext.Opaque:
		r.OpaqueView(uint32(maxLen(p)))
	default:
		return bad("its type is not known")
	}
	if err := r.Done(); err != nil {
		return bad("%x is no %v: %v", clip(data), p.Type, err)
	}
	return nil
}

func bounded(p ext.Prop) bool { return p.Min != 0 || p.Max != 0 }

// maxLen is the bound of an opaque property; a Declaration that came out of an ext.Set has it filled in.
func maxLen(p ext.Prop) int {
	if p.MaxLen == 0 {
		return 1024
	}
	return p.MaxLen
}

// clip shortens what an error shows.
func clip(b []byte) []byte { return b[:min(len(b), 32)] }

// label is a property's name, or its number.
func label(p ext.Prop) string {
	if p.Name == "" {
		return fmt.Sprint(p.ID)
	}
	return p.Name
}

// The encodings of checked values.

func encodeUint32(v uint32) []byte { return binary.BigEndian.AppendUint32(nil, v) }

func decodeUint32(data []byte) uint32 { return xdr.NewReader(data).Uint32() }

func encodeBool(v bool) []byte {
	if v {
		return encodeUint32(1)
	}
	return encodeUint32(0)
}

func encodeOpaque(v []byte) []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, 8+len(v)), uint32(len(v)))
	b = append(b, v...)
	return append(b, make([]byte, -len(v)&3)...)
}

func decodeOpaque(data []byte) []byte { return xdr.NewReader(data).Opaque(uint32(len(data))) }
