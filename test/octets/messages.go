package octets

import (
	"bytes"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// Private is private data as our own ends send it (RFC 8797 §4).
func Private() []byte {
	return wire.PrivateData{RemoteInvalidate: true, SendSize: 4096, RecvSize: 4096}.Append(nil)
}

// Head is a transport header without chunks.
func Head(xid, version uint32, p wire.Proc) *wire.Header {
	return &wire.Header{XID: xid, Version: version, Credit: 32, Proc: p}
}

// ReplyTo is the header of a good reply to a call with header h: the chunks unused.
func ReplyTo(h *wire.Header, credit uint32) *wire.Header {
	a := &wire.Header{XID: h.XID, Version: h.Version, Credit: credit, Proc: wire.Msg, Direction: wire.Reply}
	for _, c := range h.Writes {
		a.Writes = append(a.Writes, Unused(c))
	}
	a.Reply, a.HasReply = Unused(h.Reply), h.HasReply
	return a
}

// Unused is a chunk of which nothing was used.
func Unused(c wire.Chunk) (u wire.Chunk) {
	for _, s := range c {
		s.Length = 0
		u = append(u, s)
	}
	return u
}

// Call is the RPC message of a call of a program's version 1; args is XDR.
func Call(xid, program, proc uint32, args ...byte) []byte {
	var w xdr.Writer
	h := rpcmsg.CallHeader{XID: xid, Program: program, Version: 1, Proc: proc}
	h.Append(&w)
	return append(bytes.Clone(w.Bytes()), args...)
}

// Result is the RPC message of a reply with success.
func Result(xid uint32, results ...byte) []byte {
	var w xdr.Writer
	h := rpcmsg.ReplyHeader{XID: xid}
	h.Append(&w)
	return append(bytes.Clone(w.Bytes()), results...)
}

// Opaque is opaque<> as XDR.
func Opaque(b []byte) []byte {
	var w xdr.Writer
	w.Opaque(b)
	return bytes.Clone(w.Bytes())
}
