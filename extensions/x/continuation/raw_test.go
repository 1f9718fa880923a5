package continuation

import (
	"bytes"
	"encoding/binary"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
	"github.com/rpcrdma/rpcrdma/props"
	"github.com/rpcrdma/rpcrdma/test/octets"
)

// raw is a client that knows verbs and octets only: it sends what no extension of ours would.
type raw struct{ *octets.Peer }

func rawDial(t testing.TB, target string) *raw {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{octets.Dial(t, octets.Open(t, "loopback"), u.Host, octets.Config{
		Private:  wire.PrivateData{SendSize: 4096, RecvSize: 4096}.Append(nil),
		Receives: 400, Size: 4096, Out: 8 << 20, Patience: time.Minute,
	})}
	t.Cleanup(func() { r.Conn.Abort(nil); <-r.Gone })
	return r
}

func (r *raw) send(h *wire.Header, payload []byte) { r.Send(h.Append(nil), payload) }

// quiet fails if anything comes for a while.
func (r *raw) quiet() {
	r.TB.Helper()
	select {
	case m := <-r.In:
		r.TB.Fatalf("%x came", m.Bytes[:min(len(m.Bytes), 60)])
	case <-time.After(50 * time.Millisecond):
	}
}

func rawHead(xid uint32, p wire.Proc) *wire.Header { return octets.Head(xid, 2, p) }

func (r *raw) piece(xid, op uint32, p piece, payload []byte) {
	h := rawHead(xid, wire.Optional)
	h.OptType = op
	switch op {
	case PartType:
		h.OptInfo = p.append(nil)
	case LastType:
		h.OptInfo = (&wire.Header{Version: 2}).AppendChunkLists(p.append([]byte{0, 0, 0, pieceLen}))
	}
	r.send(h, payload)
}

func (r *raw) ack(taken uint32) {
	h := rawHead(0xaaaa0000+taken, wire.Optional)
	h.OptType, h.OptInfo = AckType, binary.BigEndian.AppendUint32(nil, taken)
	r.send(h, nil)
}

// rawCall is the RPC message of a call.
func rawCall(xid uint32, p *rpc.Proc, args xdr.Marshaler) []byte {
	var w xdr.Writer
	args.MarshalXDR(&w)
	return octets.Call(xid, p.Program, p.Number, w.Bytes()...)
}

// pieces sends a message whole, in so many bytes a piece.
func (r *raw) pieces(xid uint32, msg []byte, each int) {
	for at := 0; at < len(msg); {
		n := min(each, len(msg)-at)
		op := uint32(PartType)
		if at+n == len(msg) {
			op = LastType
		}
		r.piece(xid, op, piece{uint32(at), uint32(len(msg) - at - n)}, msg[at:at+n])
		at += n
	}
}

// greeted is a raw client with whom the server uses the extension.
func greeted(t testing.TB) (*pair, *raw) {
	t.Helper()
	p := connect(t, urls[0], []rpc.ClientOption{loaded(t, 0)}, []rpc.ListenOption{loaded(t, 0)})
	r := rawDial(t, p.c.Target().String())
	r.echo(1, 10)
	h := rawHead(2, wire.ConnProp)
	h.Props = []wire.Property{{ID: MaxMsgID, Data: binary.BigEndian.AppendUint32(nil, DefaultMax)}}
	r.send(h, nil)
	if h, _, _ := r.Parsed(); h.Proc != wire.ConnProp {
		t.Fatal(h.String())
	}
	if h, _, _ := r.Parsed(); h.OptType != AckType || !bytes.Equal(h.OptInfo, make([]byte, 4)) {
		t.Fatal(h.String())
	}
	r.ack(0)
	for xid := uint32(10); ; xid++ { // until the session has heard it
		r.send(rawHead(xid, wire.Msg), rawCall(xid, procRead, readArgs(6000)))
		h, _, _ := r.Parsed()
		if h.Proc == wire.ErrorMsg && h.Err.Code == wire.ErrReplyResource {
			continue
		}
		if h.OptType != PartType {
			t.Fatal(h.String())
		}
		if h, _, _ := r.Parsed(); h.OptType != LastType {
			t.Fatal(h.String())
		}
		r.ack(1)
		return p, r
	}
}

// echo calls ECHO in one Send and expects its answer next.
func (r *raw) echo(xid uint32, n int) {
	r.TB.Helper()
	r.send(rawHead(xid, wire.Msg), rawCall(xid, procEcho, blob(pattern(n))))
	if h, b, _ := r.Parsed(); h.Proc != wire.Msg || h.XID != xid || !bytes.HasSuffix(b, pattern(n &^ 3)[n&^3-4:n&^3]) && n%4 == 0 {
		r.TB.Fatalf("%s, %d bytes", h.String(), len(b))
	}
}

// message collects the next message, in pieces.
func (r *raw) message() (xid uint32, msg []byte, parts int) {
	r.TB.Helper()
	for {
		h, b, _ := r.Parsed()
		if msg == nil {
			xid = h.XID
		}
		info := h.OptInfo
		last := h.OptType == LastType
		if last {
			if err := h.Unwrap(-1, len(b)); err != nil {
				r.TB.Fatal(err)
			}
			info = h.OptInfo
		}
		p, ok := parsePiece(info)
		if !ok || h.XID != xid || h.Direction != wire.Reply || int(p.offset) != len(msg) || last != (p.remaining == 0) {
			r.TB.Fatalf("%s: %+v after %d bytes", h.String(), p, len(msg))
		}
		msg = append(msg, b...)
		if last {
			return xid, msg, parts
		}
		parts++
	}
}

// TestHostilePieces: each is refused once as soon as it is known to be wrong, what belongs to it once more at its end, and the
// connection carries on.
func TestHostilePieces(t *testing.T) {
	_, r := greeted(t)
	part := func(offset, remaining uint32, n int) func(uint32) {
		return func(xid uint32) { r.piece(xid, PartType, piece{offset, remaining}, pattern(n)) }
	}
	last := func(offset uint32, n int) func(uint32) {
		return func(xid uint32) { r.piece(xid, LastType, piece{offset, 0}, pattern(n)) }
	}
	bytesOf := func(op uint32, info, payload []byte) func(uint32) {
		return func(xid uint32) {
			h := rawHead(xid, wire.Optional)
			h.OptType, h.OptInfo = op, info
			r.send(h, payload)
		}
	}
	const bad, busy = wire.ErrBadXDR, wire.ErrSystem
	xid := uint32(1000)
	parts := 0
	for _, tc := range []struct {
		name  string
		sends []func(uint32)
		codes []wire.Code
	}{
		{"longer than announced", []func(uint32){part(0, 65536, 100), part(100, 65436, 100), last(200, 100)}, []wire.Code{bad, bad}},
		{"lengths that wrap", []func(uint32){part(0, 0xffffffff, 100)}, []wire.Code{bad}},
		{"the middle of nothing", []func(uint32){part(400, 100, 100)}, nil},
		{"the end of nothing", []func(uint32){last(400, 100)}, []wire.Code{bad}},
		{"a gap", []func(uint32){part(0, 900, 100), part(200, 700, 100), last(300, 100)}, []wire.Code{bad, bad}},
		{"an overlap", []func(uint32){part(0, 900, 100), part(96, 804, 100)}, []wire.Code{bad}},
		{"another length", []func(uint32){part(0, 900, 100), part(100, 900, 100)}, []wire.Code{bad}},
		{"an end too early", []func(uint32){part(0, 900, 100), last(100, 100)}, []wire.Code{bad}},
		{"begun twice", []func(uint32){part(0, 900, 100), part(0, 900, 100)}, []wire.Code{bad}},
		{"no bytes", []func(uint32){part(0, 900, 0)}, []wire.Code{bad}},
		{"no bytes at the end", []func(uint32){part(0, 900, 100), last(100, 0)}, []wire.Code{bad}},
		{"half an optinfo", []func(uint32){bytesOf(PartType, []byte{0, 0, 0, 0}, pattern(100))}, []wire.Code{bad}},
		{"a long optinfo", []func(uint32){bytesOf(PartType, make([]byte, 12), pattern(100))}, []wire.Code{bad}},
		{"no lists", []func(uint32){bytesOf(LastType, []byte{0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0}, pattern(100))}, []wire.Code{bad}},
		{"whole, and no RPC message", []func(uint32){part(0, 100, 100), last(100, 100)}, []wire.Code{bad}},
		{"an acknowledgement of what was never sent", []func(uint32){bytesOf(AckType, []byte{0, 1, 0, 0}, nil)}, []wire.Code{bad}},
		{"half an acknowledgement", []func(uint32){bytesOf(AckType, []byte{0, 1}, nil)}, []wire.Code{bad}},
	} {
		xid++
		for _, send := range tc.sends {
			send(xid)
		}
		parts += len(tc.sends)
		var got []wire.Code
		acks := 0
		r.send(rawHead(xid+0x10000, wire.Msg), rawCall(xid+0x10000, procEcho, blob("x"))) // an answer behind the last error, but of an acknowledgement
		for over := false; !over || len(got) < len(tc.codes); {
			h, _, _ := r.Parsed()
			switch {
			case h.Proc == wire.Msg:
				over = true
			case h.OptType == AckType:
				acks++
			case h.XID != xid:
				t.Fatalf("%s: %s", tc.name, h.String())
			default:
				got = append(got, h.Err.Code)
			}
		}
		if !slices.Equal(got, tc.codes) {
			t.Errorf("%s: answered by %v, want %v", tc.name, got, tc.codes)
		}
	}
	// A message too many; those before it are served.
	for i := range uint32(Open + 1) {
		r.piece(2000+i, PartType, piece{0, 8}, rawCall(2000+i, procEcho, blob("abcd"))[:40])
	}
	if h, _, _ := r.Parsed(); h.XID != 2000+Open || h.Err.Code != busy {
		t.Error(h.String())
	}
	for i := range uint32(Open) {
		r.piece(2000+i, LastType, piece{40, 0}, rawCall(2000+i, procEcho, blob("abcd"))[40:])
		if h, _, _ := r.Parsed(); h.XID != 2000+i || h.Proc != wire.Msg {
			t.Error(h.String())
		}
	}
	msg := rawCall(3000, procEcho, blob(pattern(30000)))
	r.pieces(3000, msg, 2000)
	acks := 0
	for {
		h, _, _ := r.Parsed()
		if h.OptType == AckType {
			acks++
			continue
		}
		break // the reply begins
	}
	if acks == 0 {
		t.Error("16 pieces were not acknowledged")
	}
}

// TestRepliesWait: without acknowledgements the window fills up, and replies wait in order; others pass them, and the
// acknowledgements let them go.
func TestRepliesWait(t *testing.T) {
	p, r := greeted(t)
	const each = 14 // Parts of a reply to READ of 60000, in Sends of 4096
	const fit = (Window - 1) / each
	for i := range uint32(fit + 3) {
		r.send(rawHead(100+i, wire.Msg), rawCall(100+i, procRead, readArgs(60000)))
		if i < fit {
			if xid, msg, parts := r.message(); xid != 100+i || parts != each || !bytes.HasSuffix(msg, pattern(60000)) {
				t.Fatalf("%d: %d parts of %d bytes", xid, parts, len(msg))
			}
		}
	}
	r.quiet()
	r.echo(200, 100)
	r.send(rawHead(201, wire.Msg), rawCall(201, procRead, readArgs(5000))) // there is a place for its one Part, but others come first
	r.quiet()
	r.ack(1 + 2*each)
	got := map[uint32]bool{}
	for range 2 { // handlers run at once: of the three, whose replies were ready first
		xid, msg, _ := r.message()
		got[xid] = xid >= 100+fit && xid < 100+fit+3 && bytes.HasSuffix(msg, pattern(60000))
	}
	r.quiet()
	if len(got) != 2 || !got[100+fit] && !got[101+fit] {
		t.Errorf("%v", got)
	}
	if n := p.srv.Counters(); n.Unplaced < 3 {
		t.Errorf("%d found no place", n.Unplaced)
	}
	r.Conn.Abort(nil) // with one that waits
	<-r.Gone
	p.calls(t, 60000)
}

// TestCallsGoOtherwise: a client whose pieces are not acknowledged sends chunks, and none of its calls waits.
func TestCallsGoOtherwise(t *testing.T) {
	mute := &silent{}
	x, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	mute.Extension = x
	p := connect(t, urls[1], []rpc.ClientOption{loaded(t, 0)}, []rpc.ListenOption{set(t, props.New(props.Options{}), mute)})
	p.greet(t)
	mute.mute.Store(true)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				if err := p.c.Call(ctx(t), procWrite, bulk(pattern(60000)), new(number)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	n := p.c.Counters()
	if n.Parts > 4*Window || n.ReadChunks < 70 || n.Unplaced < 70 {
		t.Errorf("%+v", n)
	}
}

// TestRepliesGoOtherwise: a server whose pieces are not acknowledged uses the Reply chunk where there is one.
func TestRepliesGoOtherwise(t *testing.T) {
	x, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	mute := &silent{Extension: x}
	p := connect(t, urls[0], []rpc.ClientOption{set(t, props.New(props.Options{}), mute)}, []rpc.ListenOption{loaded(t, 0)})
	p.greet(t)
	mute.mute.Store(true)
	for range 40 {
		var got blob
		if err := p.c.Call(ctx(t), procEcho, blob(pattern(60000)), &got); err != nil || !bytes.Equal(got, pattern(60000)) {
			t.Fatal(err)
		}
	}
	if n := p.srv.Counters(); n.Unplaced < 20 || n.WriteBytes < 20*60000 {
		t.Errorf("%+v", n)
	}
}

// silent acknowledges nothing more once it is mute.
type silent struct {
	*Extension
	mute atomic.Bool
}

func (x *silent) Connect(c ext.Conn) ext.Session {
	s := x.Extension.Connect(c).(*session)
	s.conn = silentConn{c, x}
	return s
}

type silentConn struct {
	ext.Conn
	x *silent
}

func (c silentConn) Send(m ext.Outgoing, done func(ext.Outcome)) {
	if !c.x.mute.Load() {
		c.Conn.Send(m, done)
	}
}
