package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/props"
)

// TestProperties exchanges property operations with our server and our client.
func TestProperties(t *testing.T) {
	t.Run("server", func(t *testing.T) { runScripts(t, false, propertiesServer()) })
	t.Run("client", func(t *testing.T) { runScripts(t, true, propertiesClient()) })
}

// TestOperations exchanges operations of an extension with our server and our client.
func TestOperations(t *testing.T) {
	t.Run("server", func(t *testing.T) { runScripts(t, false, operationsServer()) })
	t.Run("client", func(t *testing.T) { runScripts(t, true, operationsClient()) })
}

// The ids of the trial extension (v2 draft §5.4.2).
const (
	idAsk    = 0xffffff20 // answered by idTold, with what it said; in both forms
	idTold   = 0xffffff21
	idNote   = 0xffffff22 // one-way
	idMute   = 0xffffff23 // is to be answered, and never is
	idWrap   = 0xffffff24 // carries an RPC message
	idDepth  = 0xffffff10 // a property: 1 to 64, default 1; may change, to 8 at most
	idStrict = 0xffffff11 // a property that never changes
)

var (
	depth  = props.Uint32(idDepth, "depth", 1, props.Range(1, 64), props.Mutable)
	strict = props.Bool(idStrict, "strict", false)
)

// trial is the extension that the scripts load.
type trial struct {
	offers bool // it begins with a depth of 4, and with strict, fixed
	absent bool // it has no session: as where its plugin is down
	gate   bool // it gates connections

	up chan *trialSession
}

type trialSession struct {
	conn ext.Conn
	id   uint64 // the connection's
	note chan ext.Message

	mu   sync.Mutex
	want map[uint32][]byte // the peer's properties
}

func (x *trial) Declare() ext.Declaration {
	return ext.Declaration{
		Name: "trial", Version: "1", Gate: x.gate,
		Ops: []ext.Op{
			{Name: "ask", Type: idAsk, Proc: idAsk, Answer: "told", Deadline: time.Minute},
			{Name: "told", Type: idTold, Proc: idTold, Reply: true, Credit: true},
			{Name: "note", Type: idNote, Deadline: time.Minute},
			{Name: "mute", Type: idMute, Answer: "mute", Deadline: 20 * time.Millisecond},
			{Name: "wrap", Type: idWrap, Payload: ext.Wraps},
		},
		Props:  []ext.Prop{depth.Prop(), strict.Prop()},
		Limits: ext.Limits{Info: 64},
	}
}

func (x *trial) Connect(c ext.Conn) ext.Session {
	s := &trialSession{conn: c, id: c.Facts().ID, note: make(chan ext.Message, 64), want: make(map[uint32][]byte)}
	if x.offers {
		depth.Offer(c, 4)
		strict.Fix(c, true)
	}
	x.up <- s
	if x.absent {
		return nil
	}
	return s
}

// Message implements ext.Session.
func (s *trialSession) Message(m ext.Message) {
	switch {
	case string(m.Info) == "fall":
		panic("the script says so")
	case m.Op == "ask":
		s.conn.Answer(m.Token, ext.Verdict{Kind: ext.Answer, Info: m.Info})
	case m.Op != "mute":
		s.note <- m
		s.conn.Answer(m.Token, ext.Verdict{Kind: ext.Accept})
	}
}

// Closed implements ext.Session.
func (s *trialSession) Closed(error) {}

// PeerValue implements ext.Owner.
func (s *trialSession) PeerValue(id uint32, value []byte, def bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.want[id] = value
}

// Requested implements ext.Owner: up to 8 is granted, of more 8, and 7 is too dear.
func (s *trialSession) Requested(t ext.Token, id uint32, value []byte) {
	v, err := depth.Decode(value)
	c := ext.Change{Kind: ext.Done}
	switch {
	case id != idDepth || err != nil || v == 7:
		c = ext.Change{Kind: ext.Rejected}
	case v > 8:
		c = depth.Instead(8)
	}
	s.conn.Settle(t, c)
}

// extended is what a session has of its extensions.
type extended struct {
	props *props.Extension
	trial *trial
	on    *trialSession // on the connection
	ends  []chan string // of what was sent and asked
}

// option loads the extensions of a script.
func (x *session) option() []rpc.ClientOption {
	x.ext.trial = x.s.trial
	if x.ext.trial == nil && x.s.props == nil {
		return x.s.opts
	}
	fresh := trial{}
	if x.s.trial != nil {
		fresh = *x.s.trial
	}
	fresh.up = make(chan *trialSession, 64)
	x.ext.trial = &fresh
	all := []ext.Extension{&fresh}
	if x.s.props != nil {
		x.ext.props = props.New(*x.s.props)
		all = append(all, x.ext.props)
	}
	set, err := ext.NewSet(all...)
	if err != nil {
		x.t.Fatal(err)
	}
	return append(slices.Clone(x.s.opts), rpc.WithExtensions(set))
}

// begun waits for the extension on the newest connection.
func (x *session) begun() *trialSession {
	x.t.Helper()
	if x.ext.on != nil {
		select {
		case x.ext.on = <-x.ext.trial.up:
		default:
		}
		return x.ext.on
	}
	select {
	case x.ext.on = <-x.ext.trial.up:
	case <-time.After(patience):
		x.fatalf("no extension has begun")
	}
	return x.ext.on
}

// extStep is a step that extensions take.
func (x *session) extStep(word, rest string, args []string) {
	x.t.Helper()
	on := x.begun()
	end := make(chan string, 1)
	switch word {
	case "op":
		info := x.bytes(nil, strings.Join(args[1:], " "))
		name, optional := strings.CutSuffix(args[0], "?")
		on.conn.Send(ext.Outgoing{Op: name, Info: info, Optional: optional}, func(o ext.Outcome) {
			end <- strings.TrimSpace(fmt.Sprintf("%v %s%s", o.Kind, code(o), bytes.TrimRight(o.Info, "\x00")))
		})
		x.ext.ends = append(x.ext.ends, end)
	case "ask":
		id, value := x.word(args[0]), x.bytes(nil, strings.Join(args[1:], " "))
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		x.t.Cleanup(cancel)
		go func() {
			c, err := x.ext.props.Ask(ctx, on.id, id, value)
			if err != nil {
				end <- fmt.Sprintf("%v: not asked", c.Kind)
				return
			}
			end <- strings.TrimSpace(fmt.Sprintf("%v %x", c.Kind, c.Value))
		}()
		x.ext.ends = append(x.ext.ends, end)
	case "ended":
		n, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
		select {
		case got := <-x.ext.ends[x.number(n)-1]:
			if got != rest {
				x.fatalf("it ended with %q", got)
			}
		case <-time.After(patience):
			x.fatalf("it has not ended")
		}
	case "pending":
		select {
		case got := <-x.ext.ends[x.number(args[0])-1]:
			x.fatalf("it ended with %q", got)
		case <-time.After(20 * time.Millisecond):
		}
	case "noted":
		select {
		case m := <-on.note:
			if want := x.bytes(nil, strings.Join(args[1:], " ")); m.Op != args[0] || !bytes.Equal(m.Info, want) {
				x.fatalf("it was %+v", m)
			}
		case <-time.After(patience):
			x.fatalf("nothing was")
		}
	case "offer":
		on.conn.Offer(x.word(args[0]), x.bytes(nil, strings.Join(args[1:], " ")), false)
	case "attach":
		on.conn.Attach("wrap", x.bytes(nil, rest))
	case "open":
		on.conn.Open()
	case "limit":
		x.until(func() string {
			if n := on.conn.Facts().SendLimit; n != x.number(args[0]) {
				return fmt.Sprintf("it is %d", n)
			}
			return ""
		})
	case "level":
		x.until(func() string {
			if l := on.conn.Facts().Backward; int(l) != x.number(args[0]) {
				return fmt.Sprintf("it is %d", l)
			}
			return ""
		})
	case "over":
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := x.ext.props.Wait(ctx, on.id); fmt.Sprint(err) != strings.TrimSpace(rest) {
			x.fatalf("it says: %v", err)
		}
	case "value":
		x.value(on, x.word(args[0]), strings.Join(args[1:], " "))
	case "props":
		x.until(func() string {
			n := reflect.ValueOf(x.ext.props.Counters()).FieldByName(args[0]).Uint()
			if n != uint64(x.number(args[1])) {
				return fmt.Sprintf("it is %d", n)
			}
			return ""
		})
	}
}

func code(o ext.Outcome) string {
	if o.Kind != ext.Refused {
		return ""
	}
	return fmt.Sprint(uint32(o.Code))
}

// value waits until the peer's value of a property is as want says, for all who look: "OCTETS [default] [fixed]".
func (x *session) value(on *trialSession, id uint32, want string) {
	x.t.Helper()
	x.until(func() string {
		s, err := x.ext.props.Peer(on.id)
		if err != nil {
			return err.Error()
		}
		v, ok := s.Get(id)
		got := fmt.Sprintf("%x", v.Data)
		if v.Default {
			got += " default"
		}
		if v.Fixed {
			got += " fixed"
		}
		on.mu.Lock()
		told := on.want[id]
		on.mu.Unlock()
		switch {
		case !ok && want != "unknown":
			return "it is not known"
		case ok && strings.TrimSpace(got) != want:
			return "it is " + got
		case id == idDepth && !bytes.Equal(told, v.Data):
			return fmt.Sprintf("its owner was told %x", told)
		}
		return ""
	})
}

// until waits for what to say nothing.
func (x *session) until(what func() string) {
	x.t.Helper()
	said := what()
	for end := time.Now().Add(patience); said != "" && time.Now().Before(end); said = what() {
		time.Sleep(time.Millisecond)
	}
	if said != "" {
		x.fatalf("%s", said)
	}
}

// set is a propset: NAME=WORD, NAME= for a value of no octets, or NUMBER=… for any property.
func set(values ...string) string {
	ids := map[string]uint32{"rbsiz": props.RBSIZ, "brs": props.BRS, "depth": idDepth, "strict": idStrict}
	var b strings.Builder
	fmt.Fprintf(&b, "%08x", len(values))
	for _, v := range values {
		name, value, _ := strings.Cut(v, "=")
		id, ok := ids[name]
		if !ok {
			fmt.Sscan(name, &id)
		}
		var n uint32
		if value == "" {
			fmt.Fprintf(&b, " %08x 00000000", id)
			continue
		}
		fmt.Sscan(value, &n)
		fmt.Fprintf(&b, " %08x 00000004 %08x", id, n)
	}
	return b.String()
}

// nobody and bits are propsubsets.
const nobody = "00000000"

func bits(at ...int) string {
	var words []uint32
	for _, n := range at {
		for len(words) <= n/32 {
			words = append(words, 0)
		}
		words[n/32] |= 1 << (n % 32)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(len(words)))
	for _, w := range words {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return fmt.Sprintf("%x", b)
}
