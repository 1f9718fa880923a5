package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestHistQuantile(t *testing.T) {
	var h Hist
	var all []time.Duration
	r := rand.New(rand.NewPCG(1, 2))
	for range 10000 {
		d := time.Duration(r.ExpFloat64() * 50_000)
		all = append(all, d)
		h.Add(d)
	}
	slices.Sort(all)
	for _, p := range []float64{.01, .5, .9, .99, 1} {
		want := all[max(0, int(p*float64(len(all)))-1)]
		got := h.Quantile(p)
		if diff := float64(got - want); diff > 0.04*float64(want)+2 || diff < -0.04*float64(want)-2 {
			t.Errorf("quantile %v = %v, want about %v", p, got, want)
		}
	}
	if got := new(Hist).Quantile(.5); got != 0 {
		t.Errorf("quantile of nothing = %v", got)
	}
}

func TestCheck(t *testing.T) {
	for _, n := range []int{0, 1, 15, 16, 64, 4096, 1 << 20} {
		if err := Check(Pattern[:n], n); err != nil {
			t.Errorf("%d: %v", n, err)
		}
	}
	shifted := append([]byte(nil), Pattern[1:4097]...)
	if Check(shifted, 4096) == nil || Check(Pattern[:10], 11) == nil || Check(make([]byte, 4096), 4096) == nil {
		t.Error("a wrong payload passed")
	}
}

type counting struct{ fail bool }

func (counting) Connect(context.Context, string) error { return nil }
func (counting) Close() error                          { return nil }
func (c counting) Do(context.Context, Op, int, int) error {
	if c.fail {
		return errors.New("no")
	}
	time.Sleep(100 * time.Microsecond)
	return nil
}

func TestClientLines(t *testing.T) {
	in := strings.NewReader(`{"run":{"op":"echo","n":4,"callers":3,"ms":20}}` + "\n" + `{"stat":true}` + "\n")
	var out bytes.Buffer
	if err := Client(in, &out, counting{}, "somewhere"); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(&out)
	var ready Ready
	var run, stat Result
	if err := errors.Join(dec.Decode(&ready), dec.Decode(&run), dec.Decode(&stat)); err != nil {
		t.Fatal(err)
	}
	if ready.Addr != "somewhere" || run.Ops < 3 || run.P50 < 90_000 || stat.Mallocs == 0 {
		t.Errorf("ready %+v, run %+v, stat %+v", ready, run, stat)
	}
}

func TestDriveReportsTheFirstError(t *testing.T) {
	if r := Drive(counting{fail: true}, Run{Op: Echo, N: 1, Callers: 2, MS: 5}); r.Error != "no" || r.Ops != 0 {
		t.Errorf("%+v", r)
	}
}
