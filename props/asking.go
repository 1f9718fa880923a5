package props

import (
	"bytes"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// asking is a change of a property of the peer's that we want.
type asking struct {
	ref  uint64
	id   uint32
	data []byte // empty: the default
}

// want takes a request to the peer. It is settled in any case, at once if the peer need not be asked.
func (x *exchange) want(ref uint64, id uint32, data []byte) {
	a := asking{ref, id, bytes.Clone(data)}
	if len(x.asks) >= maxAsks {
		x.settle(a, ext.Change{Kind: ext.Rejected}, x.why(id, "too many requests wait for the peer's answers"))
		return
	}
	x.asks = append(x.asks, a)
	x.ask()
}

func (x *exchange) settle(a asking, c ext.Change, err error) {
	x.act(action{do: doSettled, ref: a.ref, id: a.id, change: c, err: err})
}

func (x *exchange) why(id uint32, text string) error { return &AskError{x.props[id], id, text} }

// refusal is what is known without asking: the peer was not to be asked for what it left out or called fixed (D-24).
func (x *exchange) refusal(a asking) (kind ext.ChangeKind, err error) {
	p, known := x.props[a.id]
	t := x.peer[a.id]
	if known {
		if err := Check(p, a.data); err != nil {
			return ext.Rejected, err
		}
	}
	switch {
	case x.state == alone:
		return ext.Unsupported, x.lone
	case x.stubborn:
		return ext.Unsupported, x.why(a.id, "the peer does not take RDMA2_REQPROP")
	case t == nil || !t.listed:
		return ext.Unsupported, x.why(a.id, "the peer did not list it, so that it keeps its default")
	case t.fixed:
		return ext.Rejected, x.why(a.id, "the peer has said that it will not change")
	case known && !p.Mutable:
		return ext.Rejected, x.why(a.id, "it is declared as one that does not change")
	case fitting([]wire.Property{{ID: a.id, Data: a.data}}, x.room, 0) == 0:
		return ext.Rejected, x.why(a.id, "the value is longer than the peer's receives")
	}
	return 0, nil
}

// ask sends what waits in one REQPROP, if none is out. Each property is in it once: a later request for the same one
// has its turn when this one has been answered (D-15).
func (x *exchange) ask() {
	if x.state == idle || x.state == waiting || x.asked != nil || x.held {
		return
	}
	var (
		set  []wire.Property
		now  []asking
		rest []asking
		in   = make(map[uint32]bool)
	)
	for _, a := range x.asks {
		if kind, err := x.refusal(a); err != nil {
			x.settle(a, ext.Change{Kind: kind}, err)
			continue
		}
		more := append(set, wire.Property{ID: a.id, Data: a.data})
		if in[a.id] || fitting(more, x.room, 0) < len(more) {
			in[a.id] = true // nor one behind it
			rest = append(rest, a)
			continue
		}
		in[a.id], set, now = true, more, append(now, a)
	}
	x.asks = rest
	if len(now) == 0 {
		return
	}
	x.asked = now
	for _, a := range now {
		x.act(action{do: doAsking, id: a.id, data: a.data})
	}
	x.send(opReq, wire.Header{Props: set})
}

// resprop takes what became of the REQPROP that is out.
func (x *exchange) resprop(o ext.Outcome) {
	asked := x.asked
	if asked == nil {
		return
	}
	x.asked = nil
	all := func(kind ext.ChangeKind, text string) {
		for _, a := range asked {
			x.settle(a, ext.Change{Kind: kind}, x.why(a.id, text))
		}
	}
	switch {
	case o.Kind == ext.Refused && o.Code.Unsupported():
		x.stubborn = true
		all(ext.Unsupported, "the peer does not take RDMA2_REQPROP")
	case o.Kind == ext.Refused:
		x.count.Refused++
		all(ext.Rejected, "the peer refused to be asked: "+o.Code.String())
	case o.Kind != ext.Answered:
		all(ext.Rejected, "the request was "+o.Kind.String())
	default:
		h, err := decode(opResp, o.Info)
		if err == nil {
			err = x.props.check(h.Props)
		}
		if err != nil { // not answered (D-12), nothing of it applied (D-13)
			x.count.Malformed++
			all(ext.Rejected, "the peer's answer is malformed")
			break
		}
		x.settleAll(asked, h)
	}
	x.ask()
}

// settleAll maps an answer to what was asked: bits by position, values by id. What is in none or in several of the three
// counts as rejected, values of what was not asked for are ignored (v2 draft §5.3.3, D-19).
func (x *exchange) settleAll(asked []asking, h wire.Header) {
	at := make(map[uint32]int, len(asked))
	for i, a := range asked {
		at[a.id] = i
	}
	others := make([]int, len(asked)) // how often rdma_other has it
	values := make([][]byte, len(asked))
	for _, v := range h.Props {
		i, ok := at[v.ID]
		if !ok {
			x.count.Foreign++
			continue
		}
		others[i]++
		values[i] = bytes.Clone(v.Data)
	}
	if max(h.DoneSet.End(), h.Rejected.End()) > len(asked) {
		x.count.Foreign++
	}
	for i, a := range asked {
		in := others[i]
		done, rejected := h.DoneSet.Has(i), h.Rejected.Has(i)
		if done {
			in++
		}
		if rejected {
			in++
		}
		switch {
		case in != 1:
			x.count.Mismatches++
			x.settle(a, ext.Change{Kind: ext.Rejected}, nil)
		case rejected:
			x.settle(a, ext.Change{Kind: ext.Rejected}, nil)
		case done:
			x.settle(a, ext.Change{Kind: ext.Done, Value: x.now(a.id, a.data)}, nil)
		default:
			x.settle(a, ext.Change{Kind: ext.Other, Value: x.now(a.id, values[i])}, nil)
		}
	}
}

// now makes data the peer's value, which its owner hears first, and gives it as it is in force.
func (x *exchange) now(id uint32, data []byte) []byte {
	if t := x.peer[id]; t != nil && !bytes.Equal(t.data, data) {
		t.data = data
		x.tell(id)
	}
	if len(data) == 0 {
		return x.props[id].Default
	}
	return data
}
