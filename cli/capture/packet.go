package capture

import (
	"encoding/binary"
	"net/netip"
)

// segment is a TCP segment.
type segment struct {
	src, dst netip.AddrPort
	seq      uint32
	flags    byte
	payload  []byte
}

const (
	flagRST = 0x04

	linkNull     = 0
	linkEthernet = 1
	linkSLL      = 113
	linkIPv4     = 228
	linkIPv6     = 229
	linkSLL2     = 276
)

// network takes the link layer off.
func network(p Packet) []byte {
	b := p.Data
	var kind uint16
	switch p.Link {
	case linkRaw, linkIPv4, linkIPv6:
		return b
	case linkNull:
		if len(b) < 4 {
			return nil
		}
		return b[4:] // the version field tells the family as well
	case linkEthernet:
		if len(b) < 14 {
			return nil
		}
		kind, b = binary.BigEndian.Uint16(b[12:]), b[14:]
	case linkSLL:
		if len(b) < 16 {
			return nil
		}
		kind, b = binary.BigEndian.Uint16(b[14:]), b[16:]
	case linkSLL2:
		if len(b) < 20 {
			return nil
		}
		kind, b = binary.BigEndian.Uint16(b), b[20:]
	default:
		return nil
	}
	for (kind == 0x8100 || kind == 0x88a8) && len(b) >= 4 { // VLAN tags
		kind, b = binary.BigEndian.Uint16(b[2:]), b[4:]
	}
	if kind != 0x0800 && kind != 0x86dd {
		return nil
	}
	return b
}

// tcp finds a whole TCP segment in a packet. Fragments are none.
func tcp(p Packet) (s segment, ok bool) {
	b := network(p)
	var src, dst netip.Addr
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		head, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
		if b[9] != protoTCP || binary.BigEndian.Uint16(b[6:])&0x3fff != 0 || head < 20 {
			return s, false
		}
		if total == 0 { // filled in by the card, later
			total = len(b)
		}
		if total < head || total > len(b) {
			return s, false
		}
		src, dst, b = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:])), b[head:total]
	case len(b) >= 40 && b[0]>>4 == 6:
		total := 40 + int(binary.BigEndian.Uint16(b[4:]))
		next := b[6]
		if total == 40 {
			total = len(b)
		}
		if total > len(b) {
			return s, false
		}
		src, dst, b = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:])), b[40:total]
		for next == 0 || next == 43 || next == 60 { // hop-by-hop, routing, destination options
			if len(b) < 8 || len(b) < int(b[1])*8+8 {
				return s, false
			}
			next, b = b[0], b[int(b[1])*8+8:]
		}
		if next != protoTCP {
			return s, false
		}
	default:
		return s, false
	}
	if len(b) < tcpLen {
		return s, false
	}
	head := int(b[12]>>4) * 4
	if head < tcpLen || head > len(b) {
		return s, false
	}
	return segment{netip.AddrPortFrom(src, binary.BigEndian.Uint16(b)), netip.AddrPortFrom(dst, binary.BigEndian.Uint16(b[2:])),
		binary.BigEndian.Uint32(b[4:]), b[13], b[head:]}, true
}
