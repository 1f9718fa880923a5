package capture

import (
	"encoding/binary"
	"time"
)

// Blocks of draft-ietf-opsawg-pcapng; we write them little-endian.
const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockSimple    = 3
	blockPacket    = 6

	byteOrder    = 0x1a2b3c4d
	linkRaw      = 101 // LINKTYPE_RAW: IPv4 or IPv6
	optionEnd    = 0
	optionTSRes  = 9 // if_tsresol
	nanoseconds  = 9
	optionFlags  = 2 // epb_flags
	flagInbound  = 1
	flagOutbound = 2
)

func u16(b []byte, v uint16) []byte { return binary.LittleEndian.AppendUint16(b, v) }
func u32(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }

// block frames what body appends.
func block(b []byte, kind uint32, body func([]byte) []byte) []byte {
	start := len(b)
	b = u32(u32(b, kind), 0)
	b = body(b)
	n := uint32(len(b) - start + 4)
	binary.LittleEndian.PutUint32(b[start+4:], n)
	return u32(b, n)
}

// fileHeader is a section with one interface.
func fileHeader() []byte {
	b := block(nil, blockSection, func(b []byte) []byte {
		b = u16(u16(u32(b, byteOrder), 1), 0)
		return u32(u32(b, 0xffffffff), 0xffffffff) // length not known
	})
	return block(b, blockInterface, func(b []byte) []byte {
		b = u32(u16(u16(b, linkRaw), 0), 0) // no limit on a packet's length
		b = append(u16(u16(b, optionTSRes), 1), nanoseconds, 0, 0, 0)
		return u16(u16(b, optionEnd), 0)
	})
}

// appendPacket appends a packet whose bytes are the parts put together.
func appendPacket(b []byte, at time.Time, sent bool, parts ...[]byte) []byte {
	return block(b, blockPacket, func(b []byte) []byte {
		n := 0
		for _, p := range parts {
			n += len(p)
		}
		ns := uint64(at.UnixNano())
		b = u32(u32(u32(b, 0), uint32(ns>>32)), uint32(ns))
		b = u32(u32(b, uint32(n)), uint32(n))
		for _, p := range parts {
			b = append(b, p...)
		}
		b = append(b, make([]byte, -n&3)...)
		flags := uint32(flagInbound)
		if sent {
			flags = flagOutbound
		}
		b = u32(u16(u16(b, optionFlags), 4), flags)
		return u16(u16(b, optionEnd), 0)
	})
}
