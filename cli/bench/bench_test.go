package bench

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	_ "github.com/rpcrdma/rpcrdma/providers/loopback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseSizes(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []int
	}{
		{"0", []int{0}}, {"64", []int{64}}, {"4k, 1M", []int{4096, 1 << 20}}, {"64..256,1k", []int{64, 128, 256, 1024}},
		{"8m…16m", []int{8 << 20, 16 << 20}}, {"3..11", []int{3, 6}},
		{"", nil}, {"-1", nil}, {"16m,1x", nil}, {"17m", nil}, {"16777217", nil}, {"0..4", nil}, {"8..4", nil}, {"1..2..4", nil}, {"99999999999999999999k", nil},
	} {
		got, err := ParseSizes(c.in)
		if !slices.Equal(got, c.want) && c.want != nil || (err != nil) != (c.want == nil) {
			t.Errorf("%q: %v, %v; want %v", c.in, got, err, c.want)
		}
		for _, n := range got {
			if again, err := ParseSizes(FormatSize(n)); err != nil || again[0] != n {
				t.Errorf("%d is written %q and read %v, %v", n, FormatSize(n), again, err)
			}
		}
	}
	if all, err := ParseSizes("64..16m"); err != nil || len(all) != 19 {
		t.Errorf("64..16m: %d sizes, %v", len(all), err)
	}
}

func TestHist(t *testing.T) {
	var h, part Hist
	var all []time.Duration
	var sum, squares float64
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 20000 {
		d := time.Duration(r.ExpFloat64() * 50_000)
		all = append(all, d)
		sum += float64(d)
		squares += float64(d) * float64(d)
		if i%3 == 0 {
			part.Add(d)
		} else {
			h.Add(d)
		}
	}
	h.Merge(new(Hist))
	h.Merge(&part)
	slices.Sort(all)
	near := func(what string, got, want time.Duration, share float64) {
		t.Helper()
		if math.Abs(float64(got-want)) > share*float64(want)+2 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	n := float64(len(all))
	near("min", h.Min(), all[0], 0)
	near("max", h.Max(), all[len(all)-1], 0)
	near("mean", h.Mean(), time.Duration(sum/n), 1e-6)
	near("deviation", h.Deviation(), time.Duration(math.Sqrt(squares/n-sum/n*sum/n)), 1e-6)
	for _, p := range []float64{.01, .5, .9, .99, .999, 1} {
		near("quantile", h.Quantile(p), all[max(0, int(p*n)-1)], .04)
	}
	var calls uint64
	for _, b := range h.Buckets() {
		calls += b.Calls
	}
	if h.N() != 20000 || calls != 20000 {
		t.Errorf("%d counted, %d in buckets", h.N(), calls)
	}
	var none Hist
	if none.Quantile(.5) != 0 || none.Mean() != 0 || none.Deviation() != 0 || none.Buckets() != nil {
		t.Error("something was counted of nothing")
	}
}

// TestCheckSeesTheCallBefore: what the call before left behind is not taken for a payload.
func TestCheckSeesTheCallBefore(t *testing.T) {
	all := make([]byte, 1<<20+MaxOffset)
	Fill(all)
	for _, n := range []int{1, 15, 16, 64, 1000, 4096, 1 << 20} {
		for offset := 0; offset+64 <= MaxOffset; offset += 64 {
			if err := Check(all[offset:][:n], n, offset); err != nil {
				t.Errorf("%d bytes at %d: %v", n, offset, err)
			}
			if Check(all[offset:][:n], n, offset+64) == nil {
				t.Errorf("%d bytes at %d pass for those at %d", n, offset, offset+64)
			}
		}
		if Check(all[:n-1], n, 0) == nil || Check(make([]byte, n), n, 0) == nil {
			t.Errorf("%d bytes: a wrong payload passed", n)
		}
	}
}

// serve starts the program with a pattern of n bytes, changed by spoil, and connects to it.
func serve(t testing.TB, n int, spoil func([]byte)) *rpc.Client {
	t.Helper()
	pattern, err := NewPattern(n)
	if err != nil {
		t.Fatal(err)
	}
	if spoil != nil {
		spoil(pattern.Bytes())
	}
	s := rpc.NewServer()
	Register(s, pattern)
	l, err := rpc.Listen(t.Context(), "loopback://127.0.0.1:0", ListenOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Serve(context.WithoutCancel(t.Context()), l) }()
	c, err := rpc.NewClient(l.URL(), rpc.WithCallTimeout(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		s.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		pattern.Free()
	})
	return c
}

func TestEverySizeArrivesWhole(t *testing.T) {
	c := serve(t, MaxPayload, nil)
	pattern, err := NewPattern(MaxPayload)
	if err != nil {
		t.Fatal(err)
	}
	defer pattern.Free()
	caller := NewCaller(c, pattern)
	defer caller.Free()
	for _, op := range Ops {
		for _, n := range []int{0, 1, 64, 3997, 4096, 1<<20 + 1, MaxPayload} {
			for range 3 {
				if err := caller.DoWhole(t.Context(), op, n); err != nil {
					t.Errorf("%s of %d: %v", op, n, err)
				}
			}
		}
	}
}

func TestAWrongPayloadEndsTheRun(t *testing.T) {
	for _, op := range []Op{Read, Write} {
		c := serve(t, 1<<16, func(b []byte) { b[3000] ^= 1 })
		results := 0
		err := Run(t.Context(), c, Options{Op: op, Sizes: []int{2000, 1 << 16}, Callers: 2, Calls: 10}, func(r *Result) {
			if results++; r.Bytes != 2000 || r.Calls.N() != 10 {
				t.Errorf("%s: %d calls of %d bytes", op, r.Calls.N(), r.Bytes)
			}
		})
		if !errors.Is(err, ErrPayload) || results != 1 {
			t.Errorf("%s: %d results, %v", op, results, err)
		}
	}
}

// TestTheServerRefusesWhatItHasNot, and stays.
func TestTheServerRefusesWhatItHasNot(t *testing.T) {
	c := serve(t, 1<<16, nil)
	pattern, err := NewPattern(1 << 17)
	if err != nil {
		t.Fatal(err)
	}
	defer pattern.Free()
	caller := NewCaller(c, pattern)
	defer caller.Free()
	if err := caller.Do(t.Context(), Read, 1<<16+1); !errors.Is(err, rpc.ErrGarbageArgs) {
		t.Errorf("a byte more than there is: %v", err)
	}
	if err := caller.Do(t.Context(), Read, 1<<16); err != nil {
		t.Error(err)
	}
	if err := caller.DoWhole(t.Context(), Write, 1<<17); err != nil {
		t.Errorf("more than the server can compare whole: %v", err)
	}
}

func TestRunCountsWhatItWasAskedFor(t *testing.T) {
	c := serve(t, 1<<16, nil)
	var got []int
	told := 0
	o := Options{Op: Echo, Sizes: []int{64, 1000}, Callers: 7, Calls: 100, Warmup: time.Millisecond, Tell: func(int, uint64, time.Duration) { told++ }}
	if err := Run(t.Context(), c, o, func(r *Result) {
		got = append(got, r.Bytes)
		if r.Calls.N() != 100 || r.Peak < r.Rate() || r.Rate() <= 0 || r.Elapsed <= 0 || r.MBPerSecond(r.Rate()) <= 0 {
			t.Errorf("%d bytes: %d calls, peak %v, rate %v", r.Bytes, r.Calls.N(), r.Peak, r.Rate())
		}
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, o.Sizes) {
		t.Errorf("sizes %v", got)
	}
	o.Calls, o.Duration, o.Sizes = 0, 250*time.Millisecond, []int{64}
	if err := Run(t.Context(), c, o, func(r *Result) {
		if r.Elapsed < o.Duration || r.Calls.N() == 0 {
			t.Errorf("%d calls in %v", r.Calls.N(), r.Elapsed)
		}
	}); err != nil || told == 0 {
		t.Errorf("told %d times, %v", told, err)
	}
}

func TestInterruptedItHandsOverWhatItHas(t *testing.T) {
	c := serve(t, 1<<16, nil)
	ctx, cancel := context.WithCancel(t.Context())
	results := 0
	o := Options{Op: Read, Sizes: []int{4096, 64}, Callers: 3, Duration: time.Hour, Tell: func(_ int, calls uint64, _ time.Duration) {
		if calls > 0 {
			cancel()
		}
	}}
	err := Run(ctx, c, o, func(r *Result) {
		if results++; r.Bytes != 4096 || r.Calls.N() == 0 {
			t.Errorf("%d calls of %d bytes", r.Calls.N(), r.Bytes)
		}
	})
	if !errors.Is(err, context.Canceled) || results != 1 {
		t.Errorf("%d results, %v", results, err)
	}
}

// TestInterruptedWhileTheServerIsSilent: a call that nobody answers does not keep it.
func TestInterruptedWhileTheServerIsSilent(t *testing.T) {
	called, release := make(chan struct{}), make(chan struct{})
	s := rpc.NewServer()
	s.Register(Program, Version, rpc.Method{Proc: procs[Echo], Handler: func(ctx context.Context, _ *rpc.Request) error {
		close(called)
		<-release
		return nil
	}})
	l, err := rpc.Listen(t.Context(), "loopback://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Serve(context.WithoutCancel(t.Context()), l) }()
	c, err := rpc.NewClient(l.URL(), rpc.WithRetransmits(-1))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-called
		cancel()
	}()
	err = Run(ctx, c, Options{Op: Echo, Sizes: []int{64}, Callers: 1, Duration: time.Hour}, func(*Result) { t.Error("a result") })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(release)
	s.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestColumns(t *testing.T) {
	r := Result{Bytes: 1 << 20, Elapsed: time.Second, Peak: 300}
	for range 200 {
		r.Calls.Add(5 * time.Millisecond)
	}
	for _, c := range []struct {
		columns Columns
		fields  int
		want    string
	}{{Bandwidth, 5, "1048576 200 300.00 200.00 0.000200"}, {Latency, 9, "1048576 200 5000.00 5000.00 5000.00 5000.00 0.00 5000.00 5000.00"}, {Both, 12, ""}} {
		var head, row bytes.Buffer
		if err := errors.Join(c.columns.WriteHeader(&head), c.columns.WriteRow(&row, &r)); err != nil {
			t.Fatal(err)
		}
		if head.Len() != row.Len() {
			t.Errorf("the row is not as long as its header:\n%s%s", &head, &row)
		}
		got := strings.Fields(row.String())
		if len(got) != c.fields || c.want != "" && strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v", c.columns, got)
		}
	}
}
