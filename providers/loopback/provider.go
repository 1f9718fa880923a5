package loopback

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/soft/qp"
)

// Scheme is the provider's name and URL scheme.
const Scheme = "loopback"

func init() { verbs.Register(Scheme, Provider{}) }

// Provider is the loopback provider. Its values are all alike.
type Provider struct{}

var _ verbs.Provider = Provider{}

// Limits of a domain, where no option says otherwise.
const (
	defaultQueue   = 1024
	defaultPrivate = 252 // iWARP's neighbourhood; code that fits here fits there
	defaultReads   = 16
	maxReads       = 128
	maxMessage     = 1 << 30
	defaultSetup   = 5 * time.Second
)

// Name is Scheme.
func (Provider) Name() string { return Scheme }

func (Provider) Probe(context.Context) (verbs.Info, error) {
	return verbs.Info{
		Devices: []verbs.Device{{
			Addrs: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()},
			Caps:  defaultCaps(),
			Note:  "both ends in this process",
		}},
		Options: []verbs.OptionInfo{
			{Key: "queue", Default: strconv.Itoa(defaultQueue), Help: "works posted and not yet completed, 1..65536"},
			{Key: "private", Default: strconv.Itoa(defaultPrivate), Help: "bytes of private data, 0..65535: of a dial, accept and reject alike, or of each, as 56/196/148"},
			{Key: "setup_timeout", Default: defaultSetup.String(), Help: "how long a request may wait for its answer"},
		},
	}, nil
}

func defaultCaps() verbs.Caps {
	return verbs.Caps{
		MaxReads:         maxReads,
		MaxSegs:          1 << 16,
		MaxReadSegs:      1 << 16,
		Queue:            defaultQueue,
		MaxMessage:       maxMessage,
		PrivateDial:      defaultPrivate,
		PrivateAccept:    defaultPrivate,
		PrivateReject:    defaultPrivate,
		MTU:              copySlice,
		Keys:             verbs.KeysRandom,
		Detach:           true,
		RemoteInvalidate: true,
		SendInvalidate:   true,
	}
}

// Open makes a domain whose connections leave from the address local ("": 127.0.0.1,
// or ::1 towards IPv6).
func (Provider) Open(ctx context.Context, local string, options map[string]string) (verbs.Domain, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d, config := &domain{}, qp.Config{Provider: Scheme, Caps: defaultCaps(), Setup: defaultSetup, Linger: -1}
	if local != "" {
		a, err := names.host(local)
		if err != nil {
			return nil, fmt.Errorf("loopback: local address %q: %w", local, err)
		}
		d.local = a
	}
	for k, v := range options {
		if err := set(&config, k, v); err != nil {
			return nil, err
		}
	}
	d.Init(config)
	return d, nil
}

func set(c *qp.Config, key, value string) error {
	bad := func(want string) error {
		return &verbs.OptionError{Provider: Scheme, Key: key, Value: value, Want: want}
	}
	switch key {
	case "queue":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > 65536 {
			return bad("a number from 1 to 65536")
		}
		c.Caps.Queue = n
	case "private":
		parts := strings.Split(value, "/")
		if len(parts) == 1 {
			parts = slices.Repeat(parts, 3)
		}
		to := []*int{&c.Caps.PrivateDial, &c.Caps.PrivateAccept, &c.Caps.PrivateReject}
		for i, p := range parts {
			n, err := strconv.Atoi(p)
			if err != nil || n < 0 || n > 65535 || len(parts) != len(to) {
				return bad("a number from 0 to 65535, or three of them as 56/196/148")
			}
			*to[i] = n
		}
	case "setup_timeout":
		t, err := time.ParseDuration(value)
		if err != nil || t <= 0 {
			return bad("a duration above zero, e.g. 5s")
		}
		c.Setup = t
	default:
		return &verbs.OptionError{Provider: Scheme, Key: key, Want: "unknown; there are queue, private and setup_timeout"}
	}
	return nil
}
