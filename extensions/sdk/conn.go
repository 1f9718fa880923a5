package sdk

import (
	"errors"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/ext"
	pb "github.com/rpcrdma/rpcrdma/extensions/sdk/extensionpb"
)

// conn is an ext.Conn: the program's connection as the extension sees it. Its goroutine makes all calls of the Session and
// of the functions given to it.
type conn struct {
	l        *link
	id       uint64
	declared []ext.Prop // for a carrier

	session ext.Session // run's

	ready chan struct{} // one token: queue is not empty
	mu    sync.Mutex
	facts ext.Facts
	over  bool // Closed has been called, or is
	queue []item
	calls map[uint64]call
	last  uint64 // number of a call
}

// call is a command that wants to hear its end.
type call struct {
	done   func(*pb.Event) // nil: the connection has ended
	unsent func(error)     // it never left
}

// item is something for the connection's goroutine: an event, the end of a call that never left, or the end of the stream.
type item struct {
	event *pb.Event
	local func()
	close error
}

// carrierConn is what a carrier gets.
type carrierConn struct{ *conn }

var (
	_ ext.Conn        = (*conn)(nil)
	_ ext.CarrierConn = carrierConn{}
)

func newConn(l *link, e *pb.Event) *conn {
	return &conn{
		l: l, id: e.GetConn(), facts: e.GetFacts().Ext(), declared: pb.ToProps(e.GetConnect().GetDeclared()),
		ready: make(chan struct{}, 1), calls: map[uint64]call{},
	}
}

func (c *conn) push(i item) {
	c.mu.Lock()
	c.queue = append(c.queue, i)
	c.mu.Unlock()
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// run is the connection's goroutine.
func (c *conn) run() {
	if c.l.decl.Carrier {
		c.session = c.l.x.Connect(carrierConn{c})
	} else {
		c.session = c.l.x.Connect(c)
	}
	if c.l.version >= 2 {
		_, watches := c.session.(ext.Watcher)
		c.command(&pb.Command{Kind: &pb.Command_Started{Started: &pb.Started{Refused: c.session == nil, Watcher: watches}}})
	}
	for range c.ready {
		c.mu.Lock()
		queue := c.queue
		c.queue = nil
		c.mu.Unlock()
		var took pb.Took
		for _, i := range queue {
			switch {
			case i.local != nil:
				i.local()
			case i.event == nil:
				c.closed(i.close)
				return
			case i.event.GetClosed() != nil:
				var err error
				if e := i.event.GetClosed(); !e.GetOk() {
					err = &ended{e.GetError()}
				}
				c.closed(err)
				return
			default:
				c.deal(i.event, &took)
			}
		}
		if took.Events != 0 || took.Calls != 0 {
			c.command(&pb.Command{Kind: &pb.Command_Took{Took: &took}})
		}
	}
}

// deal calls what an event is for.
func (c *conn) deal(e *pb.Event, took *pb.Took) {
	var n uint64
	switch k := e.GetKind().(type) {
	case *pb.Event_Sent:
		n = k.Sent.GetCall()
	case *pb.Event_RequestDone:
		n = k.RequestDone.GetCall()
	case *pb.Event_AskDone:
		n = k.AskDone.GetCall()
	case *pb.Event_PeerRequestDone:
		n = k.PeerRequestDone.GetCall()
	}
	if n != 0 {
		took.Calls++
		if call, open := c.take(n); open {
			call.done(e)
		}
		return
	}
	if e.GetBegin() == nil {
		took.Events++
	}
	if c.session == nil {
		if m := e.GetMessage(); m.GetToken() != 0 {
			c.Answer(ext.Token(m.GetToken()), ext.Verdict{})
		}
		return
	}
	switch k := e.GetKind().(type) {
	case *pb.Event_Message:
		m := k.Message
		c.session.Message(ext.Message{Op: m.GetOp(), XID: m.GetXid(), Credit: m.GetCredit(), Reply: m.GetReply(), Optional: m.GetOptional(),
			Info: m.GetInfo(), Token: ext.Token(m.GetToken())})
	case *pb.Event_Attached:
		if w, ok := c.session.(ext.Watcher); ok {
			w.Attached(k.Attached.GetXid(), k.Attached.GetOp(), k.Attached.GetInfo())
		}
	case *pb.Event_PeerValue:
		if o, ok := c.session.(ext.Owner); ok {
			o.PeerValue(k.PeerValue.GetId(), k.PeerValue.GetValue(), k.PeerValue.GetDef())
		}
	case *pb.Event_Requested:
		if o, ok := c.session.(ext.Owner); ok {
			o.Requested(ext.Token(k.Requested.GetToken()), k.Requested.GetId(), k.Requested.GetValue())
			return
		}
		c.Settle(ext.Token(k.Requested.GetToken()), ext.Change{Kind: ext.Rejected})
	default:
		c.carry(e)
	}
}

// carry is deal for what only a carrier gets.
func (c *conn) carry(e *pb.Event) {
	carrier, ok := c.session.(ext.Carrier)
	if !ok {
		return
	}
	switch k := e.GetKind().(type) {
	case *pb.Event_Offered:
		value := k.Offered.GetValue()
		if k.Offered.GetNone() {
			value = nil
		} else if value == nil {
			value = []byte{}
		}
		carrier.Offered(k.Offered.GetId(), value, k.Offered.GetFixed())
	case *pb.Event_Asked:
		carrier.Asked(ext.Token(k.Asked.GetToken()), k.Asked.GetId(), k.Asked.GetValue())
	case *pb.Event_Begin:
		carrier.Begin()
	}
}

// closed ends what is open, then the Session.
func (c *conn) closed(err error) {
	c.mu.Lock()
	c.over = true
	calls := c.calls
	c.calls = nil
	c.mu.Unlock()
	order := make([]uint64, 0, len(calls))
	for call := range calls {
		order = append(order, call)
	}
	slices.Sort(order)
	for _, call := range order {
		calls[call].done(nil)
	}
	if c.session != nil {
		c.session.Closed(err)
	}
}

// command sends a command of this connection's; after its end, none.
func (c *conn) command(m *pb.Command) { c.commandOf(0, m) }

// commandOf sends the command of a call, 0 for none. Where it is lost the call ends in its turn.
func (c *conn) commandOf(n uint64, m *pb.Command) {
	c.mu.Lock()
	over := c.over
	c.mu.Unlock()
	if over {
		return
	}
	m.Conn = c.id
	err := c.l.send(m)
	if err == nil {
		return
	}
	if call, open := c.take(n); open {
		c.push(item{local: func() { call.unsent(err) }})
	}
}

// begin numbers a command that wants to hear its end; not ok: the connection is over, or there are too many, and unsent is called in its turn.
func (c *conn) begin(done func(*pb.Event), unsent func(error)) (n uint64, ok bool) {
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return 0, false
	}
	if len(c.calls) >= MaxCalls {
		c.mu.Unlock()
		c.push(item{local: func() { unsent(errCalls) }})
		return 0, false
	}
	defer c.mu.Unlock()
	c.last++
	c.calls[c.last] = call{done, unsent}
	return c.last, true
}

// take ends call n, if it is open.
func (c *conn) take(n uint64) (call, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call, open := c.calls[n]
	delete(c.calls, n)
	return call, open
}

// Facts implements ext.Conn.
func (c *conn) Facts() ext.Facts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.facts
}

// Send implements ext.Conn.
func (c *conn) Send(m ext.Outgoing, done func(ext.Outcome)) {
	s := &pb.Send{Op: valid(m.Op), Info: slices.Clone(m.Info), Optional: m.Optional}
	if len(s.Info) > ext.MaxInfo { // no declaration allows it
		if done != nil {
			c.push(item{local: func() { done(ext.Outcome{Kind: ext.NotSent}) }})
		}
		return
	}
	if done != nil {
		n, ok := c.begin(func(e *pb.Event) {
			if e == nil {
				done(ext.Outcome{Kind: ext.Lost})
				return
			}
			done(e.GetSent().Ext())
		}, func(error) { done(ext.Outcome{Kind: ext.NotSent}) })
		if !ok {
			return
		}
		s.Call = n
	}
	c.commandOf(s.GetCall(), &pb.Command{Kind: &pb.Command_Send{Send: s}})
}

// Answer implements ext.Conn.
func (c *conn) Answer(t ext.Token, v ext.Verdict) {
	v.Info = slices.Clone(v.Info)
	c.command(&pb.Command{Kind: &pb.Command_Answer{Answer: &pb.Answer{Token: uint64(t), Verdict: pb.FromVerdict(v)}}})
}

// Request implements ext.Conn.
func (c *conn) Request(r ext.Request, done func(error)) {
	m := pb.FromRequest(0, r)
	if m == nil {
		if done != nil {
			c.push(item{local: func() { done(&ext.RequestError{Request: r, Why: "no plugin can ask for it"}) }})
		}
		return
	}
	if done != nil {
		n, ok := c.begin(func(e *pb.Event) {
			d := e.GetRequestDone()
			switch {
			case e == nil:
				done(net.ErrClosed)
			case d.GetOk():
				done(nil)
			case d.GetRefused():
				done(&ext.RequestError{Request: r, Why: d.GetWhy()})
			default:
				done(errors.New(d.GetWhy()))
			}
		}, done)
		if !ok {
			return
		}
		m.Call = n
	}
	c.commandOf(m.GetCall(), &pb.Command{Kind: &pb.Command_Request{Request: m}})
}

// Offer implements ext.Conn.
func (c *conn) Offer(id uint32, value []byte, fixed bool) {
	c.command(&pb.Command{Kind: &pb.Command_Offer{Offer: &pb.PropValue{Id: id, Value: slices.Clone(value), None: value == nil, Fixed: fixed}}})
}

// Ask implements ext.Conn.
func (c *conn) Ask(id uint32, value []byte, done func(ext.Change)) {
	if n, ok := c.change(value, done, (*pb.Event).GetAskDone); ok {
		c.commandOf(n, &pb.Command{Kind: &pb.Command_Ask{Ask: &pb.Ask{Call: n, Id: id, Value: slices.Clone(value)}}})
	}
}

// change is a call that ends with a Change.
func (c *conn) change(value []byte, done func(ext.Change), of func(*pb.Event) *pb.ChangeDone) (n uint64, ok bool) {
	if done == nil {
		return 0, len(value) <= ext.MaxInfo
	}
	unsupported := func() { done(ext.Change{Kind: ext.Unsupported}) }
	if len(value) > ext.MaxInfo { // no property is as long
		c.push(item{local: unsupported})
		return 0, false
	}
	return c.begin(func(e *pb.Event) {
		if e == nil {
			unsupported()
			return
		}
		done(of(e).GetChange().Ext())
	}, func(error) { unsupported() })
}

// Settle implements ext.Conn.
func (c *conn) Settle(t ext.Token, v ext.Change) {
	v.Value = slices.Clone(v.Value)
	c.command(&pb.Command{Kind: &pb.Command_Settle{Settle: &pb.Settle{Token: uint64(t), Change: pb.FromChange(v)}}})
}

// Attach implements ext.Conn.
func (c *conn) Attach(op string, info []byte) {
	c.command(&pb.Command{Kind: &pb.Command_Attach{Attach: &pb.Attach{Op: valid(op), Info: slices.Clone(info), End: info == nil}}})
}

// Consumed implements ext.Conn.
func (c *conn) Consumed(op string, n int) {
	if n > 0 {
		c.command(&pb.Command{Kind: &pb.Command_Consumed{Consumed: &pb.Consumed{Op: valid(op), N: uint32(min(n, 1<<20))}}})
	}
}

// Open implements ext.Conn.
func (c *conn) Open() { c.command(&pb.Command{Kind: &pb.Command_Open{Open: &pb.Open{}}}) }

// Fail implements ext.Conn.
func (c *conn) Fail(err error) {
	text := "it gave no reason"
	if err != nil {
		text = err.Error()
	}
	c.command(&pb.Command{Kind: &pb.Command_Fail{Fail: &pb.Fail{Error: valid(text)}}})
}

// Declared implements ext.CarrierConn.
func (c carrierConn) Declared() []ext.Prop { return slices.Clone(c.declared) }

// Peer implements ext.CarrierConn.
func (c carrierConn) Peer(id uint32, value []byte, def bool) {
	c.command(&pb.Command{Kind: &pb.Command_Peer{Peer: &pb.PropValue{Id: id, Value: slices.Clone(value), Def: def}}})
}

// Requested implements ext.CarrierConn.
func (c carrierConn) Requested(id uint32, value []byte, done func(ext.Change)) {
	if n, ok := c.change(value, done, (*pb.Event).GetPeerRequestDone); ok {
		c.commandOf(n, &pb.Command{Kind: &pb.Command_PeerRequest{PeerRequest: &pb.Ask{Call: n, Id: id, Value: slices.Clone(value)}}})
	}
}

// valid is s as the protocol takes it.
func valid(s string) string { return strings.ToValidUTF8(s, "?") }
