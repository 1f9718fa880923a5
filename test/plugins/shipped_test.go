package plugins_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/extensions"
	"github.com/rpcrdma/rpcrdma/extensions/x/hostauth"
	"github.com/rpcrdma/rpcrdma/extensions/x/keepalive"
	"github.com/rpcrdma/rpcrdma/props"
)

// shipped are extensions that come with the program.
var shipped = map[string]func(map[string]string) (ext.Extension, error){
	props.Name:     newProps,
	keepalive.Name: keepalive.Configured,
	hostauth.Name:  hostauth.Configured,
}

// bothWays runs f with what makes the extension name, beside props, compiled in and as a plugin.
func bothWays(t *testing.T, name string, f func(t *testing.T, with func(options map[string]string) *extensions.Loaded)) {
	for _, way := range []string{"compiled in", "plugin"} {
		t.Run(way, func(t *testing.T) {
			f(t, func(options map[string]string) *extensions.Loaded {
				spec := extensions.Spec{Name: name, Required: true}
				if way == "plugin" {
					spec = plugin(t, name)
					spec.Timeout = time.Second
				}
				spec.Options = options
				return load(t, io.Discard, extensions.Spec{Name: props.Name, Required: true}, spec)
			})
		})
	}
}

func call(t testing.TB, c *rpc.Client) error {
	in, out := blob("host"), make(blob, 0, 64)
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	return c.Call(ctx, echo, &in, &out)
}

// relay forwards the streams of an iWARP server: a translator of addresses, that can fall silent. While it is silent it does not tell
// one side that the other has ended, either.
type relay struct {
	url   string
	l     net.Listener
	mu    sync.Mutex
	quiet bool
	more  *sync.Cond // not quiet any more, or over
	over  bool
	conns []net.Conn
	wg    sync.WaitGroup
	dials int
}

func newRelay(t testing.TB, to string) *relay {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{url: "iwarp://" + l.Addr().String(), l: l}
	r.more = sync.NewCond(&r.mu)
	r.wg.Go(func() { r.accept(u.Host) })
	t.Cleanup(func() {
		l.Close()
		r.mu.Lock()
		r.over = true
		for _, c := range r.conns {
			c.Close()
		}
		r.more.Broadcast()
		r.mu.Unlock()
		r.wg.Wait()
	})
	return r
}

func (r *relay) accept(to string) {
	for {
		in, err := r.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", to)
		if err != nil {
			in.Close()
			continue
		}
		r.mu.Lock()
		if r.over {
			r.mu.Unlock()
			in.Close()
			out.Close()
			return
		}
		r.dials++
		r.conns = append(r.conns, in, out)
		r.mu.Unlock()
		r.wg.Go(func() { r.copy(in, out) })
		r.wg.Go(func() { r.copy(out, in) })
	}
}

func (r *relay) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		r.mu.Lock()
		for r.quiet && !r.over {
			r.more.Wait()
		}
		r.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

func (r *relay) fallSilent(quiet bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.quiet = quiet
	r.more.Broadcast()
}

// dialled is how often.
func (r *relay) dialled() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dials
}
