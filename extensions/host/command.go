package host

import (
	"fmt"
	"slices"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/extensions/sdk"
	pb "github.com/rpcrdma/rpcrdma/extensions/sdk/extensionpb"
)

// command carries out what a plugin wants. Nothing it says is believed: what is wrong with it is told, and nothing
// done then. What it is too late for is ignored: the connection has ended, the question has been answered.
func (x *process) command(c *pb.Command) (wrong string) {
	x.mu.Lock()
	s, last := x.sessions[c.GetConn()], x.last
	x.mu.Unlock()
	switch {
	case c.GetConn() == 0 || c.GetConn() > last:
		return fmt.Sprintf("for a connection %d that does not exist", c.GetConn())
	case s == nil:
		return ""
	}
	switch k := c.GetKind().(type) {
	case *pb.Command_Started:
		return s.hasStarted(k.Started)
	case *pb.Command_Took:
		return s.took(k.Took)
	case *pb.Command_Send:
		return s.sendOp(k.Send)
	case *pb.Command_Answer:
		return s.answer(k.Answer)
	case *pb.Command_Request:
		return s.request(k.Request)
	case *pb.Command_Offer:
		value, wrong := x.value(k.Offer.GetId(), k.Offer.GetValue(), false)
		if wrong != "" {
			return wrong
		}
		if k.Offer.GetNone() {
			value = nil
		}
		s.conn.Offer(k.Offer.GetId(), value, k.Offer.GetFixed())
	case *pb.Command_Ask:
		return s.change(k.Ask, false)
	case *pb.Command_Settle:
		return s.settle(k.Settle)
	case *pb.Command_Attach:
		return s.attach(k.Attach)
	case *pb.Command_Consumed:
		if x.p.op(k.Consumed.GetOp()) == nil || k.Consumed.GetN() == 0 || k.Consumed.GetN() > 1<<20 {
			return fmt.Sprintf("%d consumed of operation %q", k.Consumed.GetN(), printable(k.Consumed.GetOp()))
		}
		s.conn.Consumed(k.Consumed.GetOp(), int(k.Consumed.GetN()))
	case *pb.Command_Open:
		if !x.p.decl.Gate {
			return "to open a connection that it does not gate"
		}
		s.mu.Lock()
		s.opened = true
		s.mu.Unlock()
		s.conn.Open()
	case *pb.Command_Fail:
		s.conn.Fail(&FailError{Name: x.p.c.Name, Text: first(k.Fail.GetError())})
	case *pb.Command_Peer:
		if s.carrier == nil {
			return "to carry properties, which it has not declared"
		}
		value, wrong := x.value(k.Peer.GetId(), k.Peer.GetValue(), true)
		if wrong != "" {
			return wrong
		}
		s.carrier.Peer(k.Peer.GetId(), value, k.Peer.GetDef())
	case *pb.Command_PeerRequest:
		if s.carrier == nil {
			return "to carry properties, which it has not declared"
		}
		return s.change(k.PeerRequest, true)
	default:
		return "an unknown command"
	}
	return ""
}

// value checks a property's. A carrier's may be of any property: the peer's.
func (x *process) value(id uint32, value []byte, anyones bool) (v []byte, wrong string) {
	if len(value) > ext.MaxInfo {
		return nil, fmt.Sprintf("%d bytes of property %d", len(value), id)
	}
	if !anyones && !slices.ContainsFunc(x.p.decl.Props, func(p ext.Prop) bool { return p.ID == id }) {
		return nil, fmt.Sprintf("property %d, which it has not declared", id)
	}
	if value == nil {
		value = []byte{}
	}
	return value, ""
}

func (s *session) hasStarted(m *pb.Started) string {
	s.mu.Lock()
	if s.begun || s.x.version < 2 {
		s.mu.Unlock()
		return "Started again"
	}
	s.begun, s.watches = true, m.GetWatcher()
	started := s.started
	s.started = nil
	s.mu.Unlock()
	if m.GetRefused() {
		s.down(&FailError{Name: s.x.p.c.Name, Text: "it has nothing to do with the connection, which it gates"})
	}
	if started != nil {
		started()
	}
	return ""
}

func (s *session) took(m *pb.Took) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if uint64(m.GetEvents()) > uint64(s.waiting) || uint64(m.GetCalls()) > uint64(s.ended) {
		return fmt.Sprintf("%d events and %d ends taken of %d and %d", m.GetEvents(), m.GetCalls(), s.waiting, s.ended)
	}
	s.waiting -= int(m.GetEvents())
	s.ended -= int(m.GetCalls())
	s.open -= int(m.GetCalls())
	return ""
}

// begin counts a call that wants to hear its end.
func (s *session) begin(call uint64) (wrong string) {
	if call == 0 {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= sdk.MaxCalls {
		return fmt.Sprintf("more than %d open calls", sdk.MaxCalls)
	}
	s.open++
	return ""
}

func (s *session) sendOp(m *pb.Send) string {
	op := s.x.p.op(m.GetOp())
	switch {
	case op == nil:
		return fmt.Sprintf("operation %q, which it has not declared", printable(m.GetOp()))
	case len(m.GetInfo()) > ext.MaxInfo:
		return fmt.Sprintf("%d bytes of operation %q", len(m.GetInfo()), op.Name)
	}
	if wrong := s.begin(m.GetCall()); wrong != "" {
		return wrong
	}
	var done func(ext.Outcome)
	if call := m.GetCall(); call != 0 {
		done = func(o ext.Outcome) { s.end(&pb.Event{Kind: &pb.Event_Sent{Sent: pb.FromOutcome(call, o)}}) }
	}
	s.conn.Send(ext.Outgoing{Op: op.Name, Info: m.GetInfo(), Optional: m.GetOptional()}, done)
	return ""
}

// redeem takes a token. late: it was the plugin's, and is no longer.
func (s *session) redeem(n uint64, message bool) (t token, wrong string, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tokens[n]
	switch {
	case n == 0 || n > s.last || ok && (t.kind == aMessage) != message:
		return t, fmt.Sprintf("an answer to a question %d that was not asked", n), false
	case !ok:
		s.x.p.late.Add(1)
		return t, "", true
	}
	delete(s.tokens, n)
	if !t.due.IsZero() && time.Now().After(t.due) {
		s.x.p.late.Add(1) // the engine, which has answered by then, ignores it
	}
	return t, "", false
}

func (s *session) answer(m *pb.Answer) string {
	v := m.GetVerdict().Ext()
	switch {
	case v.Kind > ext.Refuse,
		v.Kind == ext.Refuse && v.Code != ext.BadXDR && v.Code != ext.InvalidOption && v.Code != ext.System,
		len(v.Info) > ext.MaxInfo:
		return fmt.Sprintf("a verdict %d, code %d, with %d bytes", v.Kind, uint32(v.Code), len(v.Info))
	}
	t, wrong, late := s.redeem(m.GetToken(), true)
	if wrong == "" && !late {
		s.conn.Answer(t.of, v)
	}
	return wrong
}

func (s *session) settle(m *pb.Settle) string {
	c := m.GetChange().Ext()
	if c.Kind > ext.Unsupported || len(c.Value) > ext.MaxInfo {
		return fmt.Sprintf("a change %d with %d bytes", c.Kind, len(c.Value))
	}
	t, wrong, late := s.redeem(m.GetToken(), false)
	if wrong == "" && !late {
		s.conn.Settle(t.of, c)
	}
	return wrong
}

func (s *session) request(m *pb.Request) string {
	r := m.Ext()
	if r == nil {
		return "an unknown request"
	}
	if wrong := s.begin(m.GetCall()); wrong != "" {
		return wrong
	}
	var done func(error)
	if call := m.GetCall(); call != 0 {
		done = func(err error) { s.end(requestDone(call, err)) }
	}
	s.conn.Request(r, done)
	return ""
}

// change is Conn.Ask, or a carrier's Requested.
func (s *session) change(m *pb.Ask, peers bool) string {
	value, wrong := s.x.value(m.GetId(), m.GetValue(), peers)
	if wrong == "" {
		wrong = s.begin(m.GetCall())
	}
	if wrong != "" {
		return wrong
	}
	done := func(ext.Change) {}
	if call := m.GetCall(); call != 0 {
		done = func(c ext.Change) {
			end := &pb.ChangeDone{Call: call, Change: pb.FromChange(c)}
			if peers {
				s.end(&pb.Event{Kind: &pb.Event_PeerRequestDone{PeerRequestDone: end}})
			} else {
				s.end(&pb.Event{Kind: &pb.Event_AskDone{AskDone: end}})
			}
		}
	}
	if peers {
		s.carrier.Requested(m.GetId(), value, done)
	} else {
		s.conn.Ask(m.GetId(), value, done)
	}
	return ""
}

func (s *session) attach(m *pb.Attach) string {
	op := s.x.p.op(m.GetOp())
	if op == nil || op.Payload != ext.Wraps || len(m.GetInfo()) > ext.MaxInfo {
		return fmt.Sprintf("%d bytes attached by operation %q", len(m.GetInfo()), printable(m.GetOp()))
	}
	info := m.GetInfo()
	switch {
	case m.GetEnd():
		info = nil
	case info == nil:
		info = []byte{}
	}
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return ""
	}
	if m.GetEnd() {
		delete(s.attached, op.Name)
	} else {
		s.attached[op.Name] = true
	}
	s.mu.Unlock()
	s.conn.Attach(op.Name, info)
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if over { // meanwhile: down may have come first
		s.conn.Attach(op.Name, nil)
	}
	return ""
}
