package host

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/extensions/sdk"
	pb "github.com/rpcrdma/rpcrdma/extensions/sdk/extensionpb"
)

// strict is an engine that checks what gets through to it.
type strict struct {
	engine
	decl     *ext.Declaration
	asked    map[ext.Token]bool // questions: true once they are answered
	attached map[string]bool
}

func (e *strict) declared(op string) *ext.Op {
	for i := range e.decl.Ops {
		if e.decl.Ops[i].Name == op {
			return &e.decl.Ops[i]
		}
	}
	e.t.Errorf("operation %q reached the engine", op)
	return &ext.Op{}
}

func (e *strict) short(info []byte) {
	if len(info) > ext.MaxInfo {
		e.t.Errorf("%d bytes reached the engine", len(info))
	}
}

func (e *strict) own(id uint32) {
	for _, p := range e.decl.Props {
		if p.ID == id {
			return
		}
	}
	e.t.Errorf("property %d reached the engine", id)
}

func (e *strict) answered(t ext.Token) {
	done, ok := e.asked[t]
	if !ok || done {
		e.t.Errorf("question %d is answered, asked %t, answered before %t", t, ok, done)
	}
	e.asked[t] = true
}

func (e *strict) Send(m ext.Outgoing, done func(ext.Outcome)) {
	e.declared(m.Op)
	e.short(m.Info)
	if done != nil {
		done(ext.Outcome{Kind: ext.NotSent})
	}
}

func (e *strict) Answer(t ext.Token, v ext.Verdict) { e.answered(t); e.short(v.Info) }
func (e *strict) Settle(t ext.Token, c ext.Change)  { e.answered(t); e.short(c.Value) }
func (e *strict) Offer(id uint32, v []byte, _ bool) { e.own(id); e.short(v) }
func (e *strict) Consumed(op string, _ int)         { e.declared(op) }

func (e *strict) Ask(id uint32, v []byte, done func(ext.Change)) {
	e.own(id)
	e.short(v)
	done(ext.Change{Kind: ext.Done})
}

func (e *strict) Attach(op string, info []byte) {
	if e.declared(op).Payload != ext.Wraps {
		e.t.Errorf("%q was attached, and wraps nothing", op)
	}
	e.short(info)
	e.attached[op] = info != nil
}

func (e *strict) Open() {
	if !e.decl.Gate {
		e.t.Error("opened, and not gated")
	}
}

func (e *strict) Peer(_ uint32, v []byte, _ bool) {
	if !e.decl.Carrier {
		e.t.Error("carries")
	}
	e.short(v)
}

func (e *strict) Requested(_ uint32, v []byte, done func(ext.Change)) {
	e.Peer(0, v, false)
	done(ext.Change{Kind: ext.Done})
}

// FuzzCommands: whatever a plugin sends, only what it has declared reaches the engine, within bounds; each question is
// answered once, by the plugin or, when that is gone, by its default.
func FuzzCommands(f *testing.F) {
	seed := func(flags byte, cs ...*pb.Command) {
		b, err := proto.Marshal(&pb.Commands{Commands: cs})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(flags, b)
	}
	seed(0, &pb.Command{Conn: 1, Kind: &pb.Command_Started{Started: &pb.Started{}}},
		&pb.Command{Conn: 1, Kind: &pb.Command_Answer{Answer: &pb.Answer{Token: 1, Verdict: &pb.Verdict{Kind: 1}}}},
		&pb.Command{Conn: 1, Kind: &pb.Command_Took{Took: &pb.Took{Events: 1}}})
	seed(3, &pb.Command{Conn: 1, Kind: &pb.Command_Send{Send: &pb.Send{Call: 1, Op: "note"}}},
		&pb.Command{Conn: 1, Kind: &pb.Command_Attach{Attach: &pb.Attach{Op: "wrap", Info: []byte("x")}}},
		&pb.Command{Conn: 1, Kind: &pb.Command_Open{Open: &pb.Open{}}},
		&pb.Command{Conn: 2, Kind: &pb.Command_Peer{Peer: &pb.PropValue{Id: 9}}})
	seed(1, &pb.Command{Conn: 1, Kind: &pb.Command_Settle{Settle: &pb.Settle{Token: 2, Change: &pb.Change{Kind: 1}}}},
		&pb.Command{Conn: 1, Kind: &pb.Command_Offer{Offer: &pb.PropValue{Id: 4294967041, Value: []byte{0, 0, 0, 1}}}},
		&pb.Command{Conn: 1, Kind: &pb.Command_Ask{Ask: &pb.Ask{Call: 1, Id: 4294967041}}},
		&pb.Command{Conn: 1, Kind: &pb.Command_Request{Request: pb.FromRequest(2, ext.ReceiveSize(8192))}},
		&pb.Command{Conn: 1, Kind: &pb.Command_Consumed{Consumed: &pb.Consumed{Op: "note", N: 1}}},
		&pb.Command{Conn: 1, Kind: &pb.Command_Fail{Fail: &pb.Fail{Error: "no"}}})
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	f.Fuzz(func(t *testing.T, flags byte, b []byte) {
		var cs pb.Commands
		if proto.Unmarshal(b, &cs) != nil || len(cs.GetCommands()) > 1000 {
			return
		}
		decl := ext.Declaration{
			Name: "fuzz", Version: "1", Carrier: flags&1 != 0, Gate: flags&2 != 0,
			Ops: []ext.Op{
				{Name: "echo", Type: 4294967040, Answer: "echo"}, {Name: "note", Type: 4294967041, Proves: true},
				{Name: "wrap", Type: 4294967042, Payload: ext.Wraps, Info: 100},
			},
			Props: []ext.Prop{{ID: 4294967041, Name: "level", Type: ext.Uint32, Mutable: true}},
		}
		p := &Plugin{c: Config{Name: "fuzz"}, log: log, decl: decl, queue: 64}
		x := &process{p: p, version: sdk.Version - int(flags>>2&1), sessions: map[uint64]*session{}, ready: make(chan struct{}, 1)}
		e := &strict{engine: engine{t: t}, decl: &decl, asked: map[ext.Token]bool{}, attached: map[string]bool{}}
		var up ext.Session = x.connect(e)
		s := x.sessions[1]
		token := ext.Token(0)
		ask := func() ext.Token { token++; e.asked[token] = false; return token }
		for i, c := range cs.GetCommands() {
			switch (int(flags>>3) + i) % 4 {
			case 0:
				up.Message(ext.Message{Op: "echo", XID: 7, Info: b, Token: ask()})
			case 1:
				s.Requested(ask(), 4294967041, []byte{0, 0, 0, 1})
			case 2:
				if carrier, ok := up.(ext.Carrier); ok {
					carrier.Asked(ask(), 1, nil)
				}
			}
			if wrong := x.command(c); strings.ContainsAny(wrong, "\n\x00\x1b") {
				t.Errorf("%q is not a line", wrong)
			}
			if s.waiting < 0 || s.ended < 0 || s.open < 0 || s.open > sdk.MaxCalls || len(s.tokens) > maxTokens {
				t.Fatalf("%d waiting, %d ended, %d open, %d tokens", s.waiting, s.ended, s.open, len(s.tokens))
			}
		}
		s.down(&DownError{Name: "fuzz"})
		for n, done := range e.asked {
			if !done {
				t.Errorf("question %d has no answer", n)
			}
		}
		for op, on := range e.attached {
			if on {
				t.Errorf("%q stays attached", op)
			}
		}
	})
}
