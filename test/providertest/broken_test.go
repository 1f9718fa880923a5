package providertest_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/test/providertest"
)

const brokenVariable = "PROVIDERTEST_BROKEN"

// TestSuiteCatches runs the suite, in a process of its own, against providers that each break
// one promise: the check that is named after the promise must fail.
func TestSuiteCatches(t *testing.T) {
	if os.Getenv(brokenVariable) != "" {
		t.Skip("this is the child")
	}
	if testing.Short() {
		t.Skip("some seventy processes")
	}
	type result struct {
		out string
		err error
	}
	results := map[string]chan result{}
	turn := make(chan struct{}, 8) // children mostly wait
	for name, m := range mutants {
		c := make(chan result, 1)
		results[name] = c
		go func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			group, check, _ := strings.Cut(m.check, "/")
			pattern := "^TestChild$/^" + group + "$/^" + regexp.QuoteMeta(strings.ReplaceAll(check, " ", "_"))
			cmd := exec.Command(os.Args[0], "-test.run", pattern, "-test.v", "-test.timeout", "60s")
			cmd.Env = append(os.Environ(), brokenVariable+"="+name)
			out, err := cmd.CombinedOutput()
			c <- result{string(out), err}
		}()
	}
	for name, c := range results {
		t.Run(name, func(t *testing.T) {
			r := <-c
			group, _, _ := strings.Cut(mutants[name].check, "/")
			if !strings.Contains(r.out, "=== RUN   TestChild/"+group+"/") {
				t.Fatalf("no check is called %q\n%s", mutants[name].check, r.out)
			}
			if r.err == nil && strings.Contains(r.out, "--- SKIP: TestChild/") {
				t.Skipf("the check is skipped here:\n%s", r.out)
			}
			if r.err == nil {
				t.Fatalf("the suite passed it:\n%s", r.out)
			}
			t.Logf("caught:\n%s", r.out)
		})
	}
}

// TestChild is the suite against the provider that the environment names.
func TestChild(t *testing.T) {
	name := os.Getenv(brokenVariable)
	if name == "" {
		t.Skip("run by TestSuiteCatches")
	}
	m := mutants[name]
	providertest.Run(t, func(*testing.T) verbs.Provider { return &m.mutant }, providertest.Options{
		Hang:       500 * time.Millisecond,
		ShortSetup: map[string]string{"setup_timeout": "200ms"},
	})
}

// TestWhole shows that the wrapper itself breaks nothing.
func TestWhole(t *testing.T) {
	if os.Getenv(brokenVariable) != "" {
		t.Skip("this is the child")
	}
	providertest.Run(t, func(*testing.T) verbs.Provider { return &mutant{} })
}

// each lets only the works that keep says pass, and pretends that the others were posted.
func each(keep func(w *verbs.Work) bool) func(c *mconn, ws []verbs.Work) (int, error) {
	return func(c *mconn, ws []verbs.Work) (int, error) {
		for i := range ws {
			w := ws[i]
			if !keep(&w) {
				continue
			}
			if n, err := c.Conn.Post([]verbs.Work{w}); n == 0 {
				return i, err
			}
		}
		return len(ws), nil
	}
}

type broken struct {
	check string // "group/check", or the beginning of its name
	mutant
}

var mutants = map[string]broken{
	"completes twice": {"messages/Send gathers", mutant{complete: func(c *mconn, cs []verbs.Completion) {
		again := slices.Clone(cs)
		c.h.Complete(cs)
		c.filter(again, func(p *verbs.Completion) bool { return p.Op != verbs.OpRecv })
	}}},
	"forgets flushed works": {"end/Abort by the dialler, Sends posted and not flushed", mutant{complete: func(c *mconn, cs []verbs.Completion) {
		c.filter(cs, func(p *verbs.Completion) bool { return p.Status != verbs.Flushed })
	}}},
	"forgets flushed receives": {"end/after the end Post", mutant{complete: func(c *mconn, cs []verbs.Completion) {
		c.filter(cs, func(p *verbs.Completion) bool { return p.Op != verbs.OpRecv || p.Status == verbs.OK })
	}}},
	"completes what was not posted": {"messages/Send gathers", mutant{complete: func(c *mconn, cs []verbs.Completion) {
		for i := range cs {
			cs[i].ID += 1000
		}
		c.h.Complete(cs)
	}}},
	"completes in Post": {"queue/nothing completes from within", mutant{post: func(c *mconn, ws []verbs.Work) (int, error) {
		n, err := c.Conn.Post(ws)
		c.Conn.Flush()
		return n, err
	}}},
	"completes in Expose": {"queue/nothing completes from within", mutant{expose: func(c *mconn, w *verbs.Window, r verbs.Region, off, n int, a verbs.Access) error {
		c.release()
		return c.Conn.Expose(w, r, off, n, a)
	}, complete: func(c *mconn, cs []verbs.Completion) {
		c.filter(cs, func(p *verbs.Completion) bool {
			if p.Op != verbs.OpWrite || p.Status != verbs.OK {
				return true
			}
			c.mu.Lock()
			c.later = append(c.later, *p)
			c.mu.Unlock()
			time.AfterFunc(20*time.Millisecond, c.release)
			return false
		})
	}}},
	"completes on two goroutines": {"queue/nothing completes from within", mutant{complete: func(c *mconn, cs []verbs.Completion) {
		done := make(chan struct{})
		own := slices.Clone(cs)
		go func() {
			defer close(done)
			c.filter(own, func(p *verbs.Completion) bool { return p.ID%2 == 0 })
		}()
		c.filter(cs, func(p *verbs.Completion) bool { return p.ID%2 == 1 })
		<-done
	}}},
	"reverses works": {"messages/messages arrive in the order posted", mutant{post: func(c *mconn, ws []verbs.Work) (int, error) {
		ws = slices.Clone(ws)
		slices.Reverse(ws)
		return c.Conn.Post(ws)
	}}},
	"reverses receives": {"messages/messages arrive in the order posted", mutant{complete: func(c *mconn, cs []verbs.Completion) {
		slices.Reverse(cs)
		c.h.Complete(cs)
	}}},
	"Sends before Writes": {"memory/Writes before a Send", mutant{post: func(c *mconn, ws []verbs.Work) (int, error) {
		ws = slices.Clone(ws)
		slices.SortStableFunc(ws, func(a, b verbs.Work) int { return int(a.Op) - int(b.Op) })
		return c.Conn.Post(ws)
	}}},
	"sends the first segment only": {"messages/Send gathers", mutant{post: each(func(w *verbs.Work) bool {
		w.Segs = w.Segs[:min(1, len(w.Segs))]
		return true
	})}},
	"loses empty messages": {"messages/an empty message", mutant{post: each(func(w *verbs.Work) bool {
		return w.Op != verbs.OpSend || len(w.Segs) > 0
	})}},
	"Put before Complete": {"messages/Buf stays valid until Put", mutant{complete: func(c *mconn, cs []verbs.Completion) {
		for i := range cs {
			if cs[i].Op == verbs.OpRecv {
				c.o.Recv.Put(cs[i].BufID)
			}
		}
		c.h.Complete(cs)
	}}},
	"does not tell Invalidated": {"messages/SendInvalidate names the key", mutant{complete: func(c *mconn, cs []verbs.Completion) {
		for i := range cs {
			cs[i].Invalidated = 0
		}
		c.h.Complete(cs)
	}}},
	"ignores wrong keys of SendInvalidate": {"messages/SendInvalidate of a key", mutant{post: each(func(w *verbs.Work) bool {
		return w.Op != verbs.OpSendInvalidate
	})}},
	"drops what has no receive": {"messages/a message without", mutant{options: func(o *verbs.Options) {
		o.Ready, o.Recv = nil, nil
	}, post: each(func(*verbs.Work) bool { return false })}},
	"writes one byte more": {"memory/Write places", mutant{post: each(func(w *verbs.Work) bool {
		if w.Op == verbs.OpWrite && len(w.Segs) == 1 && w.Segs[0].Off > 0 && w.Segs[0].N < 10 {
			w.Segs = []verbs.Seg{{R: w.Segs[0].R, Off: w.Segs[0].Off, N: w.Segs[0].N + 1}}
		}
		return true
	})}},
	"reads at the wrong offset": {"memory/Read fills", mutant{post: each(func(w *verbs.Work) bool {
		if w.Op == verbs.OpRead && w.Segs[0].N > 1 {
			w.Remote--
		}
		return true
	})}},
	"swaps the fourth segment with the fifth": {"model/random Writes", mutant{post: each(func(w *verbs.Work) bool {
		if len(w.Segs) > 4 {
			w.Segs = slices.Clone(w.Segs)
			w.Segs[3], w.Segs[4] = w.Segs[4], w.Segs[3]
		}
		return true
	})}},
	"loses bytes of long Writes": {"model/random Writes", mutant{post: each(func(w *verbs.Work) bool {
		if last := len(w.Segs) - 1; w.Op == verbs.OpWrite && last >= 0 && w.Segs[last].N > 65536 {
			w.Segs = slices.Clone(w.Segs)
			w.Segs[last].N--
		}
		return true
	})}},
	"agrees on no MaxReads": {"memory/MaxReads is what", mutant{caps: func(c *verbs.Caps) { c.MaxReads = 16 }}},
	"keys repeat": {"memory/a key is never 0", mutant{expose: func(c *mconn, w *verbs.Window, r verbs.Region, off, n int, a verbs.Access) error {
		err := c.Conn.Expose(w, r, off, n, a)
		w.Key &= 0xff
		return err
	}}},
	"addresses can be guessed": {"memory/a key is never 0", mutant{expose: func(c *mconn, w *verbs.Window, r verbs.Region, off, n int, a verbs.Access) error {
		err := c.Conn.Expose(w, r, off, n, a)
		w.Addr = 0
		return err
	}}},
	"ignores rights to write": {"access/Write to what may only be read", mutant{expose: allRights}},
	"ignores rights to read":  {"access/Read of what may only be written", mutant{expose: allRights}},
	"range off by one, Write": {"access/Write one byte beyond", mutant{expose: wider}},
	"range off by one, Read":  {"access/Read longer than the range", mutant{expose: wider}},
	"an Invalidate waits for the peer": {"queue/an Invalidate waits for no peer", mutant{
		complete: func(c *mconn, cs []verbs.Completion) {
			if slices.ContainsFunc(cs, func(p verbs.Completion) bool { return p.Op == verbs.OpRecv }) {
				c.release()
			}
			c.filter(cs, func(p *verbs.Completion) bool {
				if p.Op != verbs.OpInvalidate {
					return true
				}
				c.mu.Lock()
				c.later = append(c.later, *p)
				c.mu.Unlock()
				return false
			})
		},
	}},
	"Invalidate does nothing": {"access/Read with a key that was invalidated", mutant{post: func(c *mconn, ws []verbs.Work) (int, error) {
		ws = slices.Clone(ws)
		for i := range ws {
			if ws[i].Op == verbs.OpInvalidate {
				ws[i].Window = c.dummy()
			}
		}
		return c.Conn.Post(ws)
	}}},
	"no error names the violation": {"access/Write across the end", mutant{disconnected: func(c *mconn, err error) {
		if err != nil {
			err = errors.New("something")
		}
		c.h.Disconnected(err)
	}}},
	"a violation ends every connection": {"access/Read with key 0", mutant{complete: func(c *mconn, cs []verbs.Completion) {
		bad := slices.ContainsFunc(cs, func(p verbs.Completion) bool { return p.Status == verbs.RemoteAccess })
		c.h.Complete(cs)
		if bad {
			for _, o := range everyConn.all() {
				o.Conn.Abort(nil)
			}
		}
	}, options: func(o *verbs.Options) {
		ready := o.Ready
		o.Ready = func(c verbs.Conn) error {
			everyConn.add(&mconn{Conn: c})
			return ready(c)
		}
	}}},
	"Post takes more than Queue": {"queue/Post on a full queue", mutant{caps: func(c *verbs.Caps) { c.Queue /= 2 }}},
	"Post on a full queue is an error": {"queue/Post on a full queue", mutant{post: func(c *mconn, ws []verbs.Work) (int, error) {
		n, err := c.Conn.Post(ws)
		if n < len(ws) && err == nil {
			err = errors.New("full")
		}
		return n, err
	}}},
	"Post takes malformed works": {"queue/a malformed work", mutant{post: each(func(w *verbs.Work) bool {
		return w.Op == verbs.OpSend && len(w.Segs) == 1 && w.Segs[0].R != nil && w.Segs[0].N >= 0
	})}},
	"Post keeps the caller's slice": {"queue/Post copies", mutant{post: func(c *mconn, ws []verbs.Work) (int, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.kept != nil {
			c.Conn.Post(c.kept)
		}
		c.kept = ws
		return len(ws), nil
	}, flush: func(c *mconn) {
		c.mu.Lock()
		kept := c.kept
		c.kept = nil
		c.mu.Unlock()
		c.Conn.Post(kept)
		c.Conn.Flush()
	}}},
	"local completions wait for the peer": {"queue/a local completion", mutant{complete: func(c *mconn, cs []verbs.Completion) {
		for i := range cs {
			if cs[i].Op == verbs.OpRecv || cs[i].Status != verbs.OK || c.n < 1 {
				c.n++
				c.later = append(c.later, cs...)
				cs, c.later = c.later, nil
				c.h.Complete(cs)
				return
			}
		}
		c.later = append(c.later, cs...)
	}}},
	"slots are free only after Complete": {"queue/slots are free", mutant{post: func(c *mconn, ws []verbs.Work) (int, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		n, err := c.Conn.Post(ws[:min(len(ws), c.Conn.Caps().Queue-c.n)])
		c.n += n
		return n, err
	}, complete: func(c *mconn, cs []verbs.Completion) {
		works := 0
		for i := range cs {
			if cs[i].Op != verbs.OpRecv {
				works++
			}
		}
		c.h.Complete(cs)
		c.mu.Lock()
		c.n -= works
		c.mu.Unlock()
	}}},
	"Flush from within Complete calls Complete": {"queue/a chain may run in Complete", mutant{flush: func(c *mconn) {
		c.Conn.Flush()
		c.release()
	}, complete: func(c *mconn, cs []verbs.Completion) {
		c.filter(cs, func(p *verbs.Completion) bool {
			if p.Op == verbs.OpSend && p.Status == verbs.OK {
				c.mu.Lock()
				c.later = append(c.later, *p)
				c.mu.Unlock()
				return false
			}
			return true
		})
	}}},
	"Close does not wait for what was posted": {"end/Close lets", mutant{close: func(c *mconn) error {
		c.Conn.Abort(nil)
		return nil
	}}},
	"Close is an error to the peer": {"end/Close by the dialler, idle", mutant{disconnected: func(c *mconn, err error) { c.h.Disconnected(errors.New("end of file")) }}},
	"Abort loses its error":         {"end/Abort's error", mutant{abort: func(c *mconn, err error) { c.Conn.Abort(errors.New("aborted")) }}},
	"Abort looks orderly":           {"end/Abort's error", mutant{disconnected: func(c *mconn, err error) { c.h.Disconnected(nil) }}},
	"Disconnected twice": {"end/Close by the dialler, idle", mutant{disconnected: func(c *mconn, err error) {
		c.h.Disconnected(err)
		c.h.Disconnected(err)
	}}},
	"no Disconnected": {"end/Domain.Close by the dialler, idle", mutant{disconnected: func(*mconn, error) {}}},
	"Disconnected before last": {"end/Abort by the acceptor, Sends posted", mutant{complete: func(c *mconn, cs []verbs.Completion) {
		if cs[0].Status == verbs.Flushed && c.n == 0 {
			c.n++
			c.h.Disconnected(nil)
		}
		c.h.Complete(cs)
	}, disconnected: func(c *mconn, err error) {
		if c.n == 0 {
			c.h.Disconnected(err)
		}
	}}},
	"after the end Post says nothing of it": {"end/after the end Post", mutant{post: func(c *mconn, ws []verbs.Work) (int, error) {
		n, err := c.Conn.Post(ws)
		if err != nil {
			err = errors.New("no")
		}
		return n, err
	}}},
	"Domain.Close does not wait": {"end/Domain.Close ends live", mutant{domain: func(d verbs.Domain) verbs.Domain { return hasty{d} }}},
	"leaks a goroutine":          {"messages/Send gathers", mutant{open: func(map[string]string) { go func() { select {} }() }}},

	"takes unknown options":      {"domain/an unknown option", mutant{open: func(o map[string]string) { clear(o) }}},
	"Register allocates":         {"domain/Release recycles", mutant{domain: func(d verbs.Domain) verbs.Domain { return wasteful{d} }}},
	"a second Release is silent": {"domain/a second Release", mutant{domain: func(d verbs.Domain) verbs.Domain { return wasteful{d} }}},
	"Alloc is not zeroed":        {"domain/Alloc gives zeroed", mutant{domain: func(d verbs.Domain) verbs.Domain { return wasteful{d} }}},

	"private data is cut": {"private/it travels", mutant{options: func(o *verbs.Options) {
		private := o.Private
		o.Private = func(c verbs.Caps, peer []byte) []byte { return private(c, peer)[:4] }
	}}},
	"long private data is cut": {"private/longer than Caps.PrivateDial", mutant{options: func(o *verbs.Options) {
		if private := o.Private; private != nil {
			o.Private = func(c verbs.Caps, peer []byte) []byte { return private(c, peer)[:c.PrivateDial] }
		}
	}}},
	"long private data of an accept is cut": {"private/longer than Caps.PrivateAccept", mutant{options: func(o *verbs.Options) {
		if private := o.Private; private != nil {
			o.Private = func(c verbs.Caps, peer []byte) []byte { return private(c, peer)[:c.PrivateAccept] }
		}
	}}},
	"long private data of a reject is cut":       {"private/longer than Caps.PrivateReject", mutant{request: func(r verbs.Request) verbs.Request { return cutReject{r} }}},
	"promises longer private data than it takes": {"private/as long as Caps.PrivateDial", mutant{domain: func(d verbs.Domain) verbs.Domain { return boaster{d} }}},
	"promises longer private data of a reject":   {"private/as long as Caps.PrivateReject", mutant{domain: func(d verbs.Domain) verbs.Domain { return boaster{d} }}},
	"Admit is not asked":                         {"admit/a peer that Admit refuses gets", mutant{domain: func(d verbs.Domain) verbs.Domain { return careless{d} }}},
	"Admit is asked in Accept":                   {"admit/a peer that Admit refuses gets", mutant{domain: func(d verbs.Domain) verbs.Domain { return tardy{d} }}},
	"who is not admitted shows":                  {"admit/a peer that Admit refuses never", mutant{domain: func(d verbs.Domain) verbs.Domain { return careless{d} }}},
	"Admit is asked under a lock":                {"admit/Admit may close", mutant{domain: func(d verbs.Domain) verbs.Domain { return &locked{Domain: d} }}},

	"the domain to accept into is not looked at": {"into/a connection ends with", mutant{into: func(o *verbs.Options) {
		o.Domain, o.Recv = nil, nil
	}}},
	"foreign domains are accepted into": {"into/a domain that is not", mutant{into: func(o *verbs.Options) {
		if fmt.Sprintf("%T", o.Domain) == "providertest.foreign" {
			o.Domain, o.Recv = nil, nil
		}
	}}},

	"tapped frames have no addresses": {"tap/Tap gets", mutant{options: tapping(func(f *verbs.Frame) { f.Local = netip.AddrPort{} })}},
	"tapped frames have no type":      {"tap/Tap gets", mutant{options: tapping(func(f *verbs.Frame) { f.Link = 0 })}},
	"every tapped frame is the first": {"tap/Tap gets", mutant{options: tapping(func(f *verbs.Frame) { f.First = true })}},
	"tapped frames lack their end":    {"tap/Tap gets", mutant{options: tapping(func(f *verbs.Frame) { f.Parts = [][]byte{f.Parts[0][:4]} })}},
	"tapped packets are cut":          {"tap/Tap gets", mutant{options: tapping(func(f *verbs.Frame) { f.Link = verbs.LinkIP })}},

	"Caps lack the segments of a Read": {"domain/Caps are whole", mutant{domain: func(d verbs.Domain) verbs.Domain { return readless{d} }}},

	"Private is not told the peer's": {"private/it travels", mutant{options: func(o *verbs.Options) {
		private := o.Private
		o.Private = func(c verbs.Caps, _ []byte) []byte { return private(c, nil) }
	}}},
	"Ready comes late, dialling": {"set-up/the peer of a dialled", mutant{dial: func(d verbs.Domain, ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
		ready := o.Ready
		o.Ready = nil
		c, err := d.Dial(ctx, addr, o)
		if err == nil {
			err = ready(c)
		}
		return c, err
	}}},
	"a Request has another local address": {"set-up/a Request shows", mutant{request: func(r verbs.Request) verbs.Request { return astray{r} }}},
	"Ready comes late, accepting":         {"set-up/the peer of an accepted", mutant{request: func(r verbs.Request) verbs.Request { return lateReady{r} }}},
	"Post is taken in Ready": {"set-up/Post within Ready", mutant{post: func(c *mconn, ws []verbs.Work) (int, error) {
		n, err := c.Conn.Post(ws)
		if err != nil && len(ws) == 1 && ws[0].ID == 1 {
			return 1, nil
		}
		return n, err
	}}},
	"Ready's error is lost": {"set-up/an error of Ready ends the set-up and is returned by Dial", mutant{options: func(o *verbs.Options) {
		ready := o.Ready
		o.Ready = func(c verbs.Conn) error { ready(c); return nil }
	}}},
	"Reject loses its private data": {"private/Reject refuses", mutant{request: func(r verbs.Request) verbs.Request { return mute{r} }}},
	"Dial ignores its context": {"set-up/Dial ends when", mutant{dial: func(d verbs.Domain, _ context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
		return d.Dial(context.Background(), addr, o)
	}}},
	"Dial hides that nothing listens": {"set-up/dialling where nothing listens", mutant{dial: func(d verbs.Domain, ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
		c, err := d.Dial(ctx, addr, o)
		if errors.Is(err, syscall.ECONNREFUSED) {
			err = errors.New(err.Error())
		}
		return c, err
	}}},
	"Accept ignores its context":  {"set-up/Accept ends when", mutant{listener: func(l verbs.Listener) verbs.Listener { return deaf{l} }}},
	"Listener.Close tells nobody": {"set-up/Close of a Listener", mutant{listener: func(l verbs.Listener) verbs.Listener { return stubborn{l} }}},
	"requests wait in line":       {"set-up/a Request waiting", mutant{listener: func(l verbs.Listener) verbs.Listener { return &oneByOne{Listener: l} }}},

	"a pool promises too much": {"pool/Reserve promises", mutant{domain: func(d verbs.Domain) verbs.Domain { return generous{d} }}},
	"Put gives nothing back":   {"pool/Put gives the buffer back", mutant{domain: func(d verbs.Domain) verbs.Domain { return generous{d} }}},

	"Detach does nothing": {"detach/after Detach, Writes", mutant{detach: func(*mconn, *verbs.Window, []byte) bool { return true }}},
	"Detach gives zeros": {"detach/after Detach, Reads", mutant{detach: func(c *mconn, w *verbs.Window, spare []byte) bool {
		ok := c.Conn.(verbs.Detacher).Detach(w, spare)
		clear(spare)
		return ok
	}}},
	"Detach is always true": {"detach/Detach of a window that is not", mutant{detach: func(c *mconn, w *verbs.Window, spare []byte) bool {
		c.Conn.(verbs.Detacher).Detach(w, spare)
		return true
	}}},
	"Detach returns early": {"detach/Detach under a stream", mutant{detach: func(c *mconn, w *verbs.Window, spare []byte) bool {
		old := *w
		time.AfterFunc(2*time.Millisecond, func() { c.Conn.(verbs.Detacher).Detach(&old, spare) })
		return true
	}}},
	"Detach waits for the peer": {"detach/Detach waits for no peer", mutant{detach: func(c *mconn, w *verbs.Window, spare []byte) bool {
		time.Sleep(2 * time.Second)
		return c.Conn.(verbs.Detacher).Detach(w, spare)
	}}},

	"two may drive": {"drive/Drive is false", mutant{drive: func(c *mconn, stop func() bool) bool {
		c.Conn.(verbs.Driver).Drive(stop)
		return true
	}}},
	"Kick is lost": {"drive/Kick makes", mutant{kick: func(*mconn) {}}},
	"stop is asked too late": {"drive/stop is asked", mutant{drive: func(c *mconn, stop func() bool) bool {
		first := true
		return c.Conn.(verbs.Driver).Drive(func() bool {
			was := first
			first = false
			return !was && stop()
		})
	}}},
	"Drive leaves the reading to others": {"drive/receives complete on the leader's", mutant{complete: func(c *mconn, cs []verbs.Completion) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.h.Complete(cs)
		}()
		<-done
	}}},
	"Stats stand still": {"load/Stats count", mutant{stats: func(_ *mconn, s *verbs.Stats) { *s = verbs.Stats{} }}},
	"large queues are not flushed": {"load/64 Writes of 1 MiB", mutant{post: func(c *mconn, ws []verbs.Work) (int, error) {
		n, err := c.Conn.Post(ws)
		c.n += n
		return n, err
	}, flush: func(c *mconn) {
		if c.n < 32 {
			c.Conn.Flush()
		}
	}}},
}
