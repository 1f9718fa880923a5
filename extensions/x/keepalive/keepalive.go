package keepalive

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// Name is the extension's.
const Name = "keepalive"

const opGrant = "grant"

// window is the GRANTs that may be unconsumed: a question and an answer.
const window = 2

// Limits of Options, and what zero means.
const (
	MinTime         = 100 * time.Millisecond
	MaxTime         = time.Hour
	DefaultInterval = 30 * time.Second
	DefaultPatience = 10 * time.Second
)

// Options are the extension's.
type Options struct {
	// Interval is how long nothing may have passed, in either direction, until the peer is asked: 100 ms to 1 h, and up to a quarter more. Default
	// 30 s. A translator of addresses or a firewall in between forgets connections that are quiet for longer than
	// a time of its own, often 5 minutes or more.
	Interval time.Duration
	// Patience is how long the connection may then stay silent until it ends: the same bounds. Default 10 s.
	Patience time.Duration
}

// OptionError is an option that cannot be used.
type OptionError struct{ Option, Value, Want string }

func (e *OptionError) Error() string {
	return fmt.Sprintf("keepalive: option %s is %q: want %s", e.Option, e.Value, e.Want)
}

var wantTime = fmt.Sprintf("a time such as 30s, %v to %v", MinTime, MaxTime)

// Extension implements ext.Extension.
type Extension struct{ opts Options }

// New makes the extension. The error is an *OptionError.
func New(o Options) (*Extension, error) {
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Patience == 0 {
		o.Patience = DefaultPatience
	}
	for _, v := range []struct {
		name string
		d    time.Duration
	}{{"interval", o.Interval}, {"patience", o.Patience}} {
		if v.d < MinTime || v.d > MaxTime {
			return nil, &OptionError{v.name, v.d.String(), wantTime}
		}
	}
	return &Extension{o}, nil
}

// Configured makes the extension from a configuration's options: "interval" and "patience", as in Options.
func Configured(options map[string]string) (ext.Extension, error) {
	var o Options
	for k, v := range options {
		var to *time.Duration
		switch k {
		case "interval":
			to = &o.Interval
		case "patience":
			to = &o.Patience
		default:
			return nil, &OptionError{k, v, "none of that name; there are interval and patience"}
		}
		d, err := time.ParseDuration(v)
		if err != nil || d == 0 {
			return nil, &OptionError{k, v, wantTime}
		}
		*to = d
	}
	return New(o)
}

// Declare implements ext.Extension.
func (x *Extension) Declare() ext.Declaration {
	return ext.Declaration{
		Name: Name, Version: "1", Needs: []string{"props"},
		Ops: []ext.Op{{
			Name: opGrant, Type: GrantType, Reply: true, Credit: true, Window: window, Proves: true,
		}},
		Props: []ext.Prop{{
			ID: PropertyID, Name: Name, Type: ext.Bool, Default: binary.BigEndian.AppendUint32(nil, word(false)),
		}},
		Limits: ext.Limits{Info: infoLen},
	}
}

// Connect implements ext.Extension.
func (x *Extension) Connect(c ext.Conn) ext.Session {
	c.Offer(PropertyID, binary.BigEndian.AppendUint32(nil, word(true)), true)
	return &session{conn: c, opts: x.opts}
}
