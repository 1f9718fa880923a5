package cli

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// debugLog prints, with RPCRDMA_DEBUG set, every event of the engine and the transport header of
// every Send that the fabric shows. Lines are queued: printing never holds a connection up.
type debugLog struct {
	w    io.Writer
	wake chan struct{}
	done chan struct{}

	mu     sync.Mutex // guards what follows
	lines  bytes.Buffer
	lost   int
	closed bool
}

const debugQueue = 8 << 20

func newDebug(w io.Writer) *debugLog {
	d := &debugLog{w: w, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go d.write()
	return d
}

var eventNames = [obs.Kinds]string{obs.ConnUp: "up", obs.ConnDown: "down", obs.Negotiated: "version", obs.CallSent: "call sent",
	obs.CallRecv: "call received", obs.ReplySent: "reply sent", obs.ReplyRecv: "reply received", obs.ReadDone: "read done",
	obs.WriteDone: "write done", obs.Fenced: "fenced", obs.ErrorSent: "error sent", obs.ErrorRecv: "error received",
	obs.Dropped: "dropped", obs.CreditBegun: "waits for credit", obs.CreditWait: "waited for credit", obs.CallDone: "call done",
	obs.CallCancel: "call cancelled", obs.CreditGrant: "credits", obs.ControlSent: "operation sent", obs.ControlRecv: "operation received",
	obs.ControlLate: "operation left to its default", obs.ExtPanic: "extension panicked", obs.CallBegun: "call begins",
	obs.Registered: "memory registered", obs.Resent: "call sent again", obs.DialBegun: "dials", obs.DialDone: "dialled",
	obs.ConnRefused: "connection refused", obs.Queued: "call queued", obs.HandlerBegun: "handler begins", obs.HandlerDone: "handler done",
	obs.CallRefused: "call refused", obs.CacheReply: "repetition answered", obs.CacheDrop: "repetition dropped",
	obs.FabricRetry: "fabric retries", obs.TerminateSent: "terminate sent", obs.TerminateRecv: "terminate received",
	obs.CorruptReceived: "corrupt frame received"}

// Record implements obs.Recorder.
func (d *debugLog) Record(e obs.Event) {
	name := eventNames[e.Kind]
	if e.Back {
		name = "backward " + name
	}
	took := ""
	if e.Took > 0 {
		took = " took " + e.Took.String()
	}
	d.printf("%12.6f conn %d xid 0x%08x %s bytes %d segs %d arg %d%s", e.At.Seconds(), e.Conn, e.XID, name, e.Bytes, e.Segs, e.Arg, took)
}

// Frame implements verbs.Tap: it decodes iWARP's Sends.
func (d *debugLog) Frame(f verbs.Frame) {
	if f.Link != verbs.LinkTCP {
		return
	}
	msg, ok := sendOf(f.Parts)
	if !ok {
		return
	}
	way := "<-"
	if f.Sent {
		way = "->"
	}
	var h wire.Header
	if n, err := h.Parse(msg, wire.ProfileCel04); err != nil {
		d.printf("             %s %v %d bytes: %v", way, f.Remote, len(msg), err)
	} else {
		d.printf("             %s %v %v, payload %d", way, f.Remote, &h, len(msg)-n)
	}
}

// sendOf is the payload of an FPDU that holds a whole Send or the first segment of one
// (RFC 5044 §4.1, RFC 5041 §4.3, RFC 5040 §4.1).
func sendOf(parts [][]byte) ([]byte, bool) {
	const mpaLen, untagged = 2, 18
	b := parts[0]
	if len(b) < mpaLen+untagged {
		if len(parts) == 1 {
			return nil, false
		}
		b = bytes.Join(parts, nil)
		parts = nil
	}
	if len(b) < mpaLen+untagged {
		return nil, false
	}
	n := int(binary.BigEndian.Uint16(b))
	ddp := b[mpaLen:]
	op := ddp[1] & 0x0f
	tagged, queue, offset := ddp[0]&0x80 != 0, binary.BigEndian.Uint32(ddp[6:]), binary.BigEndian.Uint32(ddp[14:])
	if n < untagged || tagged || ddp[0]&0x03 != 1 || queue != 0 || offset != 0 || op < 3 || op > 6 {
		return nil, false
	}
	if len(parts) > 1 {
		ddp = bytes.Join(parts, nil)[mpaLen:]
	}
	if len(ddp) < n {
		return nil, false
	}
	return ddp[untagged:n], true
}

func (d *debugLog) printf(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.lines.Len() > debugQueue {
		d.lost++
		return
	}
	fmt.Fprintf(&d.lines, format+"\n", args...)
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

func (d *debugLog) write() {
	defer close(d.done)
	for range d.wake {
		d.mu.Lock()
		out := bytes.Clone(d.lines.Bytes())
		d.lines.Reset()
		d.mu.Unlock()
		if _, err := d.w.Write(out); err != nil {
			return
		}
	}
}

// Close prints what is queued.
func (d *debugLog) Close() error {
	d.mu.Lock()
	if d.lost > 0 && !d.closed {
		fmt.Fprintf(&d.lines, "%d lines left out\n", d.lost)
	}
	out := !d.closed
	d.closed = true
	d.mu.Unlock()
	if out {
		select {
		case d.wake <- struct{}{}:
		default:
		}
		close(d.wake)
		<-d.done
	}
	return nil
}

// tee gives frames to several taps.
type tee []verbs.Tap

func (t tee) Frame(f verbs.Frame) {
	for _, tap := range t {
		tap.Frame(f)
	}
}
