package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// The program of the scripts.
const program = 0x20000166

var procedures = map[string]*rpc.Proc{
	"NULL": {Program: program, Version: 1, Number: 0, Name: "NULL"},
	// opaque<> -> opaque<>; nothing may be moved.
	"ECHO": {Program: program, Version: 1, Number: 1, Name: "ECHO", Binding: binding.Binding{MaxReply: 64}},
	// count -> opaque<>, which may be moved.
	"READ": {Program: program, Version: 1, Number: 2, Name: "READ", Binding: binding.Binding{Results: true, MaxReply: 8}},
	// opaque<>, which may be moved -> the same inline.
	"WRITE": {Program: program, Version: 1, Number: 3, Name: "WRITE", Binding: binding.Binding{Args: true, MaxReply: 64}},
	// two counts -> union (count 0: void) of opaque<>, opaque<>; both may be moved.
	"PAIR": {Program: program, Version: 1, Number: 4, Name: "PAIR", Binding: binding.Binding{Results: true, MaxReply: 16}},
	// opaque<>, word, opaque<>; both opaques may be moved -> all three in a row, inline.
	"JOIN": {Program: program, Version: 1, Number: 5, Name: "JOIN", Binding: binding.Binding{Args: true, MaxReply: 64}},
	// opaque<> -> opaque<>, once the script says so.
	"HOLD": {Program: program, Version: 1, Number: 6, Name: "HOLD", Binding: binding.Binding{MaxReply: 64}},
	// nothing -> opaque<>, which may not be moved, and opaque<>, which may.
	"MIX": {Program: program, Version: 1, Number: 7, Name: "MIX", Binding: binding.Binding{Results: true, MaxReply: 64}},
	// n -> n octets, each the number of times that COUNT has run; may be moved.
	"COUNT": {Program: program, Version: 1, Number: 8, Name: "COUNT", Binding: binding.Binding{Results: true, MaxReply: 8}},
	// nothing -> nothing; the caller is ready for backward calls on this connection.
	"BIND": {Program: program, Version: 1, Number: 9, Name: "BIND"},
}

const most = 1 << 20 // octets of an opaque

// house is a server of the program.
type house struct {
	srv     *rpc.Server
	url     string
	back    *rpc.Backchannel // to whoever called BIND last
	held    chan struct{}    // a HOLD began
	release chan struct{}
}

// newPrograms is the program without a listener: what a client serves to its server.
func newPrograms(t testing.TB, opts ...rpc.ServerOption) *house {
	t.Helper()
	h := &house{held: make(chan struct{}, 256), release: make(chan struct{})}
	back, err := rpc.NewBackchannel(rpc.WithRetransmits(-1))
	if err != nil {
		t.Fatal(err)
	}
	h.back, h.srv = back, rpc.NewServer(opts...)
	h.register()
	t.Cleanup(func() {
		back.Close()
		h.srv.Close()
	})
	return h
}

// newHouse serves the program at an address of the provider.
func newHouse(t testing.TB, scheme string, opts ...rpc.ListenOption) *house {
	t.Helper()
	return newPrograms(t).listen(t, scheme, opts...)
}

func (h *house) listen(t testing.TB, scheme string, opts ...rpc.ListenOption) *house {
	t.Helper()
	l, err := rpc.Listen(context.Background(), scheme+"://127.0.0.1:0", opts...)
	if err != nil {
		t.Fatal(err)
	}
	h.url = l.URL()
	done := make(chan error, 1)
	go func() { done <- h.srv.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		h.srv.Close()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return h
}

func (h *house) register() {
	method := func(name string, inline bool, f func(ctx context.Context, r *rpc.Request)) rpc.Method {
		return rpc.Method{Proc: procedures[name], Inline: inline, Handler: func(ctx context.Context, r *rpc.Request) error {
			f(ctx, r)
			return r.Args.Done()
		}}
	}
	var ran byte // inline methods of one connection never run at once
	h.srv.Register(program, 1,
		method("COUNT", true, func(_ context.Context, r *rpc.Request) {
			ran++
			r.Results.BulkOpaque(bytes.Repeat([]byte{ran}, int(r.Args.Uint32())))
		}),
		rpc.Method{Proc: procedures["BIND"], Inline: true, Handler: func(_ context.Context, r *rpc.Request) error {
			return h.back.Bind(r.Peer())
		}},
		method("ECHO", true, func(_ context.Context, r *rpc.Request) { r.Results.Opaque(r.Args.OpaqueView(most)) }),
		method("READ", true, func(_ context.Context, r *rpc.Request) { r.Results.BulkOpaque(pattern(int(r.Args.Uint32()))) }),
		method("WRITE", true, func(_ context.Context, r *rpc.Request) { r.Results.Opaque(r.Args.Bulk(most)) }),
		method("PAIR", true, func(_ context.Context, r *rpc.Request) {
			a, b := r.Args.Uint32(), r.Args.Uint32()
			r.Results.Bool(a > 0)
			if a > 0 {
				r.Results.BulkOpaque(pattern(int(a)))
			}
			r.Results.BulkOpaque(pattern(int(b)))
		}),
		method("JOIN", true, func(_ context.Context, r *rpc.Request) {
			a := r.Args.Bulk(most)
			n := r.Args.Uint32()
			b := r.Args.Bulk(most)
			r.Results.Opaque(a)
			r.Results.Uint32(n)
			r.Results.Opaque(b)
		}),
		method("HOLD", false, func(ctx context.Context, r *rpc.Request) {
			b := r.Args.OpaqueView(most)
			h.held <- struct{}{}
			select {
			case <-h.release:
			case <-ctx.Done():
			}
			r.Results.Opaque(b)
		}),
	)
}

// pattern is n octets: 01 02 03 …
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i + 1)
	}
	return b
}

// arguments is the XDR of a call's arguments: numbers as words, others as opaque<>, bulk where the
// procedure's binding moves arguments.
type arguments struct {
	items []any // uint32 or []byte
	bulk  bool
}

func (a arguments) MarshalXDR(w *xdr.Writer) {
	for _, it := range a.items {
		switch v := it.(type) {
		case uint32:
			w.Uint32(v)
		case []byte:
			if a.bulk {
				w.BulkOpaque(v)
			} else {
				w.Opaque(v)
			}
		}
	}
}

// results decodes what a procedure returns, and keeps its opaques one behind the other.
type results struct {
	proc *rpc.Proc
	all  []byte
}

func (s *results) UnmarshalXDR(r *xdr.Reader) {
	switch s.proc.Name {
	case "READ":
		s.all = append(s.all, r.Bulk(most)...)
	case "PAIR":
		if r.Bool() {
			s.all = append(s.all, r.Bulk(most)...)
		}
		s.all = append(s.all, r.Bulk(most)...)
	case "JOIN":
		s.all = append(s.all, r.OpaqueView(most)...)
		r.Uint32()
		s.all = append(s.all, r.OpaqueView(most)...)
	case "MIX":
		s.all = append(s.all, r.OpaqueView(most)...)
		s.all = append(s.all, r.Bulk(most)...)
	case "NULL", "BIND":
	default:
		s.all = append(s.all, r.OpaqueView(most)...)
	}
}
