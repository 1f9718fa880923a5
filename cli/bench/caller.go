package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// ErrPayload, wrapped by a caller's error: bytes arrived that were not sent.
var ErrPayload = errors.New("wrong payload")

// NewPattern makes registered memory for payloads of up to n bytes.
func NewPattern(n int) (*rpc.Buffer, error) {
	b, err := rpc.NewBuffer(n + MaxOffset)
	if err != nil {
		return nil, err
	}
	Fill(b.Bytes())
	return b, nil
}

// Fill writes the pattern to b. 64 bytes further on, where the next call's payload begins, it is
// different at almost every byte.
func Fill(b []byte) {
	for i := range b {
		b[i] = at(i)
	}
}

func at(i int) byte { return byte(i) ^ byte(i>>8) ^ byte(i>>16) ^ 0xa5 }

// Check looks at the length of b and at 16 bytes spread over it: enough to see what is missing,
// shifted or left over from a payload at another offset, and nothing beside the cost of moving it.
func Check(b []byte, n, offset int) error {
	if len(b) != n {
		return fmt.Errorf("%w: %d bytes, want %d", ErrPayload, len(b), n)
	}
	for k := 0; n > 0 && k < 16; k++ {
		if i := int(int64(n-1) * int64(k) / 15); b[i] != at(offset+i) {
			return fmt.Errorf("%w: byte %d of %d", ErrPayload, i, n)
		}
	}
	return nil
}

// Caller calls the program, one call at a time. Every call moves the pattern from another
// offset, so that a payload that did not arrive is not mistaken for the one before.
type Caller struct {
	client  *rpc.Client
	pattern *rpc.Buffer // shared by callers
	mem     *rpc.Buffer // where READ's result is placed; nil until it is wanted
	seq     int

	op        Op
	n, offset int
	whole     bool  // compare every byte
	got       error // of the payload that came back
}

// NewCaller makes a caller. Calls move at most what pattern has room for.
func NewCaller(client *rpc.Client, pattern *rpc.Buffer) *Caller {
	return &Caller{client: client, pattern: pattern}
}

// Free gives back the caller's memory.
func (c *Caller) Free() {
	if c.mem != nil {
		c.mem.Free()
		c.mem = nil
	}
}

// Do moves n bytes, and checks 16 of them.
func (c *Caller) Do(ctx context.Context, op Op, n int) error { return c.do(ctx, op, n, false) }

// DoWhole is Do, and every byte is compared.
func (c *Caller) DoWhole(ctx context.Context, op Op, n int) error { return c.do(ctx, op, n, true) }

func (c *Caller) do(ctx context.Context, op Op, n int, whole bool) error {
	c.seq++
	c.op, c.n, c.whole, c.offset = op, n, whole, c.seq%(MaxOffset/64)*64
	var err error
	if op == Read {
		if c.mem == nil || len(c.mem.Bytes()) < n {
			c.Free()
			if c.mem, err = rpc.NewBuffer(max(n, 4<<10)); err != nil {
				return err
			}
		}
		err = c.client.Call(ctx, procs[op], c, c, rpc.IntoBuffer(c.mem, 0, n))
	} else {
		err = c.client.Call(ctx, procs[op], c, c)
	}
	if err != nil {
		return err
	}
	return c.got
}

// MarshalXDR writes the arguments of the call being made.
func (c *Caller) MarshalXDR(w *xdr.Writer) {
	data := c.pattern.Bytes()[c.offset:][:c.n]
	switch c.op {
	case Echo:
		w.Opaque(data)
	case Read:
		w.Uint32(uint32(c.offset))
		w.Uint32(uint32(c.n))
	case Write:
		w.Uint32(uint32(c.offset))
		w.Bool(c.whole)
		w.BulkItem(xdr.Bulk{Data: data, Mem: c.pattern})
	}
}

// MaxReply is how the transport knows whether the reply fits inline.
func (c *Caller) MaxReply() (reduced, whole int) {
	switch c.op {
	case Echo:
		return 4 + c.n + 3, 4 + c.n + 3
	case Read:
		return 4, 4 + c.n + 3
	}
	return 4, 4
}

// UnmarshalXDR checks the results.
func (c *Caller) UnmarshalXDR(r *xdr.Reader) {
	switch c.op {
	case Echo:
		c.got = c.check(r.OpaqueView(MaxPayload))
	case Read:
		c.got = c.check(r.Bulk(MaxPayload))
	case Write:
		c.got = nil
		if n := r.Uint32(); n != uint32(c.n) {
			c.got = fmt.Errorf("%w: the server finds %d bytes of %d right", ErrPayload, n, c.n)
		}
	}
}

func (c *Caller) check(b []byte) error {
	if c.whole && len(b) == c.n {
		if !bytes.Equal(b, c.pattern.Bytes()[c.offset:][:c.n]) {
			return fmt.Errorf("%w: some of %d bytes", ErrPayload, c.n)
		}
		return nil
	}
	return Check(b, c.n, c.offset)
}
