package iwarp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp"
)

// end is one side of a connection in these tests. on is called for each completion.
type end struct {
	dom  verbs.Domain
	conn verbs.Conn
	reg  verbs.Region
	on   func(cp *verbs.Completion)
	// batch, if not nil, follows each call of Complete.
	batch func()
	gone  chan error
}

func (e *end) Complete(cs []verbs.Completion) {
	for i := range cs {
		e.on(&cs[i])
	}
	if e.batch != nil {
		e.batch()
	}
}

func (e *end) Disconnected(err error) { e.gone <- err }

// options are an end's: the slab, receives of size bytes each, and where frames go.
type endOptions struct {
	open  map[string]string
	slab  int
	recvs int
	size  int
	tap   verbs.Tap
}

// connect makes a connected pair; both ends' receives are posted from the slab's start.
func connect(t testing.TB, p verbs.Provider, o endOptions) (dial, accept *end) {
	t.Helper()
	ctx := context.Background()
	ends := [2]*end{}
	for i := range ends {
		d, err := p.Open(ctx, "", o.open)
		if err != nil {
			t.Fatal(err)
		}
		r, err := d.Alloc(max(o.slab, o.recvs*o.size, 1))
		if err != nil {
			t.Fatal(err)
		}
		e := &end{dom: d, reg: r, gone: make(chan error, 1), on: func(*verbs.Completion) {}}
		ends[i] = e
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	options := func(e *end) verbs.Options {
		return verbs.Options{Handler: e, Tap: o.tap, Ready: func(c verbs.Conn) error {
			e.conn = c
			for i := range o.recvs {
				if _, err := c.PostRecv([]verbs.Recv{{ID: uint64(i), Seg: verbs.Seg{R: e.reg, Off: i * o.size, N: o.size}}}); err != nil {
					return err
				}
			}
			return nil
		}}
	}
	l, err := ends[1].dom.Listen(ctx, "127.0.0.1:0", verbs.ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error, 1)
	go func() {
		r, err := l.Accept(ctx)
		if err == nil {
			_, err = r.Accept(ctx, options(ends[1]))
		}
		accepted <- err
	}()
	_, err = ends[0].dom.Dial(ctx, l.Addr().String(), options(ends[0]))
	if err := errors.Join(err, <-accepted, l.Close()); err != nil {
		t.Fatal(err)
	}
	return ends[0], ends[1]
}

// pingPong lets b answer each message of a with one of n bytes, and returns one round trip.
func pingPong(t testing.TB, a, b *end, n int) (trip func()) {
	repost := make([]verbs.Recv, 1)
	answer := []verbs.Work{{Op: verbs.OpSend, Segs: []verbs.Seg{{R: b.reg, N: n}}}}
	b.on = func(cp *verbs.Completion) {
		if cp.Op != verbs.OpRecv || cp.Status != verbs.OK {
			return
		}
		repost[0] = verbs.Recv{ID: cp.ID, Seg: verbs.Seg{R: b.reg, N: n}}
		b.conn.PostRecv(repost)
		b.conn.Post(answer)
		b.conn.Flush()
	}
	came := false
	back := make([]verbs.Recv, 1)
	a.on = func(cp *verbs.Completion) {
		if cp.Op == verbs.OpRecv {
			back[0] = verbs.Recv{ID: cp.ID, Seg: verbs.Seg{R: a.reg, N: n}}
			a.conn.PostRecv(back)
			came = true
		}
	}
	ask := []verbs.Work{{Op: verbs.OpSend, Segs: []verbs.Seg{{R: a.reg, N: n}}}}
	stop := func() bool { return came }
	driver := a.conn.(verbs.Driver)
	return func() {
		came = false
		a.conn.Post(ask)
		a.conn.Flush()
		if !driver.Drive(stop) {
			t.Error("Drive: somebody else drives")
		}
	}
}

func BenchmarkPingPong64(b *testing.B) {
	for _, crc := range []string{"true", "false"} {
		b.Run("crc="+crc, func(b *testing.B) {
			x, y := connect(b, iwarp.New(nil), endOptions{open: map[string]string{"crc": crc}, recvs: 4, size: 64})
			trip := pingPong(b, x, y, 64)
			b.ReportAllocs()
			for b.Loop() {
				trip()
			}
		})
	}
	b.Run("tcp", func(b *testing.B) {
		x, y := tcpPair(b)
		go func() {
			buf := make([]byte, 64)
			for {
				if _, err := io.ReadFull(y, buf); err != nil {
					return
				}
				y.Write(buf)
			}
		}()
		buf := make([]byte, 64)
		b.ReportAllocs()
		for b.Loop() {
			x.Write(buf)
			if _, err := io.ReadFull(x, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func tcpPair(b testing.TB) (x, y net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	if x, err = net.Dial("tcp", l.Addr().String()); err != nil {
		b.Fatal(err)
	}
	if y, err = l.Accept(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { x.Close(); y.Close() })
	return x, y
}

const mib = 1 << 20

// writer lets a write n bytes into b's slab and wait for b's word that they are there.
func writer(t testing.TB, a, b *end, n int) (trip func()) {
	var w verbs.Window
	if err := b.conn.Expose(&w, b.reg, mib, n, verbs.RemoteWrite); err != nil {
		t.Fatal(err)
	}
	ask := pingPong(t, a, b, 64)
	work := []verbs.Work{{Op: verbs.OpWrite, Segs: []verbs.Seg{{R: a.reg, Off: mib, N: n}}, Key: w.Key, Remote: w.Addr}}
	return func() {
		a.conn.Post(work)
		ask()
	}
}

func BenchmarkWrite1M(b *testing.B) {
	for _, c := range []struct{ crc, mtu string }{{"true", "0"}, {"false", "0"}, {"true", "1448"}} { // the last: Ethernet's frames
		b.Run("crc="+c.crc+"/mtu="+c.mtu, func(b *testing.B) {
			x, y := connect(b, iwarp.New(nil), endOptions{open: map[string]string{"crc": c.crc, "mtu": c.mtu}, recvs: 4, size: 64, slab: 2 * mib})
			trip := writer(b, x, y, mib)
			b.SetBytes(mib)
			b.ReportAllocs()
			var s, e verbs.Stats
			y.conn.Stats(&s)
			for b.Loop() {
				trip()
			}
			y.conn.Stats(&e)
			b.ReportMetric(float64(e.ReadCalls-s.ReadCalls)/float64(b.N), "reads/op")
			x.conn.Stats(&e)
			b.ReportMetric(float64(e.WriteCalls)/float64(b.N), "writes/op")
		})
	}
	b.Run("tcp", func(b *testing.B) {
		x, y := tcpPair(b)
		go func() {
			buf := make([]byte, mib)
			for {
				if _, err := io.ReadFull(y, buf); err != nil {
					return
				}
				y.Write(buf[:64])
			}
		}()
		buf := make([]byte, mib)
		b.SetBytes(mib)
		for b.Loop() {
			x.Write(buf)
			if _, err := io.ReadFull(x, buf[:64]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// stream writes as fast as completions come, 16 MiB ahead.
func BenchmarkStream1M(b *testing.B) {
	const ahead = 16
	for _, crc := range []string{"true", "false"} {
		b.Run("crc="+crc, func(b *testing.B) {
			x, y := connect(b, iwarp.New(nil), endOptions{open: map[string]string{"crc": crc}, recvs: 4, size: 64, slab: 2 * mib})
			var w verbs.Window
			if err := y.conn.Expose(&w, y.reg, mib, mib, verbs.RemoteWrite); err != nil {
				b.Fatal(err)
			}
			slots := make(chan struct{}, ahead)
			x.on = func(cp *verbs.Completion) {
				if cp.Op == verbs.OpWrite {
					<-slots
				}
			}
			work := []verbs.Work{{Op: verbs.OpWrite, Segs: []verbs.Seg{{R: x.reg, Off: mib, N: mib}}, Key: w.Key, Remote: w.Addr}}
			b.SetBytes(mib)
			b.ReportAllocs()
			for b.Loop() {
				slots <- struct{}{}
				x.conn.Post(work)
				x.conn.Flush()
			}
		})
	}
	b.Run("tcp", func(b *testing.B) {
		x, y := tcpPair(b)
		go func() {
			buf := make([]byte, mib)
			for {
				if _, err := y.Read(buf); err != nil {
					return
				}
			}
		}()
		buf := make([]byte, mib)
		b.SetBytes(mib)
		for b.Loop() {
			x.Write(buf)
		}
	})
}

// BenchmarkCallers64 is 64 goroutines that each wait for the answer to a message of 64 B, on
// one connection; the resident readers read.
func BenchmarkCallers64(b *testing.B) {
	const callers = 64
	x, y := connect(b, iwarp.New(nil), endOptions{recvs: 2 * callers, size: 64, slab: 2 * callers * 64})
	back := make([]verbs.Recv, 1)
	answer := make([]verbs.Work, 1)
	y.on = func(cp *verbs.Completion) {
		if cp.Op != verbs.OpRecv || cp.Status != verbs.OK {
			return
		}
		seg := verbs.Seg{R: y.reg, Off: int(cp.ID) * 64, N: 64}
		answer[0] = verbs.Work{ID: cp.ID, Op: verbs.OpSend, Segs: []verbs.Seg{seg}}
		y.conn.Post(answer)
	}
	y.batch = func() { y.conn.Flush() }
	repost := make([]verbs.Recv, 1)
	yOn := y.on
	y.on = func(cp *verbs.Completion) {
		yOn(cp)
		if cp.Op == verbs.OpSend && cp.Status == verbs.OK {
			repost[0] = verbs.Recv{ID: cp.ID, Seg: verbs.Seg{R: y.reg, Off: int(cp.ID) * 64, N: 64}}
			y.conn.PostRecv(repost)
		}
	}
	var wake [callers]chan struct{}
	for i := range wake {
		wake[i] = make(chan struct{}, 1)
	}
	x.on = func(cp *verbs.Completion) {
		if cp.Op != verbs.OpRecv || cp.Status != verbs.OK {
			return
		}
		i := cp.Buf[0]
		back[0] = verbs.Recv{ID: cp.ID, Seg: verbs.Seg{R: x.reg, Off: int(cp.ID) * 64, N: 64}}
		x.conn.PostRecv(back)
		wake[i] <- struct{}{}
	}
	out, err := x.dom.Alloc(callers * 64)
	if err != nil {
		b.Fatal(err)
	}
	each := b.N/callers + 1
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range callers {
		out.Bytes()[i*64] = byte(i)
		wg.Go(func() {
			ask := []verbs.Work{{Op: verbs.OpSend, Segs: []verbs.Seg{{R: out, Off: i * 64, N: 64}}}}
			for range each {
				x.conn.Post(ask)
				x.conn.Flush()
				<-wake[i]
			}
		})
	}
	wg.Wait()
	var s verbs.Stats
	x.conn.Stats(&s)
	b.ReportMetric(float64(s.WriteCalls)/float64(b.N), "writes/op")
	b.ReportMetric(float64(s.ReadCalls)/float64(b.N), "reads/op")
}
