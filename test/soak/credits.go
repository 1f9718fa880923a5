package soak

import (
	"encoding/binary"
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/wire"
)

// account is the credit of one end of a connection as a requester: what the peer has granted, and the calls that
// it has not answered. The first message finds a credit of 1 (RFC 8166 §3.3.3).
type account struct {
	open    map[uint32]bool // XIDs
	granted int
	lowered int // a lower grant that the engine has not seen yet; 0: none
}

// message is what credits want to know of a Send.
type message struct {
	xid, credit uint32
	call, reply bool
}

// parse reads a Send as far as credits go.
func parse(b []byte) (m message, err error) {
	var h wire.Header
	n, err := h.Parse(b, wire.ProfileCel04)
	if err != nil {
		return m, err
	}
	m.xid, m.credit = h.XID, h.Credit
	switch {
	case h.Proc == wire.ErrorMsg:
		m.reply = true
	case h.Version >= wire.Version2:
		dir, known := h.Dir()
		if !known || h.Proc != wire.Msg && h.Proc != wire.NoMsg {
			return message{}, nil
		}
		m.call, m.reply = dir == wire.Call, dir == wire.Reply
	case h.Proc == wire.Msg: // version 1: the RPC message tells (RFC 8167 §2.4)
		if len(b) < n+8 {
			return m, fmt.Errorf("an RPC message of %d bytes", len(b)-n)
		}
		m.call = binary.BigEndian.Uint32(b[n+4:]) == 0
		m.reply = !m.call
	case h.Proc == wire.NoMsg: // forward only: a call has its message in a Read chunk, a reply in the Reply chunk
		m.call = len(h.Reads) > 0
		m.reply = !m.call
	}
	return m, nil
}

// sent is called with each Send as it is posted.
func (a *account) sent(m message) error {
	if !m.call {
		return nil
	}
	if a.open[m.xid] {
		return fmt.Errorf("XID %#x is sent again on the connection that carried it", m.xid)
	}
	a.open[m.xid] = true
	if len(a.open) > a.granted {
		return fmt.Errorf("%d calls in flight, %d granted", len(a.open), a.granted)
	}
	return nil
}

// received is called with each message before the engine has it. A lower grant counts from when
// the engine has seen it: see settle.
func (a *account) received(m message) {
	if !m.reply || !a.open[m.xid] {
		return
	}
	delete(a.open, m.xid)
	if grant := max(int(m.credit), 1); grant >= a.granted {
		a.granted, a.lowered = grant, 0
	} else {
		a.lowered = grant
	}
}

func (a *account) settle() {
	if a.lowered > 0 {
		a.granted, a.lowered = a.lowered, 0
	}
}
