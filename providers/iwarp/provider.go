package iwarp

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
)

// Name is the provider's name and its URL scheme.
const Name = "iwarp"

func init() { verbs.Register(Name, New(nil)) }

// provider is what New returns.
type provider struct {
	net stream.Network // nil: TCP, as the options say
}

// New is the provider over another network than TCP, for tests and simulations; the
// socket options then mean nothing. nil is TCP.
func New(n stream.Network) verbs.Provider { return &provider{net: n} }

func (*provider) Name() string { return Name }

// Probe lists this machine's addresses as one device: any of them will do.
func (p *provider) Probe(context.Context) (verbs.Info, error) {
	o := defaults()
	info := verbs.Info{Options: optionInfo()}
	dev := verbs.Device{Caps: o.caps(), Note: "user-space MPA/DDP/RDMAP on TCP"}
	if p.net == nil {
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return verbs.Info{}, fmt.Errorf("iwarp: this machine's addresses: %w", err)
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(n.IP); ok {
					dev.Addrs = append(dev.Addrs, ip.Unmap())
				}
			}
		}
	}
	info.Devices = []verbs.Device{dev}
	return info, nil
}

// Open makes a domain. local is a source address for Dial and what Listen binds where
// its own address names no host.
func (p *provider) Open(_ context.Context, local string, options map[string]string) (verbs.Domain, error) {
	o, err := parseOptions(options)
	if err != nil {
		return nil, err
	}
	if local != "" {
		ip, err := netip.ParseAddr(local)
		if err != nil {
			return nil, &verbs.OptionError{Provider: "iwarp", Key: "local", Value: local, Want: "an IP address of this machine"}
		}
		local = ip.Unmap().String()
	}
	n := p.net
	if n == nil {
		n = stream.TCP{NoDelay: o.noDelay, SendBuf: o.sendBuf, RecvBuf: o.recvBuf, Thread: o.thread, Spin: o.spin}
	}
	return newDomain(n, local, o), nil
}
