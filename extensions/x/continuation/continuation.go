package continuation

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// Numbers of the protocol; see the package's doc.
const (
	MaxMsgID = 4294967104
	PartType = 4294967104
	LastType = 4294967105
	AckType  = 4294967106

	// Window is the pieces that a side may have on their way: two messages of MaxMax in Sends of 4096 bytes, 33 each, and
	// what is unreported of those before.
	Window = 96
	// AckEvery is the pieces after which a receiver tells that it has taken them. So many less one may be unreported, so a message
	// must get along with the rest of the window.
	AckEvery = 16
	// Acks is the acknowledgements that may be on their way: of those that say more than n - Window of n
	// pieces there are Window/AckEvery, and one more, and the first.
	Acks = 8
	// Open is the messages of which a receiver has some pieces and not all.
	Open = 4
)

// Name is the extension's in configuration.
const Name = "continuation"

const (
	opPart = "part"
	opLast = "last"
	opAck  = "ack"

	pieceLen = 8
	ackLen   = 4
)

// Limits of Options.Max.
const (
	MinMax     = 4096
	MaxMax     = 128 << 10
	DefaultMax = 64 << 10
)

// Options are the extension's.
type Options struct {
	// Max is the bytes of the longest RPC message that is assembled, and announced: 4096 to 131072. Default 65536. A connection
	// may hold so many for each of its credits, and for Open messages more. Longer messages go in chunks.
	Max int
}

// Extension implements ext.Extension.
type Extension struct{ max int }

// OptionError is an option that cannot be used.
type OptionError struct{ Option, Value, Want string }

func (e *OptionError) Error() string {
	return fmt.Sprintf("continuation: option %q is %q: want %s", e.Option, e.Value, e.Want)
}

var wantMax = fmt.Sprintf("bytes, %d to %d", MinMax, MaxMax)

// New makes the extension.
func New(o Options) (*Extension, error) {
	if o.Max == 0 {
		o.Max = DefaultMax
	}
	if o.Max < MinMax || o.Max > MaxMax {
		return nil, &OptionError{"max", strconv.Itoa(o.Max), wantMax}
	}
	return &Extension{max: o.Max &^ 3}, nil
}

// Configured makes the extension from a configuration's options: "max", as Options.Max.
func Configured(options map[string]string) (ext.Extension, error) {
	var o Options
	for k, v := range options {
		if k != "max" {
			return nil, &OptionError{k, v, "none of that name; there is max"}
		}
		n, err := strconv.Atoi(v)
		if err != nil || n == 0 {
			return nil, &OptionError{k, v, wantMax}
		}
		o.Max = n
	}
	x, err := New(o)
	if err != nil {
		return nil, err
	}
	return x, nil
}

// Declare implements ext.Extension.
func (x *Extension) Declare() ext.Declaration {
	return ext.Declaration{
		Name: Name, Version: "1", Class: ext.Payload, Needs: []string{"props"},
		Ops: []ext.Op{
			{Name: opPart, Type: PartType, Payload: ext.Part, Info: pieceLen, Window: Window, Proves: true},
			{Name: opLast, Type: LastType, Payload: ext.Wraps, Info: pieceLen},
			{Name: opAck, Type: AckType, Window: Acks, Proves: true},
		},
		Props:  []ext.Prop{{ID: MaxMsgID, Name: "continuation-max", Type: ext.Uint32, Default: make([]byte, 4)}},
		Limits: ext.Limits{Info: pieceLen},
	}
}

// Connect implements ext.Extension.
func (x *Extension) Connect(c ext.Conn) ext.Session {
	s := &session{conn: c, max: x.max}
	c.Offer(MaxMsgID, binary.BigEndian.AppendUint32(nil, uint32(x.max)), true)
	return s
}
