//go:build unix

package unixsock

import (
	"encoding/binary"
	"slices"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/soft"
	"github.com/rpcrdma/rpcrdma/providers/soft/qp"
)

// frame is what the socket carries: a header of 24 bytes, then the payload.
type frame struct {
	kind, flags byte
	size        uint32 // of the payload; ask, fault: of the Read
	key         uint32 // write, ask, fault: the window's; message: to invalidate; hello: Reads that the sender serves
	addr        uint64
	payload     []byte
}

const (
	hello   = iota // of the set-up; flags is the qp.HelloKind
	message        // a piece of a Send
	write          // of a Write
	ask            // a Read
	answer         // a piece of what it asks for
	fault          // the end, because of faults[flags]
	bye            // the end, in good order

	last        = 1 // flags: the last piece
	invalidates = 2 // and a key comes with it

	headerLen  = 24
	maxPiece   = 64 << 10 // bytes of a payload
	maxPrivate = 512
)

var faults = []error{verbs.ErrProtocol, verbs.ErrRemoteAccess, verbs.ErrNoReceive, verbs.ErrTooLong}

// append appends f with its payload, in pieces, to b.
func (f frame) append(b []byte, payload ...[]byte) []byte {
	for _, p := range payload {
		f.size += uint32(len(p))
	}
	b = binary.BigEndian.AppendUint32(append(b, f.kind, f.flags, 0, 0), f.size)
	b = binary.BigEndian.AppendUint32(b, f.key)
	b = binary.BigEndian.AppendUint64(append(b, 0, 0, 0, 0), f.addr)
	for _, p := range payload {
		b = append(b, p...)
	}
	return b
}

// conn is a connection: a qp.Stream and its qp.Wire.
type conn struct {
	qp.Stream[struct{}]
	out  []byte
	in   [headerLen + maxPiece]byte // the frame that arrives, of which
	have int                        // bytes are there
}

// next reads a frame. Where a deadline ends it, it goes on where it was.
func (c *conn) next() (f frame, err error) {
	for need := headerLen; ; {
		if b := c.in[:c.have]; len(b) >= headerLen {
			f = frame{kind: b[0], flags: b[1], size: binary.BigEndian.Uint32(b[4:]), key: binary.BigEndian.Uint32(b[8:]), addr: binary.BigEndian.Uint64(b[16:])}
			if f.kind != ask && f.kind != fault {
				if f.size > maxPiece {
					return f, verbs.ErrProtocol
				}
				need = headerLen + int(f.size)
			}
			if f.payload = b[headerLen:]; len(b) == need {
				c.have = 0
				c.Passed(false, b)
				return f, nil
			}
		}
		n, err := c.Sock.Read(c.in[c.have:need])
		if c.have += n; err != nil {
			return f, err
		}
	}
}

func (c *conn) put(f frame, payload ...[]byte) error {
	c.out = f.append(c.out[:0], payload...)
	return c.flush()
}

func (c *conn) flush() error {
	n, err := c.Sock.Write(c.out)
	c.Passed(true, c.out[:n])
	return err
}

// WriteHello implements qp.Wire, as all that follows.
func (c *conn) WriteHello(h qp.Hello) error {
	return c.put(frame{kind: hello, flags: byte(h.Kind), key: uint32(h.Reads)}, h.Private)
}

func (c *conn) ReadHello() (qp.Hello, error) {
	f, err := c.next()
	if err == nil && (f.kind != hello || f.size > maxPrivate) {
		err = verbs.ErrProtocol
	}
	return qp.Hello{Kind: qp.HelloKind(f.flags), Reads: int(f.key), Private: slices.Clone(f.payload)}, err
}

func (c *conn) Send(w *qp.Work[struct{}]) error {
	f := frame{kind: message, key: w.Key, addr: w.Remote}
	switch w.Op {
	case verbs.OpRead:
		f.kind, f.size = ask, uint32(w.N)
		return c.put(f)
	case verbs.OpWrite:
		f.kind = write
	case verbs.OpSendInvalidate:
		f.flags = invalidates
	}
	for off := 0; ; off += maxPiece {
		n, p := min(w.N-off, maxPiece), f
		if p.addr += uint64(off); off+n == w.N {
			p.flags |= last
		}
		if err := c.put(p, w.Slices(nil, off, n)...); err != nil || off+n == w.N {
			return err
		}
	}
}

func (c *conn) Serve(a qp.Ask) error {
	for off := 0; ; off += maxPiece {
		s, mem, refusal := c.Windows.Resolve(a.Key, a.Addr, uint64(a.N), verbs.RemoteRead)
		if refusal != soft.Granted {
			return verbs.ErrRemoteAccess
		}
		f, n := frame{kind: answer}, min(a.N-off, maxPiece)
		if off+n == a.N {
			f.flags = last
		}
		c.out = f.append(c.out[:0], mem[off:off+n])
		s.Unlock() // the window is held while it is copied, not while it is written
		if err := c.flush(); err != nil || f.flags == last {
			return err
		}
	}
}

func (c *conn) Leave(err error, a qp.Ask) error {
	if err == nil {
		return c.put(frame{kind: bye})
	}
	return c.put(frame{kind: fault, flags: byte(max(0, slices.Index(faults, err))), key: a.Key, addr: a.Addr, size: uint32(a.N)})
}

func (c *conn) ReadFrame() error {
	f, err := c.next()
	if err != nil {
		return err
	}
	switch a := (qp.Ask{Key: f.key, Addr: f.addr, N: int(f.size)}); f.kind {
	case message:
		return c.PlaceMessage(f.payload, f.flags&last != 0, f.flags&invalidates != 0, f.key)
	case write:
		return c.PlaceWrite(f.payload, f.key, f.addr)
	case answer:
		return c.PlaceAnswer(f.payload, f.flags&last != 0)
	case ask:
		return c.PlaceAsk(a)
	case fault:
		c.Refused(a)
		err := faults[min(int(f.flags), len(faults)-1)]
		return &verbs.TerminatedError{Remote: true, Layer: Name, Code: err.Error(), Err: err}
	case bye:
		return qp.ErrBye
	}
	return verbs.ErrProtocol
}
