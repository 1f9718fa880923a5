package chunk

import "github.com/rpcrdma/rpcrdma/core/xdr"

// Part is a run of a message's bytes: N bytes of the encoded stream from Off, or, with
// Bulk >= 0, of that bulk item. Pad zero bytes follow it.
type Part struct {
	Bulk   int // index into the Writer's Bulk, or -1
	Off, N int
	Pad    int // 0..3
}

// Bytes is the part's run of msg, without the pad.
func (p Part) Bytes(msg *xdr.Writer) []byte {
	if p.Bulk < 0 {
		return msg.Bytes()[p.Off : p.Off+p.N]
	}
	return msg.Bulk()[p.Bulk].Data[p.Off : p.Off+p.N]
}

// appendParts appends msg's stream without the moved items, which are in order, and
// tells its length. The round-up of a moved item leaves the stream with it (RFC 8166
// §3.4.4.4); that of an item in place stays, in a long message too (§3.5.3).
func appendParts(parts []Part, msg *xdr.Writer, moved []int) ([]Part, int) {
	at, size := 0, len(msg.Bytes())
	for i, it := range msg.Bulk() {
		if len(moved) > 0 && moved[0] == i {
			moved = moved[1:]
			continue
		}
		n := len(it.Data)
		if n == 0 {
			continue
		}
		parts = append(parts, Part{Bulk: -1, Off: at, N: it.Off - at}) // its length word at least
		at = it.Off
		parts = append(parts, Part{Bulk: i, N: n, Pad: pad(n)})
		size += n + pad(n)
	}
	if n := len(msg.Bytes()); n > at {
		parts = append(parts, Part{Bulk: -1, Off: at, N: n - at})
	}
	return parts, size
}

// Range calls f with what makes bytes [off, off+n) of the stream of parts, in order:
// the parts, those at the ends cut. A cut part may have no bytes but pad.
func Range(parts []Part, off, n int, f func(Part)) {
	for _, p := range parts {
		if n <= 0 {
			return
		}
		if size := p.N + p.Pad; off >= size {
			off -= size
			continue
		}
		skip := min(off, p.N)
		p.Off, p.N = p.Off+skip, p.N-skip
		p.Pad -= off - skip
		off = 0
		p.N = min(p.N, n)
		p.Pad = min(p.Pad, n-p.N)
		n -= p.N + p.Pad
		f(p)
	}
}

// GatherRange appends bytes [off, off+n) of the stream of parts to dst.
func GatherRange(dst []byte, msg *xdr.Writer, parts []Part, off, n int) []byte {
	Range(parts, off, n, func(p Part) {
		one := [1]Part{p}
		dst = Gather(dst, msg, one[:])
	})
	return dst
}

// Gather appends the bytes of parts to dst.
func Gather(dst []byte, msg *xdr.Writer, parts []Part) []byte {
	var zeros [3]byte
	for _, p := range parts {
		dst = append(dst, p.Bytes(msg)...)
		dst = append(dst, zeros[:p.Pad]...)
	}
	return dst
}
