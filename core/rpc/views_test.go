package rpc_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

const viewsProgram = 0x20000e1e

// procName counts a name, and returns it. procData does so with bytes that may be moved.
var (
	procName = &rpc.Proc{Program: viewsProgram, Version: 1, Number: 1, Name: "NAME", Idempotent: true, Binding: binding.Binding{MaxReply: 256}}
	procData = &rpc.Proc{Program: viewsProgram, Version: 1, Number: 2, Name: "DATA", Idempotent: true, Binding: binding.Binding{Args: true, MaxReply: 1 << 20}}
)

// phrase is a string of at most 255 bytes.
type phrase string

func (s phrase) MarshalXDR(w *xdr.Writer)    { w.String(string(s)) }
func (s *phrase) UnmarshalXDR(r *xdr.Reader) { *s = phrase(r.String(255)) }

// TestNamesKept: a handler keeps the strings that it reads, as keys of a map, and a caller those of its results. Both
// stay as they were read, although the memory of each message carries the next.
func TestNamesKept(t *testing.T) {
	const callers, each, names = 8, 60, 12
	name := func(i int) phrase { return phrase(fmt.Sprintf("%s-%d", strings.Repeat("n", i%names), i%names)) }
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			var mu sync.Mutex
			counts := map[string]int{}
			f := serve(t, tr.url, tr.opts)
			f.srv.Register(viewsProgram, 1, rpc.Method{Proc: procName, Handler: func(_ context.Context, r *rpc.Request) error {
				s := r.Args.String(255)
				if err := r.Args.Done(); err != nil {
					return err
				}
				mu.Lock()
				counts[s]++
				mu.Unlock()
				r.Results.String(s)
				return nil
			}})
			c := dial(t, f.url, tr.opts)
			got := make([][]phrase, callers)
			var wg sync.WaitGroup
			for i := range callers {
				got[i] = make([]phrase, each)
				wg.Go(func() {
					for k := range each {
						if err := c.Call(ctx(t), procName, name(i+k), &got[i][k]); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			want := map[string]int{}
			others := 0
			for i := range callers {
				for k, s := range got[i] {
					want[string(name(i+k))]++
					if s != name(i+k) {
						others++
					}
				}
			}
			if others > 0 {
				t.Errorf("%d of %d results that the callers kept are others now", others, callers*each)
			}
			mu.Lock()
			defer mu.Unlock()
			if !maps.Equal(counts, want) {
				t.Errorf("the handler has counted %v, want %v", counts, want)
			}
		})
	}
}

// TestCredentialKept: what a handler keeps of a credential by Clone and by Sys.Parse stays as it was.
func TestCredentialKept(t *testing.T) {
	f := serve(t, "iwarp://127.0.0.1:0")
	var kept rpcmsg.Auth
	var sys rpcmsg.Sys
	f.srv.Register(viewsProgram, 1, rpc.Method{Proc: procName, Handler: func(_ context.Context, r *rpc.Request) error {
		if r.Cred.Flavor != rpcmsg.AuthSys {
			return nil
		}
		kept = r.Cred.Clone()
		return sys.Parse(r.Cred.Body)
	}})
	cred, err := (&rpcmsg.Sys{Machine: "first.example", UID: 7}).Auth()
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, f.url)
	if err := c.Call(ctx(t), procName, phrase(""), nil, rpc.WithCred(&cred)); err != nil {
		t.Fatal(err)
	}
	for range 300 { // every receive takes another message
		if err := c.Call(ctx(t), procName, phrase(strings.Repeat("z", 200)), nil); err != nil {
			t.Fatal(err)
		}
	}
	if string(kept.Body) != string(cred.Body) || sys.Machine != "first.example" {
		t.Errorf("kept %x of the machine %q, was %x", kept.Body, sys.Machine, cred.Body)
	}
}

// pair is an opaque that is never moved, and one that may be.
type pair struct{ text, data []byte }

func (p pair) MarshalXDR(w *xdr.Writer) {
	w.Opaque(p.text)
	w.BulkOpaque(p.data)
}

// TestEchoedViews: results may be views of the arguments: they leave before those are poisoned.
func TestEchoedViews(t *testing.T) {
	for _, tr := range transports {
		for _, n := range []int{16, 64 << 10} {
			t.Run(fmt.Sprint(tr.name, " ", n), func(t *testing.T) {
				f := serve(t, tr.url, tr.opts)
				f.srv.Register(viewsProgram, 1, rpc.Method{Proc: procData, Handler: func(_ context.Context, r *rpc.Request) error {
					r.Results.BulkOpaque(r.Args.OpaqueView(1 << 20))
					r.Results.BulkOpaque(r.Args.Bulk(1 << 20))
					return r.Args.Done()
				}})
				c := dial(t, f.url, tr.opts)
				want := pair{bytes.Repeat([]byte("t"), 100), bytes.Repeat([]byte("d"), n)}
				var got copies
				if err := c.Call(ctx(t), procData, want, &got); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got.text, want.text) || !bytes.Equal(got.data, want.data) {
					t.Errorf("got %.8q and %.8q", got.text, got.data)
				}
			})
		}
	}
}

// copies is a pair that is kept.
type copies struct{ text, data []byte }

func (c *copies) UnmarshalXDR(r *xdr.Reader) { c.text, c.data = r.Opaque(1<<20), r.Opaque(1<<20) }
