package oracle

import (
	"bytes"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

func (w *words) auth(a *rpcmsg.Auth) {
	w.add(uint32(a.Flavor))
	w.hex(a.Body)
}

func describeCall(h *rpcmsg.CallHeader) string {
	var w words
	w.add(h.XID, h.Program, h.Version, h.Proc)
	w.auth(&h.Cred)
	w.auth(&h.Verf)
	return w.String()
}

func describeReply(h *rpcmsg.ReplyHeader) string {
	var w words
	w.add(h.XID, uint32(h.Stat))
	if h.Stat == rpcmsg.Accepted {
		w.auth(&h.Verf)
		w.add(uint32(h.Accept))
		if h.Accept == rpcmsg.ProgMismatch {
			w.add(h.Low, h.High)
		}
		return w.String()
	}
	w.add(uint32(h.Reject))
	if h.Reject == rpcmsg.RejectAuth {
		w.add(uint32(h.Auth))
	} else {
		w.add(h.Low, h.High)
	}
	return w.String()
}

func (r random) auth() rpcmsg.Auth {
	sizes := []int{0, 1, 3, 4, 8, 100, rpcmsg.MaxAuthBody}
	return rpcmsg.Auth{
		Flavor: rpcmsg.Flavor(r.IntN(8)),
		Body:   r.bytes(sizes[r.IntN(len(sizes))]),
	}
}

func encoded(t *testing.T, f func(*xdr.Writer)) []byte {
	t.Helper()
	var w xdr.Writer
	f(&w)
	if w.Err() != nil {
		t.Fatal(w.Err())
	}
	return w.Bytes()
}

// TestCall: RFC 5531 §9, call_body.
func TestCall(t *testing.T) {
	d, r := start(t), seeded(t)
	for range 1000 {
		h := rpcmsg.CallHeader{XID: r.Uint32(), Program: r.Uint32(), Version: r.Uint32(), Proc: r.Uint32(),
			Cred: r.auth(), Verf: r.auth()}
		b := encoded(t, h.Append)
		if len(b) != h.Len() {
			t.Fatalf("%d bytes, Len %d", len(b), h.Len())
		}
		d.same(t, "c", describeCall(&h), b)
		var back rpcmsg.CallHeader
		if err := back.Parse(xdr.NewReader(b)); err != nil || describeCall(&back) != describeCall(&h) {
			t.Fatalf("%x: %+v %v", b, back, err)
		}
	}
}

// TestReply: RFC 5531 §9, reply_body: every state, and every auth_stat.
func TestReply(t *testing.T) {
	d, r := start(t), seeded(t)
	var hs []rpcmsg.ReplyHeader
	for range 50 {
		for stat := rpcmsg.Success; stat <= rpcmsg.SystemErr; stat++ {
			h := rpcmsg.ReplyHeader{Verf: r.auth(), Accept: stat}
			if stat == rpcmsg.ProgMismatch {
				h.Low, h.High = r.Uint32(), r.Uint32()
			}
			hs = append(hs, h)
		}
		hs = append(hs, rpcmsg.ReplyHeader{Stat: rpcmsg.Denied, Low: r.Uint32(), High: r.Uint32()})
	}
	for stat := rpcmsg.AuthOK; stat <= rpcmsg.RPCSECGSSCtxProblem; stat++ {
		hs = append(hs, rpcmsg.ReplyHeader{Stat: rpcmsg.Denied, Reject: rpcmsg.RejectAuth, Auth: stat})
	}
	for _, h := range hs {
		h.XID = r.Uint32()
		b := encoded(t, h.Append)
		if len(b) != h.Len() {
			t.Fatalf("%d bytes, Len %d", len(b), h.Len())
		}
		d.same(t, "r", describeReply(&h), b)
		var back rpcmsg.ReplyHeader
		if err := back.Parse(xdr.NewReader(b)); err != nil || describeReply(&back) != describeReply(&h) {
			t.Fatalf("%x: %+v %v", b, back, err)
		}
	}
}

// TestSys: RFC 5531 Appendix A.
func TestSys(t *testing.T) {
	d, r := start(t), seeded(t)
	for range 500 {
		s := rpcmsg.Sys{Stamp: r.Uint32(), UID: r.Uint32(), GID: r.Uint32(), GIDs: r.subset(r.IntN(rpcmsg.MaxGIDs + 1))}
		name := bytes.ReplaceAll(r.bytes(r.IntN(rpcmsg.MaxMachine+1)), []byte{0}, []byte{'x'})
		s.Machine = string(name)
		var w words
		w.add(s.Stamp)
		w.hex(name)
		w.add(s.UID, s.GID)
		describeSubset(&w, s.GIDs)
		d.same(t, "s", w.String(), encoded(t, s.Append))
	}
}
