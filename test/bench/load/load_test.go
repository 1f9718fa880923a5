package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestPatternGrows(t *testing.T) {
	for _, n := range []int{0, 1, 4096, 4097, 1 << 20, 3 << 20, 64} {
		if err := Check(Pattern(n), n); err != nil {
			t.Errorf("%d: %v", n, err)
		}
		if len(Memory(nil, n)) < n {
			t.Errorf("memory for %d bytes has not got them", n)
		}
	}
	b := Memory(nil, 100)
	if &Memory(b, 64)[0] != &b[0] {
		t.Error("memory that suffices was not kept")
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
	in := strings.NewReader(`{"run":{"op":"echo","n":4,"callers":3,"ms":20}}` + "\n" + `{"stat":true,"free":true}` + "\n" + `{"idle":3}` + "\n")
	var out bytes.Buffer
	if err := Client(in, &out, counting{}, "somewhere"); err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(&out)
	var ready Ready
	var run, stat, idle Result
	if err := errors.Join(dec.Decode(&ready), dec.Decode(&run), dec.Decode(&stat), dec.Decode(&idle)); err != nil {
		t.Fatal(err)
	}
	if idle.Error == "" {
		t.Error("a peer without idle connections opened some")
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
