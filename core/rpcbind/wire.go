package rpcbind

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Program is rpcbind's own number, Port where it listens, Socket where on its own machine (Linux).
const (
	Program = 100000
	Port    = 111
	Socket  = "/run/rpcbind.sock"
)

// Procedures (RFC 1833 §2.1, §3.1). Those of version 2 have the same numbers, with other arguments.
const (
	procSet     = 1
	procUnset   = 2
	procGetAddr = 3 // version 2: GETPORT
	procDump    = 4
)

// Network identifiers (RFC 5665 §5.1; RFC 8166 §9 for RDMA).
const (
	TCP   = "tcp"
	TCP6  = "tcp6"
	UDP   = "udp"
	RDMA  = "rdma"
	RDMA6 = "rdma6"
)

// Bounds; RFC 1833 has none.
const (
	maxNetid    = 64
	maxAddr     = 256 // a universal address; of local transports it is a path
	maxOwner    = 256
	maxMappings = 4096
	maxRecord   = 1 << 20 // of a reply
)

// Mapping is where a program is to be found: struct rpcb.
type Mapping struct {
	Program, Version uint32
	Netid            string
	Addr             string // a universal address, as UniversalAddr makes it
	Owner            string // set by rpcbind
}

func (m Mapping) String() string {
	return fmt.Sprintf("program %d version %d on %s at %s", m.Program, m.Version, m.Netid, m.Addr)
}

// MarshalXDR implements xdr.Marshaler.
func (m *Mapping) MarshalXDR(w *xdr.Writer) {
	w.Uint32(m.Program)
	w.Uint32(m.Version)
	w.String(m.Netid)
	w.String(m.Addr)
	w.String(m.Owner)
}

// UnmarshalXDR implements xdr.Unmarshaler.
func (m *Mapping) UnmarshalXDR(r *xdr.Reader) {
	m.Program = r.Uint32()
	m.Version = r.Uint32()
	m.Netid = r.String(maxNetid)
	m.Addr = r.String(maxAddr)
	m.Owner = r.String(maxOwner)
}

// mappings is rpcblist, the result of DUMP.
type mappings []Mapping

func (l mappings) MarshalXDR(w *xdr.Writer) {
	for i := range l {
		w.Bool(true)
		l[i].MarshalXDR(w)
	}
	w.Bool(false)
}

func (l *mappings) UnmarshalXDR(r *xdr.Reader) {
	for r.Bool() {
		if len(*l) >= maxMappings {
			r.Fail(xdr.ErrBounds)
			return
		}
		var m Mapping
		m.UnmarshalXDR(r)
		*l = append(*l, m)
	}
}

// Transports of version 2's mappings.
const (
	protoTCP = 6
	protoUDP = 17
)

// pmap is version 2's struct mapping: TCP and UDP over IPv4, and a port.
type pmap struct{ program, version, proto, port uint32 }

func (m *pmap) MarshalXDR(w *xdr.Writer) {
	w.Uint32(m.program)
	w.Uint32(m.version)
	w.Uint32(m.proto)
	w.Uint32(m.port)
}

func (m *pmap) UnmarshalXDR(r *xdr.Reader) {
	m.program, m.version, m.proto, m.port = r.Uint32(), r.Uint32(), r.Uint32(), r.Uint32()
}

// mapping is m as version 3 has it; false where it is none: another transport, no port.
func (m *pmap) mapping() (Mapping, bool) {
	netid := map[uint32]string{protoTCP: TCP, protoUDP: UDP}[m.proto]
	if netid == "" || m.port == 0 || m.port > 65535 {
		return Mapping{}, false
	}
	any4 := netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(m.port))
	return Mapping{Program: m.program, Version: m.version, Netid: netid, Addr: UniversalAddr(any4)}, true
}

// pmaps is pmaplist, the result of version 2's DUMP.
type pmaps []pmap

func (l pmaps) MarshalXDR(w *xdr.Writer) {
	for i := range l {
		w.Bool(true)
		l[i].MarshalXDR(w)
	}
	w.Bool(false)
}

func (l *pmaps) UnmarshalXDR(r *xdr.Reader) {
	for r.Bool() {
		if len(*l) >= maxMappings {
			r.Fail(xdr.ErrBounds)
			return
		}
		var m pmap
		m.UnmarshalXDR(r)
		*l = append(*l, m)
	}
}

// word and text are single results and arguments.
type word uint32

func (v word) MarshalXDR(w *xdr.Writer)    { w.Uint32(uint32(v)) }
func (v *word) UnmarshalXDR(r *xdr.Reader) { *v = word(r.Uint32()) }

type flag bool

func (v flag) MarshalXDR(w *xdr.Writer)    { w.Bool(bool(v)) }
func (v *flag) UnmarshalXDR(r *xdr.Reader) { *v = flag(r.Bool()) }

type text string

func (v text) MarshalXDR(w *xdr.Writer)    { w.String(string(v)) }
func (v *text) UnmarshalXDR(r *xdr.Reader) { *v = text(r.String(maxAddr)) }

// UniversalAddr writes an address as RFC 5665 §5.2.3 has it: "192.0.2.1.78.81", "2001:db8::1.78.81".
// Scopes are not part of it.
func UniversalAddr(a netip.AddrPort) string {
	return fmt.Sprintf("%s.%d.%d", a.Addr().Unmap().WithZone(""), a.Port()>>8, a.Port()&0xff)
}

var errUniversal = errors.New("no universal address of IPv4 or IPv6")

// ParseUniversalAddr reads one.
func ParseUniversalAddr(s string) (netip.AddrPort, error) {
	bad := func() (netip.AddrPort, error) {
		return netip.AddrPort{}, fmt.Errorf("rpcbind: %q: %w", s, errUniversal)
	}
	rest, low, ok := cutLast(s)
	if !ok {
		return bad()
	}
	host, high, ok := cutLast(rest)
	if !ok {
		return bad()
	}
	h, err1 := strconv.ParseUint(high, 10, 8)
	l, err2 := strconv.ParseUint(low, 10, 8)
	a, err3 := netip.ParseAddr(host)
	if err := errors.Join(err1, err2, err3); err != nil || a.Zone() != "" {
		return bad()
	}
	return netip.AddrPortFrom(a, uint16(h<<8|l)), nil
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// NetidFor is the netid of an address on TCP or on RDMA.
func NetidFor(a netip.Addr, rdma bool) string {
	switch six := !a.Unmap().Is4(); {
	case rdma && six:
		return RDMA6
	case rdma:
		return RDMA
	case six:
		return TCP6
	}
	return TCP
}
