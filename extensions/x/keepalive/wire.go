package keepalive

import "encoding/binary"

// Numbers of the protocol; see the package's doc.
const (
	PropertyID = 0xffffff50
	GrantType  = 0xffffff50
)

// infoLen is the bytes of a GRANT's rdma_optinfo.
const infoLen = 4

// appendGrant is the rdma_optinfo of a GRANT.
func appendGrant(b []byte, ask bool) []byte { return binary.BigEndian.AppendUint32(b, word(ask)) }

// parseGrant is false where info is none of a GRANT.
func parseGrant(info []byte) (ask, ok bool) {
	if len(info) != infoLen {
		return false, false
	}
	n := binary.BigEndian.Uint32(info)
	return n == 1, n <= 1
}

func word(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}
