//go:build unix

// Package unixsock is the provider "unixsock": RDMA in software between processes of one machine, over
// Unix domain sockets. It is an example for authors of providers, which docs/providers.md explains, and complete:
// it passes test/providertest.
//
// An address is "host:port". The host has no meaning; the port names a socket in the directory that is Open's
// local, by default that of temporary files.
package unixsock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/soft/qp"
)

// Name is the provider's name and URL scheme.
const Name = "unixsock"

func init() { verbs.Register(Name, Provider{}) }

// Provider is the provider. Its values are all alike.
type Provider struct{}

var caps = verbs.Caps{
	MaxReads: 64, MaxSegs: 1 << 16, MaxReadSegs: 1 << 16, Queue: 1024, MaxMessage: 1 << 30, MTU: maxPiece,
	PrivateDial: maxPrivate, PrivateAccept: maxPrivate, PrivateReject: maxPrivate,
	Keys: verbs.KeysRandom, Detach: true, RemoteInvalidate: true, SendInvalidate: true,
}

// Name implements verbs.Provider, as all that follows.
func (Provider) Name() string { return Name }

func (Provider) Probe(context.Context) (verbs.Info, error) {
	return verbs.Info{
		Devices: []verbs.Device{{Addrs: []netip.Addr{host}, Caps: caps, Note: "Unix domain sockets of this machine"}},
		Options: []verbs.OptionInfo{{Key: "setup", Default: "5s", Help: "the set-up time-out"}},
	}, nil
}

func (Provider) Open(_ context.Context, local string, options map[string]string) (verbs.Domain, error) {
	config := qp.Config{Provider: Name, Caps: caps, Setup: 5 * time.Second, Linger: 2 * time.Second}
	for key, value := range options {
		t, err := time.ParseDuration(value)
		switch {
		case key != "setup":
			return nil, &verbs.OptionError{Provider: Name, Key: key, Want: "unknown; there is setup"}
		case err != nil || t <= 0:
			return nil, &verbs.OptionError{Provider: Name, Key: key, Value: value, Want: "a duration above zero, e.g. 5s"}
		}
		config.Setup = t
	}
	if local == "" {
		local = os.TempDir()
	}
	return qp.NewStreams(config, directory(local)), nil
}

// directory is where the sockets are: a qp.Fabric.
type directory string

// host is every peer's address: there is no other machine.
var host = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// locate is the address that addr names, and its socket.
func (d directory) locate(addr string) (netip.AddrPort, string, error) {
	_, p, err := net.SplitHostPort(addr)
	if err != nil {
		return netip.AddrPort{}, "", err
	}
	port, err := strconv.ParseUint(p, 10, 16)
	return netip.AddrPortFrom(host, uint16(port)), filepath.Join(string(d), fmt.Sprintf("%s-%d.sock", Name, port)), err
}

// NewConn implements qp.Fabric, as all that follows.
func (directory) NewConn() qp.StreamConn[struct{}] { return new(conn) }

func (d directory) Reach(ctx context.Context, addr string) (sock net.Conn, local, remote netip.AddrPort, err error) {
	remote, path, err := d.locate(addr)
	if err == nil {
		sock, err = new(net.Dialer).DialContext(ctx, "unix", path)
	}
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w: %w", verbs.ErrUnreachable, err)
	}
	return sock, d.Peer(nil), remote, err
}

func (d directory) Bind(ctx context.Context, addr string) (net.Listener, netip.AddrPort, error) {
	at, path, err := d.locate(addr)
	if err != nil {
		return nil, at, err
	}
	for at.Port() == 0 { // choose one
		l, at, err := d.Bind(ctx, fmt.Sprintf(":%d", 1024+rand.IntN(1<<16-1024)))
		if !errors.Is(err, syscall.EADDRINUSE) {
			return l, at, err
		}
	}
	l, err := net.Listen("unix", path)
	return l, at, err
}

// Peer is a dialler: it has no port.
func (directory) Peer(net.Conn) netip.AddrPort { return netip.AddrPortFrom(host, 0) }
