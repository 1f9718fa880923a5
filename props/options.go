package props

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// Options set up an Extension. The zero value announces what each connection has.
type Options struct {
	// ReceiveSize is the RBSIZ to have, in bytes: 4096 to 262144. More than the connection begins with is announced when
	// its smaller receives have been consumed (D-22). Default 0: what the connection has.
	ReceiveSize int
	// MaxReceiveSize is the most that a peer may ask our receives to be raised to, in bytes. Default 0: what the
	// engine allows.
	MaxReceiveSize int
	// Backward is the BRS that a client begins with (v2 draft §5.2.2). Default nil: what the connection has.
	Backward *ext.BackwardLevel
	// Optional sends the property operations as RDMA2_OPTIONAL with opttypes 1 to 4 (v2 draft §5.3), not as rdma_proc 6
	// to 9 (§6.2). Both are understood, and answered in the form in which they came (D-1).
	Optional bool
	// Patience is how long a peer may take to send its CONNPROP before it counts as one that does not support
	// properties. Default 10 s.
	Patience time.Duration
	// Extra are properties that no code stands behind: they are given to the peer, which may change those that
	// are mutable.
	Extra []Extra
}

// Extra is a property with its value.
type Extra struct {
	Prop  ext.Prop
	Value []byte // XDR; nil: the default
}

const defaultPatience = 10 * time.Second

// keys are those of ParseOptions.
var keys = []string{"backward", "encoding", "max_receive_size", "patience", "receive_size"}

// ParseOptions reads Options as a configuration has them: receive_size and max_receive_size in bytes, backward (none,
// inline, general), encoding (proc, optional), patience (10s).
func ParseOptions(text map[string]string) (o Options, err error) {
	for key, v := range text {
		switch key {
		case "receive_size":
			o.ReceiveSize, err = strconv.Atoi(v)
		case "max_receive_size":
			o.MaxReceiveSize, err = strconv.Atoi(v)
		case "backward":
			var data []byte
			if data, err = ParseValue(Backward.Prop(), v); err == nil {
				level, _ := Backward.Decode(data)
				o.Backward = &level
			}
		case "encoding":
			o.Optional = v == "optional"
			if !o.Optional && v != "proc" {
				err = fmt.Errorf("it is proc or optional")
			}
		case "patience":
			o.Patience, err = time.ParseDuration(v)
		default:
			err = fmt.Errorf("there is no such option; there are %s", strings.Join(keys, ", "))
		}
		if err != nil {
			return o, fmt.Errorf("props: option %s = %q: %w", key, v, err)
		}
	}
	return o, o.check()
}

func (o *Options) check() error {
	for _, n := range []struct {
		name string
		n    int
	}{{"receive_size", o.ReceiveSize}, {"max_receive_size", o.MaxReceiveSize}} {
		if n.n != 0 && (n.n < DefaultReceiveSize || n.n > maxSendLimit) {
			return fmt.Errorf("props: %s is %d; it is %d to %d bytes", n.name, n.n, DefaultReceiveSize, maxSendLimit)
		}
	}
	if o.Patience < 0 {
		return fmt.Errorf("props: patience is %v; it is a time to wait", o.Patience)
	}
	if o.Backward != nil && *o.Backward > ext.BackwardGeneral {
		return fmt.Errorf("props: backward level %d does not exist", *o.Backward)
	}
	for _, e := range o.Extra {
		if err := Check(e.Prop, e.Value); err != nil {
			return err
		}
		if slices.Contains([]uint32{RBSIZ, BRS}, e.Prop.ID) {
			return fmt.Errorf("props: property %d is a basic one", e.Prop.ID)
		}
	}
	return nil
}
