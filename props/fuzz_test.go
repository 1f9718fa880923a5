package props

import (
	"bytes"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// FuzzOperation: an operation is refused, or it is written again as the same bytes (but for round-up bytes, which nobody
// looks at).
func FuzzOperation(f *testing.F) {
	ops := []string{opConn, opReq, opResp, opUpd}
	for i, op := range ops {
		f.Add(uint8(i), encode(op, wire.Header{Props: []wire.Property{{ID: 1, Data: []byte{0, 0, 16, 0}}, {ID: 0xffffff12, Data: []byte{1}}}, NoChange: wire.Subset{2}, DoneSet: wire.Subset{1}, Rejected: wire.Subset{}}))
		f.Add(uint8(i), []byte{0, 0, 0, 1})
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		op := ops[int(which)%len(ops)]
		h, err := decode(op, b)
		if err != nil {
			return
		}
		again := encode(op, h)
		if len(again) != len(b) {
			t.Fatalf("%d bytes from %d", len(again), len(b))
		}
		back, err := decode(op, again)
		if err != nil || !bytes.Equal(encode(op, back), again) {
			t.Fatalf("%x from %x: %v", again, b, err)
		}
	})
}

// FuzzValue: a value is refused, or its typed form is written as the same bytes; its text is read as the same value.
func FuzzValue(f *testing.F) {
	for _, b := range [][]byte{nil, {0, 0, 0, 1}, {0, 0, 0, 1, 0}, {0, 0, 0, 3, 1, 2, 3, 0}, {0xff, 0xff, 0xff, 0xff}} {
		for i := range 5 {
			f.Add(uint8(i), b)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		var p ext.Prop
		var again []byte
		var err error
		switch which % 5 {
		case 0:
			p, again, err = redo(ReceiveSize, b)
		case 1:
			p, again, err = redo(Backward, b)
		case 2:
			p, again, err = redo(depth, b)
		case 3:
			p, again, err = redo(strict, b)
		case 4:
			p, again, err = redo(label_, b)
		}
		if (err == nil) != (Check(p, b) == nil) {
			t.Fatalf("Decode says %v, Check %v", err, Check(p, b))
		}
		read, perr := ParseValue(p, FormatValue(p, b))
		if err != nil || len(b) == 0 {
			return
		}
		if p.Type == ext.Opaque { // round-up bytes
			b = encodeOpaque(decodeOpaque(b))
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("%x from %x", again, b)
		}
		if perr != nil || !bytes.Equal(read, b) {
			t.Fatalf("%q is read as %x, not %x: %v", FormatValue(p, b), read, b, perr)
		}
	})
}

func redo[T any](p Property[T], b []byte) (ext.Prop, []byte, error) {
	v, err := p.Decode(b)
	if err != nil {
		return p.Prop(), nil, err
	}
	return p.Prop(), p.Encode(v), nil
}

// FuzzPeer: whatever a peer sends, the machine settles what is asked of it and keeps no more than its bounds.
func FuzzPeer(f *testing.F) {
	f.Add(true, []byte{0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add(false, append([]byte{0, 0, 0, 0, 20}, encode(opConn, wire.Header{Props: []wire.Property{{ID: depth.ID(), Data: []byte{0, 0, 0, 2}}}})...))
	f.Fuzz(func(t *testing.T, client bool, b []byte) {
		ops := []string{opConn, opReq, opResp, opUpd}
		x := newExchange(client, false, 4096-longestHeader)
		x.offered(depth.ID(), depth.Encode(2), false)
		x.offered(label_.ID(), nil, false)
		x.begin(names.props)
		x.want(1, depth.ID(), depth.Encode(3))
		settled := 0
		for len(b) >= 2 {
			kind, n := b[0], min(int(b[1]), len(b)-2)
			info := b[2 : 2+n]
			b = b[2+n:]
			switch kind % 8 {
			case 4:
				x.outcome(opReq, ext.Outcome{Kind: ext.Answered, Info: info})
			case 5:
				x.outcome(opUpd, ext.Outcome{Kind: ext.OutcomeKind(1 + n%6), Code: ext.Code(kind)})
			case 6:
				x.outcome(opConn, ext.Outcome{Kind: ext.OutcomeKind(1 + n%6), Code: ext.Code(kind)})
			case 7:
				x.offered(depth.ID(), depth.Encode(uint32(1+n%64)), false)
			default:
				op := ops[kind%4]
				x.message(ext.Message{Op: op, Info: info, Token: 1, Reply: op == opResp})
			}
			for _, a := range x.take() {
				switch a.do {
				case doOwner:
					x.granted(a.ref, a.at, a.id, a.data, ext.Change{Kind: ext.ChangeKind(kind % 3), Value: a.data})
				case doSettled:
					settled++
				case doSend:
					if _, err := decode(a.op, a.info); err != nil {
						t.Fatalf("the machine sends what nobody reads: %v", err)
					}
				}
			}
		}
		x.silent()
		x.closed()
		for _, a := range x.take() {
			if a.do == doSettled {
				settled++
			}
		}
		if settled != 1 || x.strays > maxStrays {
			t.Fatalf("settled %d times, %d bytes kept", settled, x.strays)
		}
	})
}
