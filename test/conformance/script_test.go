package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/chunk"
	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/props"
	_ "github.com/rpcrdma/rpcrdma/providers/iwarp"
	_ "github.com/rpcrdma/rpcrdma/providers/loopback"
	"github.com/rpcrdma/rpcrdma/test/octets"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is an exchange of octets with our server ("responder") or our client ("requester"). Its lines:
//
//	> OCTETS               the peer sends
//	>inv KEY OCTETS        the peer sends with invalidate
//	< OCTETS               exactly this comes next, by a plain Send
//	<inv KEY OCTETS        the same, by a Send With Invalidate of that key
//	good VERSION           a good call of that version is answered, and nothing came before its answer
//	closed                 the connection ends, at both sides
//	again                  the peer connects once more
//	mem NAME N r|w|rw [OCTETS]  memory of the peer's that we may read or write; it holds OCTETS, or ee
//	has NAME OCTETS        that memory begins with OCTETS
//	held N / release       N calls of HOLD are being served / all of them end
//	private [OCTETS]       what the peers of later connections say of themselves
//	peer                   a client of ours has connected; its connection becomes the peer
//	call PROC ARG… [into N]… [max N] [grow N] [gss]  our client calls
//	back PROC ARG… …       our server calls back who called BIND
//	cancel                 the caller of the last call wants no more of it
//	done [N] [OCTETS]      the last call, or the N-th, ends well, with these octets as results
//	fails [N] ERROR        it ends with that error
//	quiet                  nothing comes for a while
//	write KEY ADDRESS OCTETS / read KEY ADDRESS OCTETS   RDMA Write / Read by the peer
//	refused read KEY ADDRESS N   an RDMA Read by the peer that must fail
//	drop                   the peer ends the connection
//	count FIELD N          a counter of ours
//
// With extensions, props where script.props is set, and trial:
//
//	op NAME OCTETS         trial sends an operation; "NAME?": as RDMA2_OPTIONAL
//	ask ID OCTETS          we ask for a change of a property of the peer's
//	ended N KIND [CODE] [OCTETS]  what became of the N-th of these two kinds of step
//	pending N              nothing has yet, for a while
//	noted NAME OCTETS      trial got that operation
//	offer ID OCTETS        trial changes its property
//	attach OCTETS          trial wraps our calls from now on
//	open                   trial opens the connection that it gates
//	limit N                our Sends have at most so many octets
//	level N                so much of backward calls is taken, or may be sent (v2 draft §5.2.2)
//	over [ERROR]           the first exchange of properties is over, with that error or with <nil>
//	value ID OCTETS [default] [fixed]  the peer's value of a property; "unknown": there is none
//	props FIELD N          a counter of props
//
// OCTETS are hexadecimal, and: "text"; call:PROC and accepted:STAT, the RPC header of a call or reply with
// the XID of the message's first word (call:PROC@XID names another); p:N, N octets 01 02 03 …; z:N, N
// zeros; key:NAME and at:NAME, key and address of a mem; seg:NAME:LENGTH, its segment. What is expected may have * (any
// word) and $name: any word, the same where the name comes again; $name:8 takes eight octets; $name+1 is the word that follows on it.
type script struct {
	name    string
	private string             // what the peer says of itself, in hexadecimal; "": 4096 octets both ways; "none": nothing
	only    string             // a provider; "": every one
	query   string             // options of our client's provider
	opts    []rpc.ClientOption // ours; those of a server are ListenOptions too
	wait    time.Duration      // of quiet
	serves  bool               // our client serves the program to its server
	props   *props.Options
	trial   *trial // how the extension of the scripts is; it is loaded with props too
	steps   string
}

var schemes = []string{"loopback", "iwarp"}

// What a peer says of itself where a script does not tell: servers that they take Sends With Invalidate, as
// otherwise our client waits before its first message over iWARP (D-39).
const (
	clientPrivate = "f6ab0e18 01 00 03 03"
	serverPrivate = "f6ab0e18 01 01 03 03"
)

// session runs one script over one provider.
type session struct {
	t       *testing.T
	s       *script
	scheme  string
	line    string
	dom     verbs.Domain
	peer    *octets.Peer
	house   *house
	door    *listener
	client  *rpc.Client
	vars    map[string][]byte
	mems    map[string]*exposed
	calls   []*outcome
	private []byte
	goods   uint32
	ext     extended
}

type exposed struct {
	bytes []byte
	w     verbs.Window
}

type outcome struct {
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	res    results
	into   [][]byte
}

func runScripts(t *testing.T, client bool, scripts []script) {
	seen := make(map[string]bool)
	for i := range scripts {
		s := &scripts[i]
		if seen[s.name] {
			t.Fatalf("two scripts are named %s", s.name)
		}
		seen[s.name] = true
		t.Run(s.name, func(t *testing.T) {
			for _, scheme := range schemes {
				if s.only != "" && s.only != scheme {
					continue
				}
				t.Run(scheme, func(t *testing.T) { runScript(t, s, scheme, client) })
			}
		})
	}
}

func runScript(t *testing.T, s *script, scheme string, client bool) {
	x := &session{t: t, s: s, scheme: scheme, vars: make(map[string][]byte), mems: make(map[string]*exposed)}
	x.dom = octets.Open(t, scheme)
	switch s.private {
	case "none":
	case "":
		x.private = x.bytes(nil, clientPrivate)
		if client {
			x.private = x.bytes(nil, serverPrivate)
		}
	default:
		x.private = x.bytes(nil, s.private)
	}
	if client {
		x.door = listenPeer(t, scheme, x.dom, x.private)
		opts := x.option()
		if s.serves {
			x.house = newPrograms(t)
			opts = append(slices.Clone(opts), rpc.WithPrograms(x.house.srv))
		}
		c, err := rpc.NewClient(x.door.url+s.query, opts...)
		if err != nil {
			t.Fatal(err)
		}
		x.client = c
		t.Cleanup(func() {
			c.Close()
			for _, o := range x.calls {
				<-o.done
			}
		})
	} else {
		x.house = newHouse(t, scheme, listening(t, x.option())...)
		t.Cleanup(func() {
			x.house.srv.Close()
			x.house.back.Close()
			for _, o := range x.calls {
				<-o.done
			}
		})
		x.peer = dialPeer(t, x.dom, x.house.url, x.private)
	}
	x.run(s.steps)
}

// listening are a script's options for a listener.
func listening(t *testing.T, opts []rpc.ClientOption) (l []rpc.ListenOption) {
	t.Helper()
	for _, opt := range opts {
		o, ok := opt.(rpc.ListenOption)
		if !ok {
			t.Fatalf("an option of a server's script that is none of a listener: %T", opt)
		}
		l = append(l, o)
	}
	return l
}

// run goes through steps, line by line.
func (x *session) run(steps string) {
	x.t.Helper()
	for _, line := range strings.Split(steps, "\n") {
		if line, _, _ = strings.Cut(line, "//"); strings.TrimSpace(line) != "" {
			x.line = strings.TrimSpace(line)
			x.step()
		}
	}
}

func (x *session) fatalf(format string, a ...any) {
	x.t.Helper()
	x.t.Fatalf("%s\n%s", x.line, fmt.Sprintf(format, a...))
}

func (x *session) step() {
	x.t.Helper()
	word, rest, _ := strings.Cut(x.line, " ")
	args := strings.Fields(rest)
	switch word {
	case ">":
		x.send(verbs.OpSend, 0, rest)
	case ">inv":
		key, body, _ := strings.Cut(strings.TrimSpace(rest), " ")
		x.send(verbs.OpSendInvalidate, x.word(key), body)
	case "<":
		x.expect(x.next(), 0, rest)
	case "<inv":
		key, body, _ := strings.Cut(strings.TrimSpace(rest), " ")
		x.expect(x.next(), x.word(key), body)
	case "good":
		x.good(args[0])
	case "closed":
		select {
		case <-x.peer.Gone:
		case m := <-x.peer.In:
			x.fatalf("got % x", m.Bytes)
		case <-time.After(patience):
			x.fatalf("the connection lives")
		}
		for end := time.Now().Add(patience); x.client == nil && x.house.srv.Connections() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				x.fatalf("the connection lives at our side")
			}
		}
	case "again":
		x.peer = dialPeer(x.t, x.dom, x.house.url, x.private)
	case "drop":
		x.peer.Conn.Abort(errors.New("the script says so"))
	case "mem":
		x.memory(args, rest)
	case "has":
		want := x.bytes(nil, strings.TrimPrefix(strings.TrimSpace(rest), args[0]))
		if got := x.mems[args[0]].bytes[:len(want)]; !bytes.Equal(got, want) {
			x.fatalf("it holds\n% x, want\n% x", got, want)
		}
	case "held":
		for range x.number(args[0]) {
			select {
			case <-x.house.held:
			case <-time.After(patience):
				x.fatalf("not as many are being served")
			}
		}
	case "release":
		close(x.house.release)
	case "quiet":
		select {
		case m := <-x.peer.In:
			x.fatalf("got % x", m.Bytes)
		case <-time.After(max(x.s.wait, 20*time.Millisecond)):
		}
	case "write":
		b := x.bytes(nil, strings.Join(args[2:], " "))
		if err := x.peer.Post(verbs.Work{Op: verbs.OpWrite, Key: x.word(args[0]), Remote: x.long(args[1])}, b); err != nil {
			x.fatalf("%v", err)
		}
	case "read":
		want := x.bytes(nil, strings.Join(args[2:], " "))
		got, status := x.peer.Read(x.word(args[0]), x.long(args[1]), len(want))
		if status != verbs.OK || !bytes.Equal(got, want) {
			x.fatalf("%v, % x", status, got)
		}
	case "refused":
		if _, status := x.peer.Read(x.word(args[1]), x.long(args[2]), x.number(args[3])); status == verbs.OK {
			x.fatalf("the memory can be read")
		}
	case "count":
		x.count(args[0], uint64(x.number(args[1])))
	case "private":
		b := x.bytes(nil, rest)
		x.door.private.Store(&b)
	case "peer", "call", "back", "cancel", "done", "fails":
		x.clientStep(word, rest, args)
	case "op", "ask", "ended", "pending", "noted", "offer", "attach", "open", "limit", "level", "over", "value", "props":
		x.extStep(word, rest, args)
	default:
		x.fatalf("no such step")
	}
}

// next is the peer's next message.
func (x *session) next() octets.Message {
	x.t.Helper()
	m, err := x.peer.Next()
	if err != nil {
		x.fatalf("%v", err)
	}
	return m
}

func (x *session) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		x.fatalf("%v", err)
	}
	return n
}

func (x *session) word(token string) uint32 { return binary.BigEndian.Uint32(x.bytes(nil, token)) }
func (x *session) long(token string) uint64 { return binary.BigEndian.Uint64(x.bytes(nil, token)) }

func (x *session) send(op verbs.Op, key uint32, tokens string) {
	x.t.Helper()
	if err := x.peer.Post(verbs.Work{Op: op, Key: key}, x.bytes(nil, tokens)); err != nil {
		x.fatalf("%v", err)
	}
}

// good sends a call of ECHO and expects its reply to be what comes next.
func (x *session) good(version string) {
	x.t.Helper()
	x.goods++
	xid := fmt.Sprintf("%08x", 0x600d0000+x.goods)
	lists := "00000000 00000000 00000000"
	back := lists
	if version == "2" {
		lists, back = "00000000 00000000 "+lists, "00000001 00000000 "+back
	}
	head := xid + " 0000000" + version
	x.send(verbs.OpSend, 0, head+" 00000020 00000000 "+lists+` call:ECHO 00000004 "good"`)
	x.expect(x.next(), 0, head+" * 00000000 "+back+` accepted:0 00000004 "good"`)
}

func (x *session) memory(args []string, rest string) {
	n := x.number(args[1])
	reg, err := x.dom.Alloc(n)
	if err != nil {
		x.t.Fatal(err)
	}
	m := &exposed{bytes: reg.Bytes()[:n]}
	for i := range m.bytes {
		m.bytes[i] = 0xee
	}
	if fields := strings.SplitN(strings.TrimSpace(rest), " ", 4); len(fields) > 3 {
		copy(m.bytes, x.bytes(nil, fields[3]))
	}
	var access verbs.Access
	if strings.Contains(args[2], "r") {
		access |= verbs.RemoteRead
	}
	if strings.Contains(args[2], "w") {
		access |= verbs.RemoteWrite
	}
	if err := x.peer.Conn.Expose(&m.w, reg, 0, n, access); err != nil {
		x.t.Fatal(err)
	}
	x.mems[args[0]] = m
}

// fields splits octets at spaces, but for those in quotes.
func fields(s string) (out []string) {
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		end := strings.IndexByte(s, ' ')
		if s[0] == '"' {
			end = strings.IndexByte(s[1:], '"') + 2
		}
		if end <= 0 {
			end = len(s)
		}
		out, s = append(out, s[:end]), s[end:]
	}
	return out
}

// bytes appends the octets that tokens stand for; none of them may be unknown yet.
func (x *session) bytes(b []byte, tokens string) []byte {
	x.t.Helper()
	for _, tok := range fields(tokens) {
		b = x.token(b, tok)
	}
	return b
}

func (x *session) token(b []byte, tok string) []byte {
	x.t.Helper()
	be := binary.BigEndian
	kind, arg, _ := strings.Cut(tok, ":")
	switch {
	case tok[0] == '"':
		return append(b, strings.Trim(tok, `"`)...)
	case tok[0] == '$':
		name, _, _ := strings.Cut(tok[1:], ":")
		name, next := strings.CutSuffix(name, "+1")
		v, ok := x.vars[name]
		if !ok {
			x.fatalf("%s is not known yet", tok)
		}
		if next {
			return be.AppendUint32(b, be.Uint32(v)+1)
		}
		return append(b, v...)
	case kind == "call":
		name, xid, other := strings.Cut(arg, "@")
		proc := procedures[name]
		if other {
			b = x.token(b, xid)
		} else {
			b = append(b, b[:4]...)
		}
		for _, w := range []uint32{0, 2, proc.Program, proc.Version, proc.Number, 0, 0, 0, 0} {
			b = be.AppendUint32(b, w)
		}
		return b
	case kind == "accepted":
		stat, xid, other := strings.Cut(arg, "@")
		if other {
			b = x.token(b, xid)
		} else {
			b = append(b, b[:4]...)
		}
		for _, w := range []uint32{1, 0, 0, 0, uint32(x.number(stat))} {
			b = be.AppendUint32(b, w)
		}
		return b
	case kind == "p":
		return append(b, pattern(x.number(arg))...)
	case kind == "z":
		return append(b, make([]byte, x.number(arg))...)
	case kind == "key":
		return be.AppendUint32(b, x.mems[arg].w.Key)
	case kind == "at":
		return be.AppendUint64(b, x.mems[arg].w.Addr)
	case kind == "seg":
		name, n, _ := strings.Cut(arg, ":")
		b = be.AppendUint32(b, x.mems[name].w.Key)
		b = be.AppendUint32(b, uint32(x.number(n)))
		return be.AppendUint64(b, x.mems[name].w.Addr)
	}
	v, err := hex.DecodeString(tok)
	if err != nil {
		x.fatalf("token %s: %v", tok, err)
	}
	return append(b, v...)
}

// expect compares a message octet by octet with what tokens say.
func (x *session) expect(m octets.Message, invalidated uint32, tokens string) {
	x.t.Helper()
	if m.Invalidated != invalidated {
		x.fatalf("key %#x was invalidated, want %#x", m.Invalidated, invalidated)
	}
	at := 0
	for _, tok := range fields(tokens) {
		n, name := 0, ""
		switch {
		case tok == "*":
			n = 4
		case tok[0] == '$' && !strings.HasSuffix(tok, "+1"):
			var size string
			if name, size, _ = strings.Cut(tok[1:], ":"); x.vars[name] == nil {
				if n = 4; size != "" {
					n = x.number(size)
				}
			}
		}
		if n > 0 {
			if at+n > len(m.Bytes) {
				x.fatalf("the message ends before %s:\n% x", tok, m.Bytes)
			}
			if name != "" {
				x.vars[name] = bytes.Clone(m.Bytes[at : at+n])
			}
			at += n
			continue
		}
		want := x.token(bytes.Clone(m.Bytes[:min(at, len(m.Bytes))]), tok)[at:]
		if at+len(want) > len(m.Bytes) || !bytes.Equal(want, m.Bytes[at:at+len(want)]) {
			x.fatalf("at octet %d, %s: want\n% x, got\n% x", at, tok, want, m.Bytes[at:])
		}
		at += len(want)
	}
	if at != len(m.Bytes) {
		x.fatalf("%d octets more than expected: % x", len(m.Bytes)-at, m.Bytes[at:])
	}
}

func (x *session) clientStep(word, rest string, args []string) {
	x.t.Helper()
	switch word {
	case "peer":
		select {
		case x.peer = <-x.door.peers:
		case <-time.After(patience):
			x.fatalf("no connection came")
		}
	case "call":
		x.call(rest, x.client)
	case "back":
		x.call(rest, x.house.back)
	case "cancel":
		x.calls[len(x.calls)-1].cancel()
	case "done":
		o, rest := x.ended(args, rest)
		if o.err != nil {
			x.fatalf("it failed: %v", o.err)
		}
		if strings.TrimSpace(rest) != "" {
			if want := x.bytes(nil, rest); !bytes.Equal(o.res.all, want) {
				x.fatalf("its results are\n% x, want\n% x", o.res.all, want)
			}
		}
	case "fails":
		o, rest := x.ended(args, rest)
		if !failure(o.err, strings.TrimSpace(rest)) {
			x.fatalf("it ended with %v", o.err)
		}
	}
}

// ended waits for the call that args name, the last one if they name none.
func (x *session) ended(args []string, rest string) (*outcome, string) {
	x.t.Helper()
	o := x.calls[len(x.calls)-1]
	if len(args) > 0 && len(args[0]) == 1 && args[0] >= "1" && args[0] <= "9" {
		o = x.calls[x.number(args[0])-1]
		rest = strings.TrimPrefix(strings.TrimSpace(rest), args[0])
	}
	select {
	case <-o.done:
	case <-time.After(patience):
		x.fatalf("the call has not ended")
	}
	return o, rest
}

// caller is a Client or a Backchannel.
type caller interface {
	Call(context.Context, *rpc.Proc, xdr.Marshaler, xdr.Unmarshaler, ...rpc.CallOption) error
}

func (x *session) call(line string, c caller) {
	x.t.Helper()
	toks := fields(line)
	proc := procedures[toks[0]]
	ctx, cancel := context.WithCancel(context.Background())
	o := &outcome{cancel: cancel, done: make(chan struct{}), res: results{proc: proc}}
	args := arguments{bulk: proc.Binding.Args}
	opts := []rpc.CallOption{rpc.MaxReply(16)}
	for i := 1; i < len(toks); i++ {
		tok := toks[i]
		n, err := strconv.Atoi(tok)
		switch {
		case tok == "into":
			i++
			buf := make([]byte, x.number(toks[i]))
			o.into = append(o.into, buf)
			opts = append(opts, rpc.Into(buf))
		case tok == "max":
			i++
			opts[0] = rpc.MaxReply(x.number(toks[i]))
		case tok == "gss":
			opts = append(opts, rpc.WithCred(&rpcmsg.Auth{Flavor: rpcmsg.AuthRPCGSS, Body: x.bytes(nil, "00000001 00000000 00000001 00000003 00000000")}))
		case tok == "grow":
			i++
			opts = append(opts, rpc.MayGrow(x.number(toks[i])))
		case err == nil:
			args.items = append(args.items, uint32(n))
		default:
			args.items = append(args.items, x.bytes(nil, tok))
		}
	}
	x.calls = append(x.calls, o)
	go func() {
		defer close(o.done)
		defer cancel()
		o.err = c.Call(ctx, proc, args, &o.res, opts...)
	}()
}

// failure tells whether err is the error of that name; "ERR n" is an RDMA_ERROR with code n.
func failure(err error, name string) bool {
	if code, ok := strings.CutPrefix(name, "ERR "); ok {
		var te *engine.TransportError
		return errors.As(err, &te) && fmt.Sprint(uint32(te.Body.Code)) == code && errors.Is(err, transport.ErrRefused)
	}
	if name == "Garbled" { // the results' decoder says so
		return errors.Is(err, xdr.ErrShort) || errors.Is(err, xdr.ErrBounds) || errors.Is(err, xdr.ErrChunk)
	}
	if name == "NotSent" {
		var backward *transport.BackwardError
		var plan *chunk.PlanError
		return errors.As(err, &backward) || errors.As(err, &plan)
	}
	want, ok := map[string]error{
		"BadReply": engine.ErrBadReply, "Timeout": transport.ErrTimeout, "Version": engine.ErrVersion,
		"Lost": net.ErrClosed, "Cancelled": context.Canceled, "TooLong": verbs.ErrTooLong,
	}[name]
	return ok && errors.Is(err, want)
}

// count waits until a counter of ours has that value.
func (x *session) count(field string, want uint64) {
	x.t.Helper()
	var got uint64
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var n obs.Counters
		if x.client != nil {
			n = x.client.Counters()
		} else {
			n = x.house.srv.Counters()
		}
		if got = reflect.ValueOf(n).FieldByName(field).Uint(); got == want {
			return
		}
	}
	x.fatalf("it is %d", got)
}
