package mpa

import (
	"encoding/binary"
	"hash/crc32"
)

// An FPDU is  length (2) | ULPDU | pad (0..3) | CRC (4).  The length counts the
// ULPDU only; pad makes length, ULPDU and pad a multiple of four (RFC 5044 §4.1).
const (
	LengthLen = 2
	CRCLen    = 4
	MaxULPDU  = 1<<16 - 1
	// MaxFPDU is the longest frame that can arrive: 65535 rounds up with 3 bytes of pad.
	MaxFPDU = LengthLen + MaxULPDU + 3 + CRCLen
)

// Pad is the number of pad bytes behind a ULPDU of n bytes.
func Pad(n int) int { return -(LengthLen + n) & 3 }

// FPDULen is the length of the frame around a ULPDU of n bytes.
func FPDULen(n int) int { return LengthLen + n + Pad(n) + CRCLen }

// ULPDULen reads the length field at the head of a frame.
func ULPDULen(b []byte) int { return int(binary.BigEndian.Uint16(b)) }

// MULPDU is the longest ULPDU whose frame fits one TCP segment of mss bytes
// (RFC 5044 §4.1), such that the frame needs no pad.
func MULPDU(mss int) int {
	n := min(mss-CRCLen, LengthLen+MaxULPDU)
	return n&^3 - LengthLen
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum continues the CRC32c sum over b; it starts at 0.
func Sum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }

// AppendCRC appends sum as it stands on the wire. RFC 5044 §4.4 orders the bits as
// iSCSI does, and every implementation stores the value least significant octet first.
func AppendCRC(b []byte, sum uint32) []byte { return binary.LittleEndian.AppendUint32(b, sum) }

// CRC reads the field at the end of a frame.
func CRC(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
