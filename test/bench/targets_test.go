package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rpcrdma/rpcrdma/test/bench/drive"
	"github.com/rpcrdma/rpcrdma/test/bench/peers"
	"github.com/rpcrdma/rpcrdma/test/bench/tools"
)

func TestVerdicts(t *testing.T) {
	above := target{metric: rate, must: 0.65, best: 0.75}
	below := target{metric: cpu, must: 1.6, best: 1.4}
	none := target{metric: allocs}
	for _, c := range []struct {
		t    target
		v    float64
		want string
	}{
		{above, 0.80, "tuned"}, {above, 0.75, "tuned"}, {above, 0.70, "must"}, {above, 0.64, "BELOW"},
		{below, 1.30, "tuned"}, {below, 1.50, "must"}, {below, 1.61, "BELOW"},
		{none, 0.01, "tuned"}, {none, 1, "BELOW"},
		{target{metric: p50}, 3, "no figure asked"},
	} {
		if got := c.t.verdict(c.v); got != c.want {
			t.Errorf("%s must %v best %v: %v is %s, want %s", c.t.metric.name, c.t.must, c.t.best, c.v, got, c.want)
		}
	}
}

// TestWhatTargetsNameIsMeasured: each target's peer and load are among its group's, and each group
// is in a slice.
func TestWhatTargetsNameIsMeasured(t *testing.T) {
	has := func(list []string, s string) bool {
		return strings.Contains(" "+strings.Join(list, " ")+" ", " "+s+" ")
	}
	for _, x := range targets {
		if x.in == nil {
			continue
		}
		if !has(x.in.peers, x.peer) || !has(x.in.loads, x.load) {
			t.Errorf("%s: %s is not measured with %s", x.what, x.peer, x.load)
		}
		sliced := false
		for _, s := range slicesOfReport {
			for _, g := range s.groups {
				sliced = sliced || g == x.in
			}
		}
		if !sliced {
			t.Errorf("%s: no slice measures %s", x.what, x.in.name)
		}
	}
	for _, s := range slicesOfReport {
		for _, g := range s.groups {
			for _, l := range g.loads {
				if _, err := drive.ParseWorkload(l); err != nil {
					t.Errorf("%s: %v", s.name, err)
				}
			}
			for _, p := range g.peers {
				if _, err := peers.Find(p); err != nil {
					t.Errorf("%s: %v", s.name, err)
				}
			}
		}
	}
}

// some is a little of everything.
func some() records {
	r := newRecord()
	r.Tables[oneCore.name] = []drive.Row{
		{Workload: "echo:64:1", Peer: ours, Pairs: 3, P50X: drive.Spread{Median: 1.2, Min: 1, Max: 1.5, Low: 1.1, High: 1.4}, Sample: drive.Sample{P50: 13}},
		{Workload: "echo:64:1", Peer: "grpc", Pairs: 3, P50X: drive.Spread{Median: 7, Min: 6, Max: 8, Low: 7, High: 7}},
	}
	r.Tables[bulk.name] = []drive.Row{{Workload: "read:1m:1", Peer: ours, Error: "it broke"}}
	for _, load := range []string{"echo:64:1", "echo:64:2"} {
		r.Tables[manyCallers.name] = append(r.Tables[manyCallers.name], drive.Row{Workload: load, Peer: ours, Pairs: 1, Sample: drive.Sample{Rate: 5, P50: 1, P99: 2, P999: 3, CPU: 1}})
	}
	r.Idle = []drive.Idle{{Peer: ours, Connections: 5, Client: 10, Server: 20}}
	r.Tools = []tools.Result{{Name: "UCX tcp, get", Missing: "ucx-utils"}, {Name: "libfabric", Unit: "us", Value: 5, X: drive.Spread{Median: 1}}}
	return records{"tools": r}
}

func TestEveryTargetHasALine(t *testing.T) {
	var b bytes.Buffer
	writeTargets(&b, some())
	table := some().table()
	if n := strings.Count(table, "\n") - 2; n != len(targets) {
		t.Errorf("%d lines for %d targets", n, len(targets))
	}
	for _, want := range []string{"1.20 [1.10, 1.40]", "13.0 µs", "must", "7.00", "it broke", "not measured", "client 10.0, server 20.0"} {
		if !strings.Contains(b.String(), want) || !strings.Contains(table, want) {
			t.Errorf("%q is missing in\n%s\n%s", want, &b, table)
		}
	}
	for _, want := range []string{"Debian's ucx-utils has it", "| libfabric | 5.00 µs | 1.00"} {
		if got := some().toolTable(); !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

func TestRecordsComeBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	if r, err := loadRecords(file); err != nil || len(r) != 0 {
		t.Errorf("of no file: %v, %v", r, err)
	}
	want := some()
	if err := want.save(file); err != nil {
		t.Fatal(err)
	}
	got, err := loadRecords(file)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n%+v\n%+v", err, got, want)
	}
}

func TestFill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	page := "# Title\n<!-- x: written by make bench-report -->\nold\n<!-- end of x -->\nby hand\n"
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := fill(file, "x", "new\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if want := strings.Replace(page, "old", "new", 1); err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if fill(file, "y", "") == nil {
		t.Error("markers that are not there were filled")
	}
}

func TestCharts(t *testing.T) {
	list := charts(some())
	if len(list) != 3 {
		t.Errorf("%d charts of callers", len(list))
	}
	for _, c := range list {
		if err := c.Save(filepath.Join(t.TempDir(), c.file)); err != nil {
			t.Errorf("%s: %v", c.file, err)
		}
	}
	if len(charts(records{})) != 0 {
		t.Error("charts of nothing")
	}
}
