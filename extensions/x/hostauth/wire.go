package hostauth

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Numbers of the protocol; see the package's doc.
const (
	PropertyID = 0xffffff58

	nonceLen = 32
	macLen   = sha256.Size
	maxID    = 64
	maxLen   = 128 // of the property's octets
)

// step is what a value of the property is.
type step uint32

const (
	stepHello step = 1
	stepProof step = 2
)

// Bind says what a proof is bound to beside the nonces.
type Bind uint32

const (
	Unbound   Bind = 0
	Addresses Bind = 1 // the addresses and ports of both sides
)

func (b Bind) String() string {
	switch b {
	case Unbound:
		return "none"
	case Addresses:
		return "addresses"
	}
	return fmt.Sprintf("%d", uint32(b))
}

// message is a value of the property.
type message struct {
	step  step
	nonce [nonceLen]byte
	bind  Bind
	key   string
	mac   [macLen]byte
}

// octets are m as a hostauth; value is that as the opaque<> of rdma_data.
func (m *message) octets() []byte {
	var w xdr.Writer
	w.Uint32(uint32(m.step))
	if m.step == stepProof {
		w.Fixed(m.mac[:])
		return w.Bytes()
	}
	w.Fixed(m.nonce[:])
	w.Uint32(uint32(m.bind))
	w.String(m.key)
	return w.Bytes()
}

func (m *message) value() []byte {
	var w xdr.Writer
	w.Opaque(m.octets())
	return w.Bytes()
}

// parse reads a value of the property, and gives its octets, too.
func parse(value []byte) (m message, octets []byte, err error) {
	r := xdr.NewReader(value)
	octets = r.Opaque(maxLen)
	if err := r.Done(); err != nil {
		return m, nil, err
	}
	r = xdr.NewReader(octets)
	switch m.step = step(r.Uint32()); m.step {
	case stepHello:
		copy(m.nonce[:], r.FixedView(nonceLen))
		m.bind = Bind(r.Uint32())
		m.key = r.String(maxID)
		if m.bind > Addresses {
			r.Fail(fmt.Errorf("binding %d", m.bind))
		}
	case stepProof:
		copy(m.mac[:], r.FixedView(macLen))
	default:
		r.Fail(errors.New("neither a hello nor a proof"))
	}
	if err := r.Done(); err != nil {
		return message{}, nil, err
	}
	return m, octets, nil
}

const (
	labelClient = "rpcrdma hostauth 1 client"
	labelServer = "rpcrdma hostauth 1 server"
)

// signed is what the two sides of a connection sign.
type signed struct {
	client, server []byte // their hellos
	addresses      []byte
}

func (s *signed) mac(key []byte, label string, clientMAC []byte) (sum [macLen]byte) {
	var w xdr.Writer
	w.String(label)
	w.Opaque(s.client)
	w.Opaque(s.server)
	w.Opaque(s.addresses)
	w.Opaque(clientMAC)
	h := hmac.New(sha256.New, key)
	h.Write(w.Bytes())
	h.Sum(sum[:0])
	return sum
}

// byClient and byServer are the two MACs.
func (s *signed) byClient(key []byte) [macLen]byte { return s.mac(key, labelClient, nil) }

func (s *signed) byServer(key []byte, client [macLen]byte) [macLen]byte {
	return s.mac(key, labelServer, client[:])
}

// same compares in constant time.
func same(a, b [macLen]byte) bool { return hmac.Equal(a[:], b[:]) }

// addresses are those of a client and a server, to be signed.
func addresses(client, server netip.AddrPort) (b []byte) {
	for _, a := range []netip.AddrPort{client, server} {
		ip := a.Addr().As16()
		b = append(b, ip[:]...)
		b = append(b, byte(a.Port()>>8), byte(a.Port()))
	}
	return b
}
