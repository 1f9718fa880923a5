package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/rpcrdma/rpcrdma/test/bench/drive"
)

// metric is the column that a target is about.
type metric struct {
	name  string
	of    func(drive.Row) drive.Spread
	plain func(drive.Row) string // what was measured, where of gives a ratio
	above bool                   // more is better
}

func column(f func(drive.Sample) float64) func(drive.Row) drive.Spread {
	return func(r drive.Row) drive.Spread {
		v := f(r.Sample)
		return drive.Spread{Median: v, Min: v, Max: v, Low: v, High: v}
	}
}

var (
	rate = metric{"rate x", func(r drive.Row) drive.Spread { return r.RateX }, func(r drive.Row) string {
		if r.GBPerSecond > 0 && strings.Contains(r.Workload, "m:") {
			return number(r.GBPerSecond) + " GB/s"
		}
		return fmt.Sprintf("%.0f/s", r.Sample.Rate)
	}, true}
	p50 = metric{"p50 x", func(r drive.Row) drive.Spread { return r.P50X }, func(r drive.Row) string { return number(r.Sample.P50) + " µs" }, false}
	cpu = metric{"CPU x", func(r drive.Row) drive.Spread { return r.CPUX }, func(r drive.Row) string {
		if r.CPUSecondsPerGB > 0 {
			return number(r.CPUSecondsPerGB) + " s/GB"
		}
		return number(r.Sample.CPU) + " µs"
	}, false}
	rss    = metric{"RSS x", func(r drive.Row) drive.Spread { return r.RSSX }, func(r drive.Row) string { return number(r.Sample.RSS) + " MiB" }, false}
	micros = metric{"p50 µs", column(func(s drive.Sample) float64 { return s.P50 }), nil, false}
	allocs = metric{"allocations", column(func(s drive.Sample) float64 { return s.Allocs }), nil, false}
	heap   = metric{"bytes", column(func(s drive.Sample) float64 { return s.Bytes }), nil, false}
	kib    = metric{"KiB", nil, nil, false} // of idle connections
)

// target is one line of the table: what must be reached and what a well tuned version
// reaches; 0 and 0 of a ratio: no figure is asked.
type target struct {
	what       string
	in         *group
	peer, load string
	metric     metric
	must, best float64
}

var targets = []target{
	{"64 B, 1 caller, latency; one CPU for both ends", &oneCore, ours, "echo:64:1", p50, 1.35, 1.15},
	{"the same; a CPU for each end", &twoCores, ours, "echo:64:1", p50, 1.35, 1.15},
	{"the same with reader=thread, one CPU", &threads, thread, "echo:64:1", p50, 0, 0},
	{"the same with spin=50us, a CPU for each end", &spins, spin, "echo:64:1", p50, 0, 0},
	{"64 B, 16 callers, 1 connection", &callers, ours, "echo:64:16", rate, 1.3, 2.0},
	{"64 B, 64 callers, 1 connection", &callers, ours, "echo:64:64", rate, 2.5, 4},
	{"CPU of each of these calls, both ends", &callers, ours, "echo:64:64", cpu, 0.40, 0.25},
	{"allocations of a 64 B call, both ends", &callers, ours, "echo:64:1", allocs, 0, 0},
	{"1 MiB read, no CRC, 1 caller", &bulk, noCRC, "read:1m:1", rate, 0.85, 0.95},
	{"1 MiB read, no CRC, 16 callers", &bulk, noCRC, "read:1m:16", rate, 0.85, 0.95},
	{"1 MiB read, CRC, 1 caller", &bulk, ours, "read:1m:1", rate, 0.65, 0.75},
	{"1 MiB read, CRC, 16 callers", &bulk, ours, "read:1m:16", rate, 0.65, 0.75},
	{"1 MiB write, no CRC, 1 caller", &bulk, noCRC, "write:1m:1", rate, 0.75, 0.88},
	{"1 MiB write, no CRC, 16 callers", &bulk, noCRC, "write:1m:16", rate, 0.75, 0.88},
	{"1 MiB write, CRC, 1 caller", &bulk, ours, "write:1m:1", rate, 0.55, 0.65},
	{"1 MiB write, CRC, 16 callers", &bulk, ours, "write:1m:16", rate, 0.55, 0.65},
	{"64 KiB read, CRC, 1 caller", &bulk, ours, "read:64k:1", rate, 0.75, 0.95},
	{"4 KiB read by Write chunk, CRC, 1 caller; one CPU", &oneCore, ours, "read:4k:1", rate, 0.75, 0.85},
	{"the same; a CPU for each end", &twoCores, ours, "read:4k:1", rate, 0.75, 0.85},
	{"4 KiB read inline (8 KiB, version 1), CRC, 1 caller; one CPU", &oneCore, inline8k, "read:4k:1", rate, 0.75, 0.85},
	{"the same; a CPU for each end", &twoCores, inline8k, "read:4k:1", rate, 0.75, 0.85},
	{"4 KiB write inline (8 KiB, version 1), CRC, 1 caller; one CPU", &oneCore, inline8k, "write:4k:1", rate, 0.75, 0.85},
	{"the same; a CPU for each end", &twoCores, inline8k, "write:4k:1", rate, 0.75, 0.85},
	{"CPU of 1 MiB reads, no CRC", &bulk, noCRC, "read:1m:1", cpu, 1.25, 1.05},
	{"CPU of 1 MiB reads, CRC", &bulk, ours, "read:1m:1", cpu, 1.60, 1.40},
	{"allocations of a 1 MiB read", &bulk, ours, "read:1m:1", allocs, 4, 0},
	{"bytes allocated of a 1 MiB read", &bulk, ours, "read:1m:1", heap, 16 << 10, 512},
	{"peak memory, 1 MiB reads, 16 callers, alone", &alone, ours, "read:1m:16", rss, 1.3, 1.1},
	{"resident memory of one of 1000 idle connections, the larger end", nil, ours, "", kib, 64, 64},
	{"loopback 64 B, 1 caller, × two channels", &byChan, "loopback", "echo:64:1", p50, 4, 2},
	{"the same in microseconds", &byChan, "loopback", "echo:64:1", micros, 2.5, 1.3},
	{"allocations of these", &byChan, "loopback", "echo:64:1", allocs, 2, 0},
	{"loopback 1 MiB read, × one copy", &byCopy, "loopback", "read:1m:1", rate, 0.7, 0.9},
	{"1 MiB read, 256 segments a chunk, × 1 segment", &segments, segment4k, "read:1m:1", rate, 0.8, 0.8},
	{"1 MiB write, 256 segments a chunk, × 1 segment", &segments, segment4k, "write:1m:1", rate, 0.8, 0.8},
}

// reached is what a target came to.
type reached struct {
	drive.Spread
	plain string // what the ratio is of
	why   string // nothing was measured
}

// of looks up what a peer came to under the target's load.
func (t target) of(r records, peer string) reached {
	if t.in == nil {
		for _, one := range r {
			for _, i := range one.Idle {
				if i.Peer == peer && i.Error == "" {
					v := max(i.Client, i.Server)
					return reached{Spread: drive.Spread{Median: v, Min: v, Max: v, Low: v, High: v},
						plain: fmt.Sprintf("client %s, server %s", number(i.Client), number(i.Server))}
				}
			}
		}
		return reached{why: "not measured"}
	}
	for _, row := range r.rows(t.in.name) {
		if row.Peer != peer || row.Workload != t.load {
			continue
		}
		if row.Pairs == 0 {
			return reached{why: row.Error}
		}
		got := reached{Spread: t.metric.of(row)}
		if t.metric.plain != nil {
			got.plain = t.metric.plain(row)
		}
		return got
	}
	return reached{why: "not measured"}
}

// none tells that no figure is asked: allocations may be asked to be 0, a ratio never.
func (t target) none() bool { return t.must == 0 && t.best == 0 && t.metric.name != allocs.name }

func (t target) verdict(v float64) string {
	good := func(goal float64) bool {
		if t.metric.above {
			return v >= goal
		}
		return v <= goal+exact(t.metric)
	}
	switch {
	case t.none():
		return "no figure asked"
	case good(t.best):
		return "tuned"
	case good(t.must):
		return "must"
	}
	return "BELOW"
}

// exact is what counts as nothing: a load generator's few allocations, spread over
// thousands of calls.
func exact(m metric) float64 {
	if m.name == allocs.name {
		return 0.05
	}
	return 0
}

func (t target) goal(v float64) string {
	switch {
	case t.none():
		return "–"
	case t.metric.above:
		return "≥ " + number(v)
	}
	return "≤ " + number(v)
}

// spread is median and halves, where the halves differ.
func (r reached) spread() string {
	if r.why != "" {
		return "–"
	}
	if number(r.Low) == number(r.High) {
		return number(r.Median)
	}
	return fmt.Sprintf("%s [%s, %s]", number(r.Median), number(r.Low), number(r.High))
}

// others are the peers whose figures stand beside ours.
var others = []string{"grpc", "netrpc", "gonfs"}

// writeTargets prints must, tuned-for and reached, and the peers' figures beside.
func writeTargets(w io.Writer, r records) {
	fmt.Fprintf(w, "\n%-53s %-11s %8s %8s %-22s %-22s %7s %7s %7s\n", "target (x raw TCP)", "", "must", "tuned", "reached [halves]", "", "grpc", "netrpc", "gonfs")
	for _, t := range targets {
		got := t.of(r, t.peer)
		fmt.Fprintf(w, "%-53s %-11s %8s %8s", t.what, t.metric.name, t.goal(t.must), t.goal(t.best))
		if got.why != "" {
			fmt.Fprintf(w, " - %s\n", got.why)
			continue
		}
		fmt.Fprintf(w, " %-22s %-22s", got.spread(), got.plain)
		for _, peer := range others {
			fmt.Fprintf(w, " %7s", t.of(r, peer).number())
		}
		fmt.Fprintf(w, "  %s\n", t.verdict(got.Median))
	}
}

func (r reached) number() string {
	if r.why != "" {
		return "–"
	}
	return number(r.Median)
}

func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v == 0:
		return "0"
	}
	return fmt.Sprintf("%.2f", v)
}
