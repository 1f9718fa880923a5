package capture

import (
	"encoding/binary"
	"net/netip"
)

// stream makes up the TCP connection that a pair of addresses would show: both sides'
// sequence numbers, a handshake, no loss.
type stream struct {
	local, remote netip.AddrPort
	sent, rcvd    uint32 // next sequence numbers
}

const (
	flagFIN = 0x01
	flagSYN = 0x02
	flagPSH = 0x08
	flagACK = 0x10

	protoTCP = 6
	tcpLen   = 20
	mss      = 60000 // of our making: an IP packet counts its bytes in 16 bits
)

// headers are the IP and TCP headers of a segment; the sequence numbers move on by what
// it takes.
func (s *stream) headers(sent bool, flags byte, payload ...[]byte) []byte {
	src, dst, seq, ack := s.local, s.remote, &s.sent, s.rcvd
	if !sent {
		src, dst, seq, ack = s.remote, s.local, &s.rcvd, s.sent
	}
	n := 0
	for _, p := range payload {
		n += len(p)
	}
	ip := ipHeader(src.Addr(), dst.Addr(), tcpLen+n)
	h := append(ip, make([]byte, tcpLen)...)
	tcp := h[len(ip):]
	binary.BigEndian.PutUint16(tcp, src.Port())
	binary.BigEndian.PutUint16(tcp[2:], dst.Port())
	binary.BigEndian.PutUint32(tcp[4:], *seq)
	if flags&flagACK != 0 {
		binary.BigEndian.PutUint32(tcp[8:], ack)
	}
	tcp[12], tcp[13] = tcpLen/4<<4, flags
	binary.BigEndian.PutUint16(tcp[14:], 0xffff)
	binary.BigEndian.PutUint16(tcp[16:], tcpChecksum(src.Addr(), dst.Addr(), tcp, payload))
	*seq += uint32(n)
	if flags&(flagSYN|flagFIN) != 0 {
		*seq++
	}
	return h
}

func ipHeader(src, dst netip.Addr, n int) []byte {
	if src.Is4() {
		h := make([]byte, 20)
		h[0], h[8], h[9] = 0x45, 64, protoTCP
		binary.BigEndian.PutUint16(h[2:], uint16(20+n))
		copy(h[12:], src.AsSlice())
		copy(h[16:], dst.AsSlice())
		var c checksum
		c.add(h)
		binary.BigEndian.PutUint16(h[10:], c.fold())
		return h
	}
	h := make([]byte, 40)
	h[0], h[6], h[7] = 0x60, protoTCP, 64
	binary.BigEndian.PutUint16(h[4:], uint16(n))
	copy(h[8:], src.AsSlice())
	copy(h[24:], dst.AsSlice())
	return h
}

func tcpChecksum(src, dst netip.Addr, tcp []byte, payload [][]byte) uint16 {
	n := len(tcp)
	for _, p := range payload {
		n += len(p)
	}
	var c checksum
	c.add(src.AsSlice())
	c.add(dst.AsSlice())
	c.add([]byte{0, protoTCP, 0, byte(n >> 16), byte(n >> 8), byte(n)})
	c.add(tcp)
	for _, p := range payload {
		c.add(p)
	}
	return c.fold()
}

// checksum is the Internet checksum over parts of any length (RFC 1071).
type checksum struct {
	sum uint64
	odd bool
}

func (c *checksum) add(b []byte) {
	if c.odd && len(b) > 0 {
		c.sum += uint64(b[0])
		b, c.odd = b[1:], false
	}
	for ; len(b) > 1; b = b[2:] {
		c.sum += uint64(b[0])<<8 | uint64(b[1])
	}
	if len(b) > 0 {
		c.sum += uint64(b[0]) << 8
		c.odd = true
	}
}

func (c *checksum) fold() uint16 {
	s := c.sum
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return ^uint16(s)
}
