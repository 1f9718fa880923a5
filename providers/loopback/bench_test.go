package loopback

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// end is a Handler for measuring: it counts, and answers if told to.
type end struct {
	conn  verbs.Conn
	pool  verbs.RecvPool
	echo  []verbs.Work // posted for each receive
	recvs atomic.Int64
	works func(n int)   // told of works completed, if not nil
	done  chan int      // the same
	came  chan struct{} // told of each receive, if not nil
	gone  chan error
}

func (e *end) Complete(cs []verbs.Completion) {
	works := 0
	for i := range cs {
		if cs[i].Op != verbs.OpRecv {
			works++
			continue
		}
		if cs[i].Status != verbs.OK {
			continue
		}
		e.pool.Put(cs[i].BufID)
		e.recvs.Add(1)
		if e.came != nil {
			e.came <- struct{}{}
		}
		if e.echo != nil {
			e.conn.Post(e.echo)
		}
	}
	if e.echo != nil {
		e.conn.Flush()
	}
	if e.works != nil && works > 0 {
		e.works(works)
	}
	if e.done != nil && works > 0 {
		e.done <- works
	}
}

func (e *end) Disconnected(err error) { e.gone <- err }

// pair connects two ends over two domains.
func pair(tb testing.TB, options map[string]string) (a, b *end, da, db verbs.Domain) {
	tb.Helper()
	ctx := context.Background()
	open := func() (verbs.Domain, *end) {
		d, err := Provider{}.Open(ctx, "", options)
		if err != nil {
			tb.Fatal(err)
		}
		p, err := d.NewRecvPool(128, 4096)
		if err != nil {
			tb.Fatal(err)
		}
		return d, &end{pool: p, gone: make(chan error, 1)}
	}
	da, a = open()
	db, b = open()
	tb.Cleanup(func() {
		da.Close()
		db.Close()
	})
	l, err := db.Listen(ctx, "127.0.0.1:0", verbs.ListenOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	accepted := make(chan error, 1)
	go func() {
		r, err := l.Accept(ctx)
		if err == nil {
			_, err = r.Accept(ctx, verbs.Options{Handler: b, Recv: b.pool, Ready: func(c verbs.Conn) error { b.conn = c; return nil }})
		}
		accepted <- err
	}()
	_, err = da.Dial(ctx, l.Addr().String(), verbs.Options{Handler: a, Recv: a.pool, Ready: func(c verbs.Conn) error { a.conn = c; return nil }})
	if err != nil {
		tb.Fatal(err)
	}
	if err := <-accepted; err != nil {
		tb.Fatal(err)
	}
	return a, b, da, db
}

func alloc(tb testing.TB, d verbs.Domain, n int) verbs.Region {
	tb.Helper()
	r, err := d.Alloc(n)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// pingPong is a client's leader and a server's resident reader.
func pingPong(tb testing.TB) func() {
	a, b, da, db := pair(tb, nil)
	b.echo = []verbs.Work{{ID: 1, Op: verbs.OpSend, Segs: []verbs.Seg{{R: alloc(tb, db, 64), N: 64}}}}
	ping := []verbs.Work{{ID: 1, Op: verbs.OpSend, Segs: []verbs.Seg{{R: alloc(tb, da, 64), N: 64}}}}
	leader := a.conn.(verbs.Driver)
	want := int64(0)
	stop := func() bool { return a.recvs.Load() >= want }
	return func() {
		want++
		a.conn.Post(ping)
		a.conn.Flush()
		leader.Drive(stop)
	}
}

func BenchmarkPingPong64(b *testing.B) {
	f := pingPong(b)
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}

// BenchmarkChannelRoundTrip is the yardstick of the one above.
func BenchmarkChannelRoundTrip(b *testing.B) {
	there, back := make(chan struct{}, 1), make(chan struct{}, 1)
	go func() {
		for range there {
			back <- struct{}{}
		}
	}()
	for b.Loop() {
		there <- struct{}{}
		<-back
	}
	close(there)
}

func bulk(b *testing.B, op verbs.Op) {
	const n = 1 << 20
	x, y, da, db := pair(b, nil)
	left := 0
	x.works = func(n int) { left -= n }
	leader, done := x.conn.(verbs.Driver), func() bool { return left == 0 }
	near, far := alloc(b, da, n), alloc(b, db, n)
	var w verbs.Window
	if err := y.conn.Expose(&w, far, 0, n, verbs.RemoteRead|verbs.RemoteWrite); err != nil {
		b.Fatal(err)
	}
	ws := []verbs.Work{{Op: op, Segs: []verbs.Seg{{R: near, N: n}}, Key: w.Key, Remote: w.Addr}}
	// A copy of other memory of the same size in turn with each: the machine's mood hits both.
	p, q := alloc(b, da, n).Bytes(), alloc(b, db, n).Bytes()
	var copying, working time.Duration
	b.ReportAllocs()
	for b.Loop() {
		t := time.Now()
		copy(p, q)
		copying += time.Since(t)
		t = time.Now()
		left = 1
		x.conn.Post(ws)
		x.conn.Flush()
		leader.Drive(done) // a Read completes here, a Write has
		working += time.Since(t)
	}
	b.ReportMetric(float64(copying)/float64(working), "x-memcpy")
	b.ReportMetric(float64(n)*float64(b.N)/working.Seconds()/1e6, "MB/s")
}

func BenchmarkWrite1M(b *testing.B) { bulk(b, verbs.OpWrite) }
func BenchmarkRead1M(b *testing.B)  { bulk(b, verbs.OpRead) }
