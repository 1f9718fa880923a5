package hostauth

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// Name is the extension's.
const Name = "hostauth"

// Limits of Options.Timeout, and what zero means.
const (
	MinTimeout     = 100 * time.Millisecond
	MaxTimeout     = time.Minute
	DefaultTimeout = 5 * time.Second
)

// Options are the extension's.
type Options struct {
	// KeyFile is the absolute path of the key file; see the package's doc.
	KeyFile string
	// KeyID is the key that a client has, of those in the file. Empty: the only one.
	KeyID string
	// Bind is what proofs are bound to: the same at both sides.
	Bind Bind
	// Timeout is how long the exchange may take: 100 ms to 1 min. Default 5 s. The engine's own limit for gated
	// connections, 10 s by default (engine.Config.GateTimeout), counts as well.
	Timeout time.Duration
	// Log is where a server says whom it refuses and why, in at most a line a second. nil: slog.Default.
	Log *slog.Logger
}

// OptionError is an option that cannot be used.
type OptionError struct{ Option, Value, Want string }

func (e *OptionError) Error() string {
	return fmt.Sprintf("hostauth: option %s is %q: want %s", e.Option, e.Value, e.Want)
}

var wantTimeout = fmt.Sprintf("a time such as 5s, %v to %v", MinTimeout, MaxTimeout)

// Extension implements ext.Extension.
type Extension struct {
	opts  Options
	keys  map[string][]byte
	key   string // a client's; empty: there are several
	dummy []byte // for clients whose key is not there: it takes the same time

	mu     sync.Mutex // guards what follows
	told   time.Time  // when the log last had a line
	untold int        // refused since
}

// tell logs that a server has refused a client, which may well not say so to anybody.
func (x *Extension) tell(remote netip.AddrPort, why *Error) {
	x.mu.Lock()
	now := time.Now()
	if now.Sub(x.told) < time.Second {
		x.untold++
		x.mu.Unlock()
		return
	}
	untold := x.untold
	x.told, x.untold = now, 0
	x.mu.Unlock()
	log := x.opts.Log
	if log == nil {
		log = slog.Default()
	}
	log.Warn("hostauth: a client was refused", "remote", remote, "why", why, "others", untold)
}

// New makes the extension, and reads the key file. The error is an *OptionError or a *KeyFileError.
func New(o Options) (*Extension, error) {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	switch {
	case o.KeyFile == "":
		return nil, &OptionError{"key_file", "", "the path of the file with the keys"}
	case o.Bind > Addresses:
		return nil, &OptionError{"bind", o.Bind.String(), wantBind}
	case o.Timeout < MinTimeout || o.Timeout > MaxTimeout:
		return nil, &OptionError{"timeout", o.Timeout.String(), wantTimeout}
	}
	keys, err := readKeys(o.KeyFile)
	if err != nil {
		return nil, err
	}
	x := &Extension{opts: o, keys: keys, key: o.KeyID, dummy: make([]byte, minKey)}
	if o.KeyID != "" && keys[o.KeyID] == nil {
		return nil, &OptionError{"key_id", o.KeyID, "the id of a key in " + o.KeyFile}
	}
	if o.KeyID == "" && len(keys) == 1 {
		for id := range keys {
			x.key = id
		}
	}
	rand.Read(x.dummy)
	return x, nil
}

const wantBind = "none or addresses"

// Configured makes the extension from a configuration's options: "key_file", "key_id", "bind" (none or addresses) and
// "timeout", as in Options.
func Configured(options map[string]string) (ext.Extension, error) {
	var o Options
	for k, v := range options {
		switch k {
		case "key_file":
			o.KeyFile = v
		case "key_id":
			o.KeyID = v
		case "bind":
			switch v {
			case Unbound.String():
			case Addresses.String():
				o.Bind = Addresses
			default:
				return nil, &OptionError{k, v, wantBind}
			}
		case "timeout":
			d, err := time.ParseDuration(v)
			if err != nil || d == 0 {
				return nil, &OptionError{k, v, wantTimeout}
			}
			o.Timeout = d
		default:
			return nil, &OptionError{k, v, "none of that name; there are bind, key_file, key_id and timeout"}
		}
	}
	return New(o)
}

// Declare implements ext.Extension.
func (x *Extension) Declare() ext.Declaration {
	return ext.Declaration{
		Name: Name, Version: "1", Needs: []string{"props"}, Gate: true,
		Props: []ext.Prop{{ID: PropertyID, Name: Name, Type: ext.Opaque, Default: make([]byte, 4), MaxLen: maxLen, Mutable: true}},
	}
}

// Connect implements ext.Extension.
func (x *Extension) Connect(c ext.Conn) ext.Session {
	f := c.Facts()
	s := &session{x: x, conn: c, client: f.Client, hello: message{step: stepHello, bind: x.opts.Bind}}
	rand.Read(s.hello.nonce[:])
	if x.opts.Bind == Addresses {
		a, b := f.Local, f.Remote
		if !f.Client {
			a, b = b, a
		}
		s.addresses = addresses(a, b)
	}
	if s.client {
		if x.key == "" {
			s.fail(&Error{Reason: NoKey})
			return s
		}
		s.hello.key = x.key
	}
	s.timer = time.AfterFunc(x.opts.Timeout, s.late)
	c.Offer(PropertyID, s.hello.value(), false)
	return s
}
