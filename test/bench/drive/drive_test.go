package drive

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// The test binary is its own child, as the benchmark is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "child" {
		if Child(os.Args[2:]) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3, 3, 3}},
		{[]float64{3, 1, 2}, Spread{2, 1, 3, 1.5, 2.5}},
		{[]float64{4, 1, 2, 3}, Spread{2.5, 1, 4, 1.5, 3.5}},
		{[]float64{1, 9, 1, 9, 1, 9}, Spread{5, 1, 9, 1, 9}},
	} {
		if got := spread(c.in); got != c.want {
			t.Errorf("spread(%v) = %v, want %v", c.in, got, c.want)
		}
	}
}

func TestParseWorkload(t *testing.T) {
	w, err := ParseWorkload("read:64k:16")
	if err != nil || w.Op != "read" || w.N != 64<<10 || w.Callers != 16 {
		t.Errorf("%+v, %v", w, err)
	}
	for _, bad := range []string{"", "read", "read:1m", "send:1:1", "read:x:1", "read:1g:1", "read:17m:1", "read:1,2:1", "echo:1m:1", "read:1:0", "read:1:1025", "read:-1:1"} {
		if _, err := ParseWorkload(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestPairs runs the real processes, too short to measure anything: every column of
// both peers must be there.
func TestPairs(t *testing.T) {
	ws, err := ParseWorkloads("echo:64:4,read:64k:2,write:4k:1")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = Plan{Reference: "tcp", Peers: []string{"grpc"}, Workloads: ws, Pairs: 2, MS: 20}.Run(func(rows []Row) {
		if len(rows) != 2 {
			t.Fatalf("%d rows: %+v", len(rows), rows)
		}
		for _, r := range rows {
			if r.Error != "" || r.Pairs != 2 || r.Sample.Rate <= 0 || r.Sample.P50 <= 0 || r.Sample.CPU <= 0 || r.Sample.RSS <= 0 || r.RateX.Median <= 0 {
				t.Errorf("%s %s: %+v", r.Workload, r.Peer, r)
			}
		}
		var b bytes.Buffer
		if WriteTable(&b, rows); !strings.Contains(b.String(), "grpc") {
			t.Errorf("table without grpc:\n%s", &b)
		}
		seen++
	})
	if err != nil || seen != len(ws) {
		t.Errorf("%d of %d workloads, %v", seen, len(ws), err)
	}
}

func TestAPeerThatCannotStartCostsTheOthersNothing(t *testing.T) {
	ws, _ := ParseWorkloads("echo:64:1")
	err := Plan{Reference: "tcp", Peers: []string{"nosuch", "grpc"}, Workloads: ws, Pairs: 1, MS: 10}.Run(func(rows []Row) {
		if len(rows) != 3 || rows[1].Error == "" || rows[2].Pairs != 1 {
			t.Errorf("%+v", rows)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// TestTurns: without a reference, the figures are there and the ratios are 1.
func TestTurns(t *testing.T) {
	ws, err := ParseWorkloads("echo:64:2,read:4k:1")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	if err := (Plan{Peers: []string{"tcp", "iwarp?inline=8192", "chan"}, Workloads: ws, Pairs: 1, MS: 20}).Run(func(rows []Row) {
		seen++
		if want := 1 + seen; len(rows) != want { // chan takes one caller
			t.Errorf("%d rows of %s, want %d", len(rows), rows[0].Workload, want)
		}
		for _, r := range rows {
			if r.Sample.Rate <= 0 || r.Sample.P999 < r.Sample.P50 || r.Error != "" {
				t.Errorf("%+v", r)
			}
		}
	}); err != nil || seen != 2 {
		t.Errorf("%d workloads, %v", seen, err)
	}
}

func TestIdle(t *testing.T) {
	if r := MeasureIdle("tcp", 20); r.Error != "" {
		t.Errorf("%+v", r)
	}
	if r := MeasureIdle("chan", 1); r.Error == "" {
		t.Error("a peer without a server has idle connections")
	}
}
