package props

import (
	"bytes"
	"slices"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// answering is a REQPROP of the peer's whose properties' owners have not all answered.
type answering struct {
	ref     uint64
	token   ext.Token
	want    []wire.Property
	changed []bool // positions at which something was granted; the rest is rejected
	asked   []bool // positions at which an owner is to answer
	left    int
}

// reqprop takes what the peer wants of us: the owners of what may change are asked, the rest is rejected.
func (x *exchange) reqprop(h wire.Header, t ext.Token) {
	x.serial++
	r := &answering{ref: x.serial, token: t, changed: make([]bool, len(h.Props)), asked: make([]bool, len(h.Props))}
	var owners []action
	seen := make(map[uint32]bool)
	for i, v := range h.Props {
		data := bytes.Clone(v.Data)
		r.want = append(r.want, wire.Property{ID: v.ID, Data: data})
		p, known := x.props[v.ID]
		l := x.local[v.ID]
		switch {
		case seen[v.ID]:
			x.count.Duplicates++ // the later ones are rejected (D-15)
			continue
		case !known:
			x.count.Skipped++ // rejected (D-14)
		case l == nil || l.fixed || x.announced && !l.listed: // does not change as far as we have said (D-24)
		default:
			if len(data) == 0 {
				data = p.Default
			}
			r.asked[i] = true
			r.left++
			owners = append(owners, action{do: doOwner, ref: r.ref, at: i, id: v.ID, data: data})
		}
		seen[v.ID] = true
	}
	x.answer = r // the engine gives one at a time; an earlier one was late, and has been answered for us
	x.out = append(x.out, owners...)
	x.finish()
}

// granted takes the answer of an owner: what became of position at of request ref, which was the value want of property
// id. What it grants is in force, be it too late for the answer: then it is announced.
func (x *exchange) granted(ref uint64, at int, id uint32, want []byte, c ext.Change) {
	p, l := x.props[id], x.local[id]
	r := x.answer
	late := r == nil || r.ref != ref || !r.asked[at]
	switch {
	case l == nil:
		return
	case c.Kind == ext.Done:
		l.data = bytes.Clone(want)
		if bytes.Equal(l.data, p.Default) && !late && len(r.want[at].Data) == 0 {
			l.data = nil
		}
	case c.Kind == ext.Other && Check(p, c.Value) == nil:
		l.data = bytes.Clone(c.Value)
	default:
		if c.Kind == ext.Other {
			x.count.BadOffers++
		}
		c = ext.Change{Kind: ext.Rejected}
	}
	if c.Kind != ext.Rejected && (late || l.flying) {
		x.due(l) // the UPDPROP that is out may hold an older value, and arrive later than this
	}
	if late {
		x.update()
		return
	}
	r.asked[at] = false
	r.changed[at] = c.Kind != ext.Rejected
	r.left--
	x.finish()
}

// finish sends the RESPROP once all have answered: each property in one of the three (v2 draft §5.3.3).
func (x *exchange) finish() {
	r := x.answer
	if r == nil || r.left > 0 {
		return
	}
	x.answer = nil
	words := 2 * 4 * ((len(r.want) + 31) / 32)
	for {
		var h wire.Header
		for i, v := range r.want {
			if !r.changed[i] {
				h.Rejected.Add(i)
				continue
			}
			// What is in force now: it may have changed since it was granted, and an UPDPROP that says so has overtaken this.
			if now := x.local[v.ID].data; bytes.Equal(now, v.Data) {
				h.DoneSet.Add(i)
			} else {
				h.Props = append(h.Props, wire.Property{ID: v.ID, Data: now})
			}
		}
		if n := fitting(h.Props, x.room, 8+words); n < len(h.Props) { // it comes as an update instead
			i := slices.IndexFunc(r.want, func(v wire.Property) bool { return v.ID == h.Props[n].ID })
			r.changed[i] = false
			x.due(x.local[h.Props[n].ID])
			continue
		}
		x.verdict(r.token, ext.Verdict{Kind: ext.Answer, Info: encode(opResp, h)})
		break
	}
	x.update()
}
