package rpcbind

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// callTime is how long one call may take when its context allows more: rpcbind only looks things up.
const callTime = 10 * time.Second

// ErrNotRegistered: rpcbind answers, and knows no such program on such a network.
var ErrNotRegistered = errors.New("not registered")

// Client is a connection to an rpcbind. It makes one call at a time and is one goroutine's.
type Client struct {
	conn net.Conn
	xid  uint32
}

// DialLocal connects to the rpcbind of this machine by its socket, by which it learns whose
// registrations are: path is Socket, unless it is elsewhere.
func DialLocal(ctx context.Context, path string) (*Client, error) {
	return dial(ctx, "unix", path)
}

// DialTCP connects to the rpcbind of a host.
func DialTCP(ctx context.Context, host string) (*Client, error) {
	return dial(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(Port)))
}

func dial(ctx context.Context, network, address string) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, xid: rand.Uint32()}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// call makes one call. After an error that is not rpcbind's answer the connection is of no more use.
func (c *Client) call(ctx context.Context, version, proc uint32, args xdr.Marshaler, results xdr.Unmarshaler) error {
	c.xid++
	var w xdr.Writer
	h := rpcmsg.CallHeader{XID: c.xid, Program: Program, Version: version, Proc: proc}
	if err := rpcmsg.AppendCall(&w, &h, nil); err != nil {
		return err
	}
	if args != nil {
		args.MarshalXDR(&w)
	}
	if err := w.Err(); err != nil {
		return err
	}
	record, err := c.exchange(ctx, w.AppendUnreduced(rpcmsg.AppendMark(nil, w.Len(), true)))
	if err != nil {
		return fmt.Errorf("rpcbind: %w", err)
	}
	var reply rpcmsg.ReplyHeader
	r := xdr.NewReader(record)
	if err := reply.Parse(r); err != nil {
		return fmt.Errorf("rpcbind: reply: %w", err)
	}
	if err := reply.Err(); err != nil {
		return err
	}
	results.UnmarshalXDR(r)
	if err := r.Done(); err != nil {
		return fmt.Errorf("rpcbind: results: %w", err)
	}
	return nil
}

// exchange sends a record and waits for the reply to it.
func (c *Client) exchange(ctx context.Context, call []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { c.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	record, err := c.wait(call)
	if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		return nil, fmt.Errorf("no answer: %w", context.Cause(ctx))
	}
	return record, err
}

func (c *Client) wait(call []byte) ([]byte, error) {
	if _, err := c.conn.Write(call); err != nil {
		return nil, err
	}
	records := rpcmsg.NewRecords(maxRecord)
	buf := make([]byte, 8<<10)
	for {
		n, err := c.conn.Read(buf)
		for p := buf[:n]; len(p) > 0; {
			record, used, err := records.Feed(p)
			if err != nil {
				return nil, err
			}
			p = p[used:]
			// What is no reply to this call is an earlier one's, that was given up.
			if xid, isReply, ok := rpcmsg.PeekType(record); ok && isReply && xid == c.xid {
				return record, nil
			}
		}
		if err != nil {
			return nil, err
		}
	}
}

// unknown tells that rpcbind has not this version, or not this procedure of it.
func unknown(err error) bool {
	return errors.Is(err, rpcmsg.ErrProgMismatch) || errors.Is(err, rpcmsg.ErrProcUnavail)
}

// Set registers m. False: rpcbind has another address for the same program, version and netid, or takes no
// registrations from here.
func (c *Client) Set(ctx context.Context, m Mapping) (bool, error) {
	var ok flag
	err := c.call(ctx, 4, procSet, &m, &ok)
	if unknown(err) {
		err = c.call(ctx, 3, procSet, &m, &ok)
	}
	return bool(ok), err
}

// Unset removes what is registered for m's program and version on m's netid, or, without a netid, on all;
// whatever its address. False: there was none, or it is somebody else's.
func (c *Client) Unset(ctx context.Context, m Mapping) (bool, error) {
	var ok flag
	err := c.call(ctx, 4, procUnset, &m, &ok)
	if unknown(err) {
		err = c.call(ctx, 3, procUnset, &m, &ok)
	}
	return bool(ok), err
}

// Dump lists all that is registered; from a mere port mapper (version 2), what there is on TCP and UDP over IPv4.
func (c *Client) Dump(ctx context.Context) ([]Mapping, error) {
	for _, version := range []uint32{4, 3} {
		var l mappings
		if err := c.call(ctx, version, procDump, nil, &l); !unknown(err) {
			return l, err
		}
	}
	var old pmaps
	if err := c.call(ctx, 2, procDump, nil, &old); err != nil {
		return nil, err
	}
	var l []Mapping
	for i := range old {
		if m, ok := old[i].mapping(); ok {
			l = append(l, m)
		}
	}
	return l, nil
}

// Lookup is where a program is on a network. An unspecified address is every one of the machine's: the
// caller puts the one that it knows in its place.
func (c *Client) Lookup(ctx context.Context, program, version uint32, netid string) (netip.AddrPort, error) {
	addr, err := c.lookup(ctx, program, version, netid)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if addr == "" {
		return netip.AddrPort{}, fmt.Errorf("program %d version %d on %s: %w", program, version, netid, ErrNotRegistered)
	}
	a, err := ParseUniversalAddr(addr)
	if err == nil && a.Port() == 0 {
		err = fmt.Errorf("program %d version %d on %s is registered with port 0", program, version, netid)
	}
	return a, err
}

func (c *Client) lookup(ctx context.Context, program, version uint32, netid string) (string, error) {
	if netid == c.netid() {
		return c.getAddr(ctx, Mapping{Program: program, Version: version, Netid: netid})
	}
	all, err := c.Dump(ctx)
	if err != nil {
		return "", err
	}
	for _, m := range all {
		if m.Program == program && m.Version == version && m.Netid == netid {
			return m.Addr, nil
		}
	}
	return "", nil
}

// getAddr asks for what is on the transport of this connection. Versions 3 and 4 may answer with another version's
// address; the server then tells.
func (c *Client) getAddr(ctx context.Context, m Mapping) (string, error) {
	for _, version := range []uint32{4, 3} {
		var addr text
		if err := c.call(ctx, version, procGetAddr, &m, &addr); !unknown(err) {
			return string(addr), err
		}
	}
	if m.Netid != TCP {
		return "", nil
	}
	var port word
	if err := c.call(ctx, 2, procGetAddr, &pmap{program: m.Program, version: m.Version, proto: protoTCP}, &port); err != nil || port == 0 {
		return "", err
	}
	if port > 65535 {
		return "", fmt.Errorf("rpcbind: port %d", port)
	}
	return UniversalAddr(netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(port))), nil
}

// netid is that of this connection; "" for the local socket.
func (c *Client) netid() string {
	if a := c.Host(); a.IsValid() {
		return NetidFor(a, false)
	}
	return ""
}

// Host is the address that rpcbind was found at, one of those that its name stands for; the zero Addr for the local socket.
func (c *Client) Host() netip.Addr {
	if a, ok := c.conn.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
