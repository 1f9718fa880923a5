package rpc_test

import (
	"bytes"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/test/octets"
)

// raw is a peer that knows verbs and octets only: it sends what no engine would.
type raw struct{ *octets.Peer }

func rawConfig() octets.Config {
	return octets.Config{Private: octets.Private(), Receives: 200, Size: 16 << 10, Out: 8 << 20, Patience: time.Minute}
}

// rawDial connects to a server of ours.
func rawDial(t testing.TB, target string) *raw {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	over := "loopback" // what the wrappers of it are servers on, too
	if strings.HasPrefix(u.Scheme, "iwarp") {
		over = u.Scheme
	}
	return &raw{octets.Dial(t, octets.Open(t, over), u.Host, rawConfig())}
}

func (r *raw) send(parts ...[]byte) {
	r.TB.Helper()
	if err := r.Send(parts...); err != nil {
		r.TB.Errorf("post: %v", err)
	}
}

var head, reply, result, opaque = octets.Head, octets.ReplyTo, octets.Result, octets.Opaque

func enc(h *wire.Header) []byte { return h.Append(nil) }

// call is the RPC message of a call; args is XDR.
func call(xid, proc uint32, args ...byte) []byte { return octets.Call(xid, program, proc, args...) }

func word(n uint32) []byte {
	var w xdr.Writer
	w.Uint32(n)
	return bytes.Clone(w.Bytes())
}

// good calls ECHO and expects its reply to be what comes next.
func (r *raw) good(xid, version uint32) {
	r.TB.Helper()
	r.send(enc(head(xid, version, wire.Msg)), call(xid, 1, opaque([]byte("good"))...))
	h, payload, _ := r.Parsed()
	if h.XID != xid || h.Version != version || h.Proc != wire.Msg || !bytes.Equal(payload, result(xid, opaque([]byte("good"))...)) {
		r.TB.Fatalf("a good call of version %d was answered by %+v, %x", version, h, payload)
	}
	if h.Credit == 0 {
		r.TB.Error("a grant of 0")
	}
}
