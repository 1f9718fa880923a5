package props

import (
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// Names of the four operations in the declaration.
const (
	opConn = "connprop"
	opReq  = "reqprop"
	opResp = "resprop"
	opUpd  = "updprop"
)

// procs are their numbers as rdma_proc (v2 draft §6.2); those as rdma_opttype (§5.3) follow from them (D-1).
var procs = map[string]wire.Proc{opConn: wire.ConnProp, opReq: wire.ReqProp, opResp: wire.RespProp, opUpd: wire.UpdProp}

// answerTime is how long a REQPROP may wait for its answer: the owner of a property has a second, and is in
// another process.
const answerTime = 3 * time.Second

// operations declares them. RESPROP answers REQPROP and its rdma_credit counts, the others' does not (D-9); one of
// each of the rest may be unconsumed (D-8).
func operations() []ext.Op {
	op := func(name string) ext.Op {
		t, _ := procs[name].OptType()
		return ext.Op{Name: name, Type: t, Proc: uint32(procs[name]), Window: 1}
	}
	conn, req, resp, upd := op(opConn), op(opReq), op(opResp), op(opUpd)
	req.Answer, req.Deadline = opResp, answerTime
	resp.Reply, resp.Credit = true, true
	return []ext.Op{conn, req, resp, upd}
}

// longestHeader is what surrounds a property operation's body in a Send, in its longer form: the fixed words, then
// direction, type and length of RDMA2_OPTIONAL (v2 draft §6.2).
const longestHeader = 16 + 12

// encode is the body of an operation: what follows rdma_proc, or rdma_optinfo; they are the same.
func encode(op string, h wire.Header) []byte {
	h.Proc = procs[op]
	return h.AppendPropBody(make([]byte, 0, h.PropBodyLen()))
}

// decode reads one, the whole of info. The header's bytes are info's.
func decode(op string, info []byte) (h wire.Header, err error) {
	err = h.ParsePropBody(procs[op], info)
	return h, err
}

// fitting is how many of a set, from the first on, fit into a body of room bytes that has extra bytes beside them. A
// property takes its id, its length and its data.
func fitting(set []wire.Property, room, extra int) int {
	n := 4 + extra
	for i, v := range set {
		n += 8 + len(v.Data) + -len(v.Data)&3
		if n > room || i >= wire.MaxProps {
			return i
		}
	}
	return len(set)
}
