package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rpcrdma/rpcrdma/test/bench/drive"
)

func TestVerdicts(t *testing.T) {
	above := target{metric: rate, must: 0.65, best: 0.75}
	below := target{metric: cpu, must: 1.6, best: 1.4}
	none := target{metric: allocs, must: 2, best: 0}
	for _, c := range []struct {
		t    target
		v    float64
		want string
	}{
		{above, 0.80, "tuned"}, {above, 0.75, "tuned"}, {above, 0.70, "must"}, {above, 0.64, "BELOW"},
		{below, 1.30, "tuned"}, {below, 1.50, "must"}, {below, 1.61, "BELOW"},
		{none, 0.01, "tuned"}, {none, 1, "must"}, {none, 3, "BELOW"},
	} {
		if got := c.t.verdict(c.v); got != c.want {
			t.Errorf("%s must %v best %v: %v is %s, want %s", c.t.metric.name, c.t.must, c.t.best, c.v, got, c.want)
		}
	}
}

// TestEveryTargetHasALine also when nothing, or only an error, was measured.
func TestEveryTargetHasALine(t *testing.T) {
	rows := map[*group][]drive.Row{&onTCP: {
		{Workload: "echo:64:1", Peer: "iwarp", Pairs: 3, P50X: drive.Spread{Median: 1.2, Min: 1, Max: 1.5}},
		{Workload: "echo:64:1", Peer: "grpc", Pairs: 3, P50X: drive.Spread{Median: 7, Min: 6, Max: 8}},
		{Workload: "read:1m:1", Peer: "iwarp", Error: "it broke"},
	}}
	var b bytes.Buffer
	writeTargets(&b, rows)
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != len(targets)+1 {
		t.Errorf("%d lines for %d targets", len(lines), len(targets))
	}
	for _, want := range []string{"1.20 1.00..1.50", "7.00  must", "it broke", "not measured here"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &b)
		}
	}
}
