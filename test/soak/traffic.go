package soak

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

const program = 0x20000050 // of those for users (RFC 5531 §8.3)

var (
	procEcho  = &rpc.Proc{Program: program, Version: 1, Number: 1, Name: "ECHO", Idempotent: true, Binding: binding.Binding{MaxReply: mostBytes + 16}}
	procRead  = &rpc.Proc{Program: program, Version: 1, Number: 2, Name: "READ", Idempotent: true, Binding: binding.Binding{Results: true, MaxReply: 16}}
	procWatch = &rpc.Proc{Program: program, Version: 1, Number: 4, Name: "WATCH", Idempotent: true}
	procBack  = &rpc.Proc{Program: program + 1, Version: 1, Number: 1, Name: "BACK", Binding: binding.Binding{MaxReply: 16}}
	procAdd   = &rpc.Proc{Program: program, Version: 1, Number: 3, Name: "ADD", Binding: binding.Binding{Args: true, MaxReply: 16}}
)

// mostBytes is the largest item that callers move.
const mostBytes = 20_000

// item is (tag, opaque<>): what a call carries, different for each call.
type item struct {
	tag  uint64
	data []byte
	bulk bool
}

func (i *item) MarshalXDR(w *xdr.Writer) {
	w.Uint64(i.tag)
	if i.bulk {
		w.BulkOpaque(i.data)
	} else {
		w.Opaque(i.data)
	}
}

func (i *item) UnmarshalXDR(r *xdr.Reader) {
	i.tag = r.Uint64()
	if i.bulk {
		i.data = r.Bulk(mostBytes)
	} else {
		i.data = append(i.data[:0], r.OpaqueView(mostBytes)...)
	}
}

// question is READ's arguments: the tag of what is to be read, and how much.
type question struct {
	tag uint64
	n   int
}

func (q question) MarshalXDR(w *xdr.Writer)       { w.Uint64(q.tag); w.Uint32(uint32(q.n)) }
func (q question) MaxReply() (reduced, whole int) { return 16, 16 + q.n + 3 }

// fill makes the bytes that belong to a tag: no two tags have the same.
func fill(b []byte, tag uint64) {
	r := rand.New(rand.NewPCG(tag, 0))
	for i := 0; i < len(b); i += 8 {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], r.Uint64())
		copy(b[i:], w[:])
	}
}

// wrong is the first byte of b that is not tag's; -1: none.
func wrong(b []byte, tag uint64) int {
	want := make([]byte, len(b))
	fill(want, tag)
	for i := range b {
		if b[i] != want[i] {
			return i
		}
	}
	return -1
}

// program is the server's side. It keeps book of what was executed.
type service struct {
	book *Book
	slow time.Duration // a handler takes up to this
	back []*rpc.Backchannel

	mu   sync.Mutex
	adds map[uint64]int // executions of ADD, by tag
	rng  *rand.Rand
	lent int // bulk results that have not been released
}

func (s *service) pause() {
	s.mu.Lock()
	d := time.Duration(s.rng.Int64N(int64(s.slow) + 1))
	s.mu.Unlock()
	time.Sleep(d)
}

func (s *service) echo(_ context.Context, r *rpc.Request) error {
	tag, b := r.Args.Uint64(), r.Args.OpaqueView(mostBytes)
	if err := r.Args.Done(); err != nil {
		return err
	}
	if i := wrong(b, tag); i >= 0 {
		s.book.errorf("ECHO %#x: byte %d of %d of the arguments is not what was sent", tag, i, len(b))
	}
	r.Results.Uint64(tag)
	r.Results.Opaque(b)
	return nil
}

func (s *service) read(_ context.Context, r *rpc.Request) error {
	tag, n := r.Args.Uint64(), int(r.Args.Uint32())
	if err := r.Args.Done(); err != nil {
		return err
	}
	s.pause()
	b := make([]byte, n)
	fill(b, tag)
	s.mu.Lock()
	s.lent++
	s.mu.Unlock()
	var once atomic.Bool
	r.Results.Uint64(tag)
	r.Results.BulkItem(rpc.Bulk(b, func() {
		if once.Swap(true) {
			s.book.errorf("READ %#x: the result is released twice", tag)
		}
		clear(b)
		s.mu.Lock()
		s.lent--
		s.mu.Unlock()
	}))
	return nil
}

func (s *service) add(_ context.Context, r *rpc.Request) error {
	tag, b := r.Args.Uint64(), r.Args.Bulk(mostBytes)
	if err := r.Args.Done(); err != nil {
		return err
	}
	s.mu.Lock()
	s.adds[tag]++
	n := s.adds[tag]
	s.mu.Unlock()
	s.pause()
	if i := wrong(b, tag); i >= 0 {
		s.book.errorf("ADD %#x: byte %d of %d of the arguments is not what was sent", tag, i, len(b))
	}
	if n > 1 {
		s.book.errorf("ADD %#x is executed %d times", tag, n)
	}
	r.Results.Uint64(tag)
	return nil
}

// watch binds the backchannel of the client that says who it is.
func (s *service) watch(_ context.Context, r *rpc.Request) error {
	i := r.Args.Uint32()
	if err := r.Args.Done(); err != nil {
		return err
	}
	if int(i) >= len(s.back) {
		return nil
	}
	return s.back[i].Bind(r.Peer())
}

// callBack calls a client until told to stop. Whether there is a connection is the client's business.
func (s *service) callBack(ctx context.Context, w *world, i int) {
	rng := rand.New(rand.NewPCG(w.Seed, uint64(7000+i)))
	for n := uint64(0); ctx.Err() == nil; n++ {
		tag := w.Seed<<20 ^ uint64(i)<<12 ^ n ^ 1<<63
		args := item{tag: tag, data: make([]byte, rng.IntN(600))}
		fill(args.data, tag)
		short, cancel := context.WithTimeout(ctx, time.Duration(1+rng.IntN(20))*time.Millisecond)
		var res answer
		err := s.back[i].Call(short, procBack, &args, &res)
		cancel()
		var be *transport.BackwardError
		switch {
		case err == nil && uint64(res) != tag:
			w.book.errorf("BACK %#x: the answer of %#x", tag, uint64(res))
		case err == nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.As(err, &be), errors.Is(err, net.ErrClosed),
			errors.Is(err, transport.ErrRefused) && w.plan.FailEvery > 0: // as in excuses
		default:
			w.book.errorf("BACK %#x: %v", tag, err)
		}
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
	}
}

// answerer is a client's side of calling back.
type answerer struct {
	book *Book

	mu   sync.Mutex
	seen map[uint64]int
}

func (a *answerer) back(_ context.Context, r *rpc.Request) error {
	tag, b := r.Args.Uint64(), r.Args.OpaqueView(mostBytes)
	if err := r.Args.Done(); err != nil {
		return err
	}
	a.mu.Lock()
	a.seen[tag]++
	n := a.seen[tag]
	a.mu.Unlock()
	if n > 1 {
		a.book.errorf("BACK %#x is executed %d times", tag, n)
	}
	if i := wrong(b, tag); i >= 0 {
		a.book.errorf("BACK %#x: byte %d of %d of the arguments is not what was sent", tag, i, len(b))
	}
	r.Results.Uint64(tag)
	return nil
}

func (s *service) register(srv *rpc.Server, inline bool) {
	srv.Register(program, 1,
		rpc.Method{Proc: procEcho, Inline: inline, Handler: s.echo},
		rpc.Method{Proc: procRead, Handler: s.read},
		rpc.Method{Proc: procAdd, Handler: s.add},
		rpc.Method{Proc: procWatch, Handler: s.watch},
	)
}

// caller makes calls one after another.
type caller struct {
	w      *world
	number uint32 // of the client
	client *rpc.Client
	seed   uint64
	calls  int
}

const (
	margin = 64 // guarded bytes on both sides of a destination
	guard  = 0x5c
)

func (c *caller) run() {
	rng := rand.New(rand.NewPCG(c.w.Seed, c.seed))
	for i := range c.calls {
		if c.w.backward && i%2 == 0 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			if err := c.client.Call(ctx, procWatch, word(c.number), nil); err != nil && !c.w.excuses(err, false) {
				c.w.book.errorf("WATCH: %v", err)
			}
			cancel()
		}
		c.call(rng, c.w.Seed<<20^c.seed<<8^uint64(i))
		if rng.IntN(4) == 0 {
			time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
		}
	}
}

func (c *caller) call(rng *rand.Rand, tag uint64) {
	n := rng.IntN([]int{40, 3000, mostBytes}[rng.IntN(3)])
	area := make([]byte, n+2*margin)
	for i := range area {
		area[i] = guard
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	doomed := rng.IntN(5) == 0
	if doomed {
		time.AfterFunc(time.Duration(rng.IntN(4000))*time.Microsecond, cancel)
	}
	data := area[margin : margin+n : margin+n]
	var err error
	var what string
	switch rng.IntN(3) {
	case 0:
		what = "READ"
		res := item{bulk: true}
		if err = c.client.Call(ctx, procRead, question{tag, n}, &res, rpc.Into(data)); err == nil {
			c.judge(what, tag, n, &res)
		}
	case 1:
		what = "ADD"
		fill(data, tag)
		var res answer
		if err = c.client.Call(ctx, procAdd, &item{tag: tag, data: data, bulk: true}, &res); err == nil && uint64(res) != tag {
			c.w.book.errorf("ADD %#x: the answer of %#x", tag, uint64(res))
		}
		if err == nil {
			c.w.answered(tag)
		}
	default:
		what = "ECHO"
		fill(data, tag)
		var res item
		if err = c.client.Call(ctx, procEcho, &item{tag: tag, data: data}, &res); err == nil {
			c.judge(what, tag, n, &res)
		}
	}
	cancel()
	for i := range margin {
		if area[i] != guard || area[margin+n+i] != guard {
			c.w.book.errorf("%s %#x: a byte beside the %d of the destination was written", what, tag, n)
			break
		}
	}
	if err != nil {
		if !c.w.excuses(err, doomed) {
			c.w.book.errorf("%s %#x of %d bytes: %v", what, tag, n, err)
		}
	}
	for i := range area { // it is ours again: the world looks at it at the end
		area[i] = guard
	}
	c.w.keep(fmt.Sprintf("%s %#x", what, tag), area)
}

func (c *caller) judge(what string, tag uint64, n int, res *item) {
	if res.tag != tag || len(res.data) != n {
		c.w.book.errorf("%s %#x of %d bytes: answered with %d of %#x", what, tag, n, len(res.data), res.tag)
	} else if i := wrong(res.data, tag); i >= 0 {
		c.w.book.errorf("%s %#x: byte %d of %d is wrong", what, tag, i, n)
	}
}

type word uint32

func (n word) MarshalXDR(w *xdr.Writer) { w.Uint32(uint32(n)) }

type answer uint64

func (a answer) MarshalXDR(w *xdr.Writer)    { w.Uint64(uint64(a)) }
func (a *answer) UnmarshalXDR(r *xdr.Reader) { *a = answer(r.Uint64()) }

// excuses tells whether a call may end with err.
func (w *world) excuses(err error, doomed bool) bool {
	switch {
	case errors.Is(err, context.Canceled):
		return doomed
	case w.leaves > 0 && errors.Is(err, net.ErrClosed):
		return true
	case strings.HasPrefix(err.Error(), "connect to "): // the first connection of a call does not come up
		p := &w.plan
		return errors.Is(err, syscall.ECONNREFUSED) && (p.RefuseEvery > 0 || w.restarts > 0) ||
			w.breaks || w.restarts > 0 || p.CutEvery > 0 || p.CutWithin > 0 || p.FailEvery > 0
	case errors.Is(err, transport.ErrRefused): // sent again after a fault had let its chunks fail (D-41)
		return w.plan.FailEvery > 0
	}
	return false
}
