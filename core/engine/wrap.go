package engine

import (
	"slices"
	"sync/atomic"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// wrapping is what extensions do with RPC messages: bytes attached to calls, and messages cut into pieces (pieces.go). A
// connection that has neither pays a comparison for it.
type wrapping struct {
	roles    []role // by session; there once all have started
	attached atomic.Pointer[[]attachment]
	wrappers atomic.Pointer[[]*wrapper] // payload extensions, as declared

	// Guarded by Conn.mu.
	early   []earlyAttach // asked for before all sessions have started
	refused []bool        // operations that the peer does not take after all, by index
	parcels []parcel      // messages in pieces that wait for places in their window, oldest first
}

// role is what a session is beyond a session.
type role struct {
	wrapper ext.Wrapper
	cutter  ext.Cutter
	watcher ext.Watcher
}

// attachment is in force for our calls. Without bytes it allows those that a call brings.
type attachment struct {
	op   int
	most int // bytes
	wrap wire.Wrap
}

// earlyAttach is an ext.Conn.Attach that came before it could be judged.
type earlyAttach struct {
	i    int
	op   string
	info []byte
}

// beginWrapping finds out what the sessions are. Called with mu held.
func (x *extensions) beginWrapping() {
	w := &x.wrap
	w.refused = make([]bool, len(x.ops))
	w.roles = make([]role, len(x.sessions))
	var wrappers []*wrapper
	for i, s := range x.sessions {
		if s.state != sessionUp {
			continue
		}
		r := &w.roles[i]
		r.cutter, _ = s.s.(ext.Cutter)
		r.watcher, _ = s.s.(ext.Watcher)
		if s.decl.Class != ext.Payload {
			continue
		}
		if r.wrapper, _ = s.s.(ext.Wrapper); r.wrapper != nil {
			wrappers = append(wrappers, x.newWrapper(s, r))
		}
	}
	if len(wrappers) > 0 {
		w.wrappers.Store(&wrappers)
	}
	for _, a := range w.early {
		if x.sessions[a.i].state == sessionUp {
			x.attach(a.i, a.op, a.info)
		}
	}
	w.early = nil
}

// endWrapping takes a session out of what is done with messages. Called with mu held.
func (x *extensions) endWrapping(s *session) {
	if list := x.wrap.wrappers.Load(); list != nil {
		left := slices.DeleteFunc(slices.Clone(*list), func(w *wrapper) bool { return w.s == s })
		x.wrap.wrappers.Store(&left)
		x.divert(s)
	}
	x.detach(func(op int) bool { return x.ops[op].Ext == s.i })
}

// attach wraps our calls into an operation of extension i, or ends it where info is nil.
// Called with mu held.
func (x *extensions) attach(i int, op string, info []byte) {
	if x.wrap.roles == nil { // an extension may well attach in Connect
		x.wrap.early = slices.DeleteFunc(x.wrap.early, func(a earlyAttach) bool { return a.i == i && a.op == op })
		x.wrap.early = append(x.wrap.early, earlyAttach{i, op, slices.Clone(info)})
		return
	}
	n := x.opNamed(x.sessions[i], op)
	if n >= 0 && info == nil {
		x.detach(func(op int) bool { return op == n })
		return
	}
	raw := x.wrap.roles[i].cutter != nil
	switch {
	case n < 0, x.wrap.refused[n]:
	case x.ops[n].Op.Payload != ext.Wraps, !x.may(&x.ops[n], ours), len(info) > x.ops[n].Op.Info, raw && len(info)%4 != 0:
	default:
		x.detach(func(op int) bool { return op == n })
		a := attachment{op: n, most: x.ops[n].Op.Info, wrap: wire.Wrap{Type: x.ops[n].Op.Type, Info: slices.Clone(info), Raw: raw}}
		list := []attachment{a}
		if old := x.wrap.attached.Load(); old != nil {
			list = append(list, *old...)
		}
		slices.SortStableFunc(list, func(a, b attachment) int { return a.op - b.op }) // as declared
		x.wrap.attached.Store(&list)
		return
	}
	x.c.counters.ExtIgnored++
}

// detach ends attachments. Called with mu held.
func (x *extensions) detach(match func(op int) bool) {
	list := x.wrap.attached.Load()
	if list == nil {
		return
	}
	left := slices.DeleteFunc(slices.Clone(*list), func(a attachment) bool { return match(a.op) })
	if len(left) == 0 {
		x.wrap.attached.Store(nil)
		return
	}
	x.wrap.attached.Store(&left)
}

// attachment is what goes with call: its own, or else the first of the connection's that has bytes.
func (x *extensions) attachment(call *call) (w wire.Wrap) {
	list := x.wrap.attached.Load()
	if list == nil {
		return w
	}
	for i := range *list {
		a := &(*list)[i]
		own := call.Attach.Op == a.wrap.Type && len(call.Attach.Info) <= a.most && !(a.wrap.Raw && len(call.Attach.Info)%4 != 0)
		switch {
		case own:
			w = a.wrap
			w.Info = call.Attach.Info
			return w
		case w.Type == 0 && len(a.wrap.Info) > 0:
			w = a.wrap
		}
	}
	return w
}

// wrapped takes an operation that carries an RPC message, or a part of one; it takes buf. Within Complete, without mu.
func (in *inbound) wrapped(h *wire.Header, payload []byte, buf buffer) {
	c, x := in.c, in.c.ext
	i, _ := x.find(h)
	r := &x.ops[i]
	s := x.sessions[r.Ext]
	reply := h.Direction == wire.Reply
	s.checkLoans()
	c.mu.Lock()
	up := s.state == sessionUp
	var as role
	if up {
		as = x.wrap.roles[r.Ext]
		x.heard(s)
	}
	c.mu.Unlock()
	refuse := func(why wire.Reason) {
		buf.put()
		in.refuseOperation(h, reply, why)
	}
	switch {
	case !up, !x.may(r, theirs), r.Op.Payload == ext.Part && (as.wrapper == nil || !reply && c.gated()):
		refuse(wire.UnknownOption)
		return
	case r.Op.Payload == ext.Part && (len(payload) == 0 || len(h.OptInfo) > r.Op.Info):
		refuse(wire.BadXDR)
		return
	case r.Op.Payload == ext.Wraps:
		cut := -1
		if as.cutter != nil {
			var p *PanicError
			if cut, p = s.cut(as.cutter, r.Op.Name, h.OptInfo); p != nil {
				buf.put()
				in.unreadable(h.XID, reply, p)
				return
			}
		}
		if cut == noCut {
			refuse(wire.BadXDR)
			return
		}
		if err := h.Unwrap(cut, len(payload)); err != nil {
			buf.put()
			in.refuse(err)
			return
		}
		if len(h.OptInfo) > r.Op.Info {
			refuse(wire.BadXDR)
			return
		}
	}
	var whole []byte
	release := loan{s: s}
	if as.wrapper != nil {
		p := ext.Piece{Op: r.Op.Name, Info: h.OptInfo, To: len(payload)}
		var v ext.Verdict
		var panicked *PanicError
		whole, release.free, v, panicked = s.unwrap(as.wrapper, p, h.XID, reply, payload)
		if panicked != nil {
			buf.put()
			in.unreadable(h.XID, reply, panicked)
			return
		}
		if v.Kind == ext.Refuse || r.Op.Payload == ext.Part {
			buf.put()
			release.giveBack()
			in.piece(h.XID, reply, v)
			return
		}
	}
	if whole != nil {
		buf.put() // it lies elsewhere
		if !reply {
			var ok bool
			if release, ok = c.charged(len(whole), release); !ok {
				c.sendError(nil, h.XID, h.Version, wire.ErrorBody{Code: wire.ErrSystem})
				return
			}
		}
		h.Proc, h.OptInfo, payload = wire.Msg, nil, whole
	}
	in.unwrapped(h, payload, buf, release, s, as.watcher)
}

// charged counts n bytes of a call of the peer's until they are given back. Not ok: there is no room, and they have been.
func (c *Conn) charged(n int, l loan) (charged loan, ok bool) {
	if err := c.ep.charge(n, &c.share.held); err != nil {
		l.giveBack()
		return l, false
	}
	free := l.free
	return loan{l.s, func() {
		c.ep.discharge(n, &c.share.held)
		if free != nil {
			free()
		}
	}}, true
}

// piece is done with a piece that makes no message whole.
func (in *inbound) piece(xid uint32, reply bool, v ext.Verdict) {
	c := in.c
	switch {
	case v.Kind != ext.Refuse:
		c.mu.Lock()
		c.counters.Parts++
		c.mu.Unlock()
	case reply:
		in.drop(xid)
	default:
		c.sendError(nil, xid, wire.Version2, wire.ErrorBody{Code: wire.Code(v.Code)})
	}
}

// unwrapped takes the RPC message that an operation has carried; it takes buf, and calls release, if there is one, when the message is over.
func (in *inbound) unwrapped(h *wire.Header, payload []byte, buf buffer, release loan, s *session, watcher ext.Watcher) {
	c := in.c
	xid, op, reply := h.XID, h.OptType, h.Direction == wire.Reply
	var info []byte
	if watcher != nil {
		info = append([]byte{}, h.OptInfo...)
	}
	c.mu.Lock()
	c.counters.Wrapped++ // before its caller goes on, or its procedure
	c.mu.Unlock()
	var taken bool
	if reply {
		taken = in.reply(h, payload, in.invalidated, release)
		buf.put()
	} else {
		taken = in.call(h, payload, buf, release)
	}
	if !taken {
		c.mu.Lock()
		c.counters.Wrapped--
		c.mu.Unlock()
		release.giveBack()
		return
	}
	if watcher == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.full() {
		c.counters.AttachLost++
		return
	}
	name := c.ext.opName(op)
	s.push(task{run: func(ext.Session) { watcher.Attached(xid, name, info) }, counts: true})
}

func (x *extensions) opName(opttype uint32) string {
	i, _ := x.set.Type(opttype)
	return x.ops[i].Op.Name
}

// Attached implements transport.Responder.
func (r *request) Attached() (opttype uint32, info []byte) {
	if r.Header.OptInfo == nil {
		return 0, nil
	}
	return r.Header.OptType, r.Header.OptInfo
}

// refusedWrap tells whether an RDMA_ERROR with this code says that the peer does not take the operation that call was
// wrapped in. It was not executed, and is to go once more, as it is; so do those that follow. Called with mu held.
func (c *Conn) refusedWrap(call *call, code wire.Code) (again, refused bool) {
	if !ext.Code(code).Unsupported() || c.ext == nil {
		return false, false
	}
	x := c.ext
	switch {
	case call.wrap.Type != 0:
		if i, ok := x.set.Type(call.wrap.Type); ok {
			x.wrap.refused[i] = true
			x.detach(func(op int) bool { return op == i })
		}
		return true, true
	case call.by != nil: // each piece is refused; only then the XID may be used again
		if call.refusals++; call.refusals < len(call.pieces) {
			return false, true
		}
		x.endWrapping(call.by.s)
		return true, true
	}
	return false, false
}
