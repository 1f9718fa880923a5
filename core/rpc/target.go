package rpc

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// DefaultPort is used where a target names none: NFS over RDMA (RFC 8267 §6.3); 2049 for tcp.
const (
	DefaultPort    = "20049"
	defaultTCPPort = "2049"
)

// Target is a parsed address: scheme://host:port/path?local=ADDR&option=value. A Resolver turns it into routes.
type Target struct {
	Scheme  string            // what a Resolver knows: a provider, or "tcp"
	Address string            // host:port
	Local   string            // local address or device; "" lets the provider choose
	Path    string            // with its first slash; "" for none
	Options map[string]string // for the provider
}

// TargetError is an address that cannot be used.
type TargetError struct {
	Target, Problem string
}

func (e *TargetError) Error() string { return fmt.Sprintf("address %q: %s", e.Target, e.Problem) }

// ParseTarget parses s. It checks the syntax; which schemes there are is a Resolver's to know.
func ParseTarget(s string) (Target, error) {
	bad := func(format string, a ...any) (Target, error) {
		return Target{}, &TargetError{s, fmt.Sprintf(format, a...)}
	}
	if scheme, _, ok := strings.Cut(s, "://"); !ok || scheme == "" {
		return bad("want scheme://host:port, such as tcp://host:2049")
	}
	u, err := url.Parse(s)
	if err != nil {
		var bare *url.Error // what it adds is said by TargetError
		if errors.As(err, &bare) {
			err = bare.Err
		}
		return bad("%v", err)
	}
	if u.User != nil || u.Fragment != "" {
		return bad("user names and fragments mean nothing here")
	}
	host, port := u.Hostname(), u.Port()
	if host == "" && port == "" {
		return bad("no host")
	}
	if _, err := strconv.ParseUint(port, 10, 16); port != "" && err != nil {
		return bad("port %q: want 0 to 65535", port)
	} else if port == "" {
		port = DefaultPort
		if u.Scheme == schemeTCP {
			port = defaultTCPPort
		}
	}
	t := Target{Scheme: u.Scheme, Address: net.JoinHostPort(host, port), Path: u.Path}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return bad("%v", err)
	}
	for key, values := range query {
		if len(values) > 1 {
			return bad("option %q is given twice", key)
		}
		if key == "local" {
			t.Local = values[0]
			continue
		}
		if t.Options == nil {
			t.Options = make(map[string]string)
		}
		t.Options[key] = values[0]
	}
	return t, nil
}

func (t Target) String() string { return t.Scheme + "://" + t.Address + t.Path }
