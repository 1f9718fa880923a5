package hostile

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/test/octets"
)

// The program that is attacked, of those for users (RFC 5531 §8.3).
const (
	program   = 0x20000048
	procEcho  = 1 // opaque<> -> opaque<>, inline
	procRead  = 2 // n -> opaque<n>, by a Write chunk
	procWrite = 3 // opaque<> by a Read chunk -> its length
	procSleep = 4 // waits until told
)

var head, result, opaque = octets.Head, octets.Result, octets.Opaque

func enc(h *wire.Header) []byte { return h.Append(nil) }

// call is the RPC message of a call; args is XDR.
func call(xid, proc uint32, args ...byte) []byte { return octets.Call(xid, program, proc, args...) }

func word(ws ...uint32) (b []byte) {
	for _, w := range ws {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

func echo(xid uint32) []byte { return call(xid, procEcho, opaque([]byte("echo"))...) }

// spoil is b with its i-th word changed.
func spoil(b []byte, i int, v uint32) []byte {
	b = bytes.Clone(b)
	binary.BigEndian.PutUint32(b[4*i:], v)
	return b
}

// template is a good call, made for one connection: its chunks are memory of that one.
type template struct {
	name  string
	bytes func(r *raw, xid, version uint32) []byte
	// fields names the words of the header behind the four fixed ones, of each version.
	fields [3][]string
}

// pattern is the bytes of length n that calls carry.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*11 + i>>8)
	}
	return b
}

const chunkSize = 5000 // bytes of what goes by chunks

var templates = []template{
	{"inline call", func(_ *raw, xid, v uint32) []byte {
		return append(enc(head(xid, v, wire.Msg)), echo(xid)...)
	}, [3][]string{
		1: {"reads", "writes", "reply"},
		2: {"direction", "inv_handle", "reads", "writes", "reply"},
	}},
	{"call with a Read chunk", func(r *raw, xid, v uint32) []byte {
		src, s := r.Memory(chunkSize, verbs.RemoteRead)
		copy(src, pattern(chunkSize))
		h := head(xid, v, wire.Msg)
		h.Reads = []wire.ReadSegment{{Position: 44, Segment: s}}
		return append(enc(h), call(xid, procWrite, word(chunkSize)...)...)
	}, [3][]string{
		1: {"reads", "position", "handle", "length", "offset high", "offset low", "reads end", "writes", "reply"},
		2: {"direction", "inv_handle", "reads", "position", "handle", "length", "offset high", "offset low", "reads end", "writes", "reply"},
	}},
	{"call with a Write chunk", func(r *raw, xid, v uint32) []byte {
		_, s := r.Memory(chunkSize, verbs.RemoteWrite)
		h := head(xid, v, wire.Msg)
		h.Writes = []wire.Chunk{{s}}
		return append(enc(h), call(xid, procRead, word(chunkSize)...)...)
	}, [3][]string{
		1: {"reads", "writes", "segments", "handle", "length", "offset high", "offset low", "writes end", "reply"},
		2: {"direction", "inv_handle", "reads", "writes", "segments", "handle", "length", "offset high", "offset low", "writes end", "reply"},
	}},
	{"long call, long reply", func(r *raw, xid, v uint32) []byte {
		whole := call(xid, procEcho, opaque(pattern(chunkSize))...)
		src, s := r.Memory(len(whole), verbs.RemoteRead)
		copy(src, whole)
		_, d := r.Memory(2*chunkSize, verbs.RemoteWrite)
		h := head(xid, v, wire.NoMsg)
		h.Reads = []wire.ReadSegment{{Segment: s}}
		h.Reply, h.HasReply = wire.Chunk{d}, true
		return enc(h)
	}, [3][]string{
		1: {"reads", "position", "handle", "length", "offset high", "offset low", "reads end", "writes", "reply",
			"segments", "reply handle", "reply length", "reply offset high", "reply offset low"},
		2: {"direction", "inv_handle", "reads", "position", "handle", "length", "offset high", "offset low", "reads end", "writes", "reply",
			"segments", "reply handle", "reply length", "reply offset high", "reply offset low"},
	}},
}

// outcome is what follows a message.
type outcome struct {
	kind outcomeKind
	err  wire.ErrorBody // of refused
	stat uint32         // of answered
}

type outcomeKind uint8

const (
	silent   outcomeKind = iota // nothing comes
	refused                     // RDMA_ERROR
	answered                    // an RPC reply
	ended                       // the connection is gone
)

func (o outcome) String() string {
	switch o.kind {
	case silent:
		return "silence"
	case refused:
		return fmt.Sprintf("the error %+v", o.err)
	case answered:
		return fmt.Sprintf("an answer of RPC, %d", o.stat)
	}
	return "the end of the connection"
}

// Results of an RPC reply beside accept_stat.
const denied = 1 << 31

// classify tells what m is as the answer to the call xid of version.
func classify(m []byte, xid, version uint32) (outcome, error) {
	var h wire.Header
	n, err := h.Parse(m, wire.ProfileCel04)
	if err == nil {
		err = h.Check()
	}
	switch {
	case err != nil:
		return outcome{}, fmt.Errorf("%x: %w", m, err)
	case h.XID != xid || h.Version != version:
		return outcome{}, fmt.Errorf("%x answers XID %#x of version %d, want %#x of %d", m, h.XID, h.Version, xid, version)
	case h.Credit == 0:
		return outcome{}, fmt.Errorf("%x grants no credit (RFC 8166 §3.3.1)", m)
	case h.Proc == wire.ErrorMsg:
		return outcome{kind: refused, err: h.Err}, nil
	case h.Proc == wire.NoMsg:
		return outcome{kind: answered}, nil
	}
	var rh rpcmsg.ReplyHeader
	if err := rh.Parse(xdr.NewReader(m[n:])); err != nil {
		return outcome{}, fmt.Errorf("%x: %w", m, err)
	}
	if rh.Stat == rpcmsg.Denied {
		return outcome{kind: answered, stat: denied}, nil
	}
	return outcome{kind: answered, stat: uint32(rh.Accept)}, nil
}

func wordAt(b []byte, i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
