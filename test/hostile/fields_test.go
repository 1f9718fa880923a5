package hostile

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// extremes are what each word of a header is set to.
var extremes = []uint32{0, 1, 2, 3, 5, 0x7fffffff, 0x80000000, 0xfffffffc, 0xffffffff}

var (
	fine    = outcome{kind: answered}
	garbage = outcome{kind: answered, stat: uint32(rpcmsg.GarbageArgs)}
	gone    = outcome{kind: ended}
	nothing = outcome{kind: silent}
)

func refuse(b wire.ErrorBody) outcome { return outcome{kind: refused, err: b} }

// pick is version 1's one error for a bad header (RFC 8166 §4.5.2), and what version 2 has instead.
func pick(version uint32, b wire.ErrorBody) outcome {
	if version == wire.Version1 {
		return refuse(wire.ErrorBody{Code: wire.ErrChunk})
	}
	return refuse(b)
}

func malformed(version uint32) outcome { return pick(version, wire.ErrorBody{Code: wire.ErrBadXDR}) }
func tooMuch(version uint32) outcome   { return pick(version, wire.ErrorBody{Code: wire.ErrSystem}) }

// unknowable is a message without the two words that say whether it is a call: version 1 has no other place
// that does, and Linux drops it as well.
func unknowable(version uint32) outcome {
	if version == wire.Version1 {
		return nothing
	}
	return malformed(version)
}

// field is a word of a template, and what is to follow when it is x. was is what it was.
type field struct {
	template string
	version  uint32
	name     string
	was      uint32
}

func (f *field) want(x uint32) outcome {
	v, long := f.version, f.template == "long call, long reply"
	if x == f.was {
		return fine
	}
	switch f.name {
	case "xid": // differs from the RPC message's
		return malformed(v)
	case "version": // of the connection: D-4
		if x == 3-v && f.reply(x) { // which is not answered
			return nothing
		}
		return refuse(wire.ErrorBody{Code: wire.ErrVers, Low: v, High: v})
	case "credit", "inv_handle": // D-25: no handle of this header, so none is invalidated
		return fine
	case "procedure":
		switch {
		case v == 1 && long && x == 0: // MSG without a message: see unknowable
			return nothing
		case x < 2: // MSG without a message, NOMSG with one
			return malformed(v)
		case v == 1 && x == 3: // D-40
			return nothing
		case v == 2 && x == 5: // no such option; what follows does not parse either
			return f.option()
		}
		return pick(v, wire.ErrorBody{Code: wire.ErrInvalidProc})
	case "direction":
		if x == 1 { // a reply to nobody
			return nothing
		}
		return malformed(v)
	case "position":
		if x%4 != 0 || x == 0 || long {
			return malformed(v)
		}
		return garbage // beyond the message: D-37
	case "handle", "offset high", "offset low", "reply handle", "reply offset high", "reply offset low":
		return gone
	case "length":
		switch {
		case f.template == "call with a Write chunk":
			if x < f.was {
				return pick(v, wire.ErrorBody{Code: wire.ErrWriteResource, Index: 1, Needed: chunkSize})
			}
			return fine
		case x > 16<<20: // what a server takes in one call
			return tooMuch(v)
		case x > f.was:
			return gone
		case long && x == 0: // a position-zero chunk of nothing
			return malformed(v)
		case long: // the message ends within its first two words
			return unknowable(v)
		}
		return garbage
	case "reply length":
		if x < f.was {
			return pick(v, wire.ErrorBody{Code: wire.ErrReplyResource, Needed: uint32(len(result(0, opaque(pattern(chunkSize))...)))})
		}
		return fine
	}
	return malformed(v) // the lists' own structure
}

// option is OPTIONAL over the words of another procedure: opttype 0 or a handle, an optinfo of the Read list's.
func (f *field) option() outcome {
	return refuse(wire.ErrorBody{Code: wire.ErrInvalidOption})
}

// reply tells whether the template is a reply when it is read in the other version's layout: version 1's Read list stands
// where version 2 has the direction, version 2's segment count where version 1 has the type of the RPC message.
func (f *field) reply(x uint32) bool {
	if x == wire.Version2 {
		return f.template == "call with a Read chunk" || f.template == "long call, long reply"
	}
	return f.template == "call with a Write chunk"
}

var xids atomic.Uint32

func TestFields(t *testing.T) {
	each(t, func(t *testing.T, url string) {
		h := serve(t, url)
		dom, addr := open(t, h.url)
		for v := uint32(1); v <= 2; v++ {
			for _, tm := range templates {
				names := append([]string{"xid", "version", "credit", "procedure"}, tm.fields[v]...)
				for i, name := range names {
					t.Run(fmt.Sprintf("version %d, %s, %s", v, tm.name, name), func(t *testing.T) {
						var r *raw
						for _, x := range extremes {
							if r == nil {
								r = dial(t, dom, addr, good)
								latch(t, r, v)
							}
							xid := xids.Add(1) + 1000
							b := tm.bytes(r, xid, v)
							f := field{tm.name, v, name, wordAt(b, i)}
							want := f.want(x)
							as, version := xid, v
							switch name {
							case "xid":
								as = x
							case "version":
								version = x
							}
							if out := r.probe(spoil(b, i, x), as, version, v, want.kind); out != want {
								t.Errorf("%s = %#x, instead of %#x: %v, want %v", name, x, f.was, out, want)
							}
							select {
							case <-r.Gone:
								r = nil
							default:
							}
						}
						if r != nil {
							r.Conn.Close()
							r.Ended()
						}
					})
				}
			}
		}
	})
}

// latch makes version the connection's by a good call.
func latch(t testing.TB, r *raw, version uint32) {
	t.Helper()
	r.Send(enc(head(1, version, wire.Msg)), echo(1))
	m, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if o, err := classify(m.Bytes, 1, version); err != nil || o != fine {
		t.Fatalf("a good call: %v, %v", o, err)
	}
}
