package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/providers/iwarp"
	"github.com/rpcrdma/rpcrdma/test/memory"
	"github.com/rpcrdma/rpcrdma/test/octets"
)

// bubbles are fabrics without sockets: silence costs no time there.
var bubbles = []string{"loopback://127.0.0.1:0", "hostile-iwarp://127.0.0.1:0"}

func init() { verbs.Register("hostile-iwarp", iwarp.New(new(memory.Network))) }

// villain is a server that knows verbs and bytes.
type villain struct {
	dom  verbs.Domain
	url  string
	stop func()
}

// script is what it does with the n-th message of a connection.
type script func(r *raw, n int, h *wire.Header, payload []byte)

func beVillain(t *testing.T, url string, private []byte, s script) *villain {
	t.Helper()
	dom, addr := open(t, url)
	at, stop, err := octets.Listen(t, dom, addr, func() octets.Config { return config(private) }, func(p *octets.Peer) { (&raw{p}).follow(s) })
	if err != nil {
		t.Fatal(err)
	}
	return &villain{dom, url[:len(url)-len(addr)] + at, stop}
}

func (v *villain) close() {
	v.stop()
	v.dom.Close()
}

func (r *raw) follow(s script) {
	for n := 0; ; n++ {
		select {
		case m := <-r.In:
			var h wire.Header
			k, err := h.Parse(m.Bytes, wire.ProfileCel04)
			if err != nil && h.Proc <= wire.UpdProp { // others are an extension's
				r.TB.Errorf("our client sent %x: %v", m.Bytes, err)
				return
			}
			s(r, n, &h, m.Bytes[k:])
		case <-r.Gone:
			return
		}
	}
}

// kind is a call that a client of ours makes, with the good answer to it.
type kind struct {
	name   string
	call   func(ctx context.Context, c *rpc.Client, dst []byte) error
	answer func(r *raw, h *wire.Header) []byte
	fields []string // words of the answer behind the four fixed ones (and the two of version 2)
}

var errWrongResult = errors.New("the result is wrong")

var kinds = []kind{
	{"inline reply", func(ctx context.Context, c *rpc.Client, _ []byte) error {
		var got blob
		err := c.Call(ctx, echoProc, blob("x"), &got, rpc.MaxReply(16))
		if err == nil && string(got) != "x" {
			err = errWrongResult
		}
		return err
	}, func(_ *raw, h *wire.Header) []byte {
		return append(enc(octets.ReplyTo(h, 8)), result(h.XID, opaque([]byte("x"))...)...)
	}, []string{"reads", "writes", "reply"}},
	{"result in a Write chunk", func(ctx context.Context, c *rpc.Client, dst []byte) error {
		var got bulk
		err := c.Call(ctx, readProc, howMuch(chunkSize), &got, rpc.Into(dst[:chunkSize]))
		if err == nil && !bytes.Equal(got, pattern(chunkSize)) {
			err = errWrongResult
		}
		return err
	}, func(r *raw, h *wire.Header) []byte {
		r.Write(pattern(chunkSize), h.Writes[0][0])
		a := octets.ReplyTo(h, 8)
		a.Writes[0][0].Length = chunkSize
		return append(enc(a), result(h.XID, word(chunkSize)...)...)
	}, []string{"reads", "writes", "segments", "handle", "length", "offset high", "offset low", "writes end", "reply"}},
	{"long reply", func(ctx context.Context, c *rpc.Client, _ []byte) error {
		var got blob
		err := c.Call(ctx, echoProc, blob("x"), &got, rpc.MaxReply(2*chunkSize))
		if err == nil && !bytes.Equal(got, pattern(chunkSize)) {
			err = errWrongResult
		}
		return err
	}, func(r *raw, h *wire.Header) []byte {
		b := result(h.XID, opaque(pattern(chunkSize))...)
		r.Write(b, h.Reply[0])
		a := octets.ReplyTo(h, 8)
		a.Proc, a.Reply[0].Length = wire.NoMsg, uint32(len(b))
		return enc(a)
	}, []string{"reads", "writes", "reply", "segments", "handle", "length", "offset high", "offset low"}},
}

// end is how a call ended.
type end string

const (
	fineEnd    end = "success"
	badReply   end = "ErrBadReply"
	refusedEnd end = "a refusal"
	timeout    end = "silence"
	lost       end = "the loss of the connection"
	rpcError   end = "an error of RPC or XDR"
)

func endOf(err error) end {
	var te *engine.TransportError
	var lo *transport.LostError
	switch {
	case err == nil:
		return fineEnd
	case errors.Is(err, transport.ErrTimeout):
		return timeout
	case errors.Is(err, engine.ErrBadReply):
		return badReply
	case errors.As(err, &te):
		return refusedEnd
	case errors.As(err, &lo):
		return lost
	}
	return rpcError
}

const margin = 64

// suffer makes one call of k whose answer is changed, then a good one. It tells how the first ended, and checks
// that nothing beside the destination was touched, nor the destination after the call's return.
func suffer(t *testing.T, url string, version uint32, k *kind, change func(r *raw, h *wire.Header, good []byte)) (first end, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := beVillain(t, url, good, func(r *raw, n int, h *wire.Header, _ []byte) {
			if n == 1 {
				change(r, h, k.answer(r, h))
			} else {
				r.Send(k.answer(r, h))
			}
		})
		defer srv.close()
		c, e := rpc.NewClient(srv.url, rpc.WithVersions(1, version), rpc.WithCallTimeout(time.Second), rpc.WithRetransmits(-1))
		if e != nil {
			t.Fatal(e)
		}
		defer c.Close()
		area := bytes.Repeat([]byte{0x5c}, 2*margin+2*chunkSize)
		dst := area[margin : margin+2*chunkSize]
		ctx := context.Background()
		for n := range 3 {
			e := k.call(ctx, c, dst)
			if n == 1 {
				first, err = endOf(e), e
				clear(dst)
				time.Sleep(time.Second)
				if bytes.ContainsFunc(dst, func(r rune) bool { return r != 0 }) {
					t.Error("the destination was written after the call had returned")
				}
			} else if e != nil {
				t.Errorf("call %d, a good one: %v", n, e)
			}
		}
		if rest := bytes.Trim(append(bytes.Clone(area[:margin]), area[margin+2*chunkSize:]...), "\x5c"); len(rest) > 0 {
			t.Error("memory beside the destination was written")
		}
		// A call that nobody answers keeps its credit while the connection lives (RFC 8166 §3.3.1).
		if n := c.Counters().Outstanding; n > 1 || n == 1 && first != timeout {
			t.Errorf("%d calls are outstanding", n)
		}
	})
	return first, err
}

func TestRepliesCut(t *testing.T) {
	for _, url := range bubbles {
		for v := uint32(1); v <= 2; v++ {
			for i := range kinds {
				k := &kinds[i]
				t.Run(fmt.Sprintf("%.8s, version %d, %s", url, v, k.name), func(t *testing.T) {
					size := 200
					for n := 0; n < size; n++ {
						got, err := suffer(t, url, v, k, func(r *raw, _ *wire.Header, good []byte) {
							size = len(good)
							r.Send(good[:min(n, len(good))])
						})
						if n < size && got == fineEnd {
							t.Errorf("%d of %d bytes are taken for a reply", n, size)
						}
						if got == lost {
							t.Errorf("%d of %d bytes end the connection: %v", n, size, err)
						}
					}
				})
			}
		}
	}
}

func TestReplyFields(t *testing.T) {
	for _, url := range bubbles {
		for v := uint32(1); v <= 2; v++ {
			for i := range kinds {
				k := &kinds[i]
				names := []string{"xid", "version", "credit", "procedure"}
				if v == 2 {
					names = append(names, "direction", "inv_handle")
				}
				for i, name := range append(names, k.fields...) {
					t.Run(fmt.Sprintf("%.8s, version %d, %s, %s", url, v, k.name, name), func(t *testing.T) {
						for _, x := range extremes {
							var was uint32
							got, err := suffer(t, url, v, k, func(r *raw, _ *wire.Header, good []byte) {
								was = wordAt(good, i)
								r.Send(spoil(good, i, x))
							})
							want := wantOf(k, name, was, x)
							if want == timeout && got == badReply && structural[name] {
								continue // what follows happens to be readable
							}
							if got != want {
								t.Errorf("%s = %#x, instead of %#x: %s (%v), want %s", name, x, was, got, err, want)
							}
						}
					})
				}
			}
		}
	}
}

// structural are the words that say what follows them.
var structural = map[string]bool{"procedure": true, "reads": true, "writes": true, "segments": true, "writes end": true, "reply": true}

// wantOf is how a call ends whose reply says x where was was.
func wantOf(k *kind, name string, was, x uint32) end {
	if x == was {
		return fineEnd
	}
	switch name {
	case "credit", "inv_handle": // D-11, D-25
		return fineEnd
	case "xid", "version": // of no call of ours, of no version of ours
		return timeout
	case "procedure":
		return timeout
	case "direction":
		return timeout
	case "handle", "offset high", "offset low":
		return badReply // not what was offered
	case "length":
		if x < was && k.name == "result in a Write chunk" {
			return rpcError // the header is good, the result says that it has more
		}
		return badReply
	}
	return timeout // a header that cannot be read is dropped (RFC 8166 §4.5)
}
