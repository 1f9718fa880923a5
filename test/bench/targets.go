package main

import (
	"fmt"
	"io"
	"runtime"

	"github.com/rpcrdma/rpcrdma/test/bench/drive"
	"github.com/rpcrdma/rpcrdma/test/bench/peers"
)

// metric is the column that a target is about.
type metric struct {
	name string
	of   func(drive.Row) drive.Spread
}

func plain(f func(drive.Sample) float64) func(drive.Row) drive.Spread {
	return func(r drive.Row) drive.Spread { v := f(r.Sample); return drive.Spread{Median: v, Min: v, Max: v} }
}

var (
	rate   = metric{"rate x", func(r drive.Row) drive.Spread { return r.RateX }}
	p50    = metric{"p50 x", func(r drive.Row) drive.Spread { return r.P50X }}
	cpu    = metric{"cpu x", func(r drive.Row) drive.Spread { return r.CPUX }}
	rss    = metric{"RSS x", func(r drive.Row) drive.Spread { return r.RSSX }}
	micros = metric{"p50 us", plain(func(s drive.Sample) float64 { return s.P50 })}
	allocs = metric{"allocs", plain(func(s drive.Sample) float64 { return s.Allocs })}
	heap   = metric{"bytes", plain(func(s drive.Sample) float64 { return s.Bytes })}
)

// group is runs that belong together: the same processes, reference and pinning.
type group struct {
	reference string
	peers     []string
	pin       string
	alone     bool
}

var (
	onTCP    = group{reference: "tcp", peers: []string{"iwarp", "iwarpnocrc", "grpc"}}
	oneCore  = group{reference: "tcp", peers: []string{"iwarpthread", "grpc"}, pin: "0,0"}
	twoCores = group{reference: "tcp", peers: []string{"iwarpspin", "grpc"}, pin: "0,1"}
	alone    = group{reference: "tcp", peers: []string{"iwarp", "grpc"}, alone: true}
	byChan   = group{reference: "chan", peers: []string{"loopback"}}
	byCopy   = group{reference: "memcpy", peers: []string{"loopback"}}
	groups   = []*group{&onTCP, &oneCore, &twoCores, &alone, &byChan, &byCopy}
)

// target is one line of the table: what must be reached and what a well tuned version
// reaches. Below is better for latency, CPU, memory and allocations, above for rates.
type target struct {
	no         string
	what       string
	in         *group
	peer, load string
	metric     metric
	must, best float64
}

func (t target) below() bool { return t.metric.name != rate.name }

var targets = []target{
	{"1", "iWARP 64 B, 1 caller, latency", &onTCP, "iwarp", "echo:64:1", p50, 1.35, 1.15},
	{"2", "the same, thread of its own, both ends on one core", &oneCore, "iwarpthread", "echo:64:1", p50, 1.10, 0.80},
	{"3", "the same, adaptive spin, ends on two cores", &twoCores, "iwarpspin", "echo:64:1", p50, 0.35, 0.20},
	{"4", "iWARP 64 B, 16 callers, 1 connection", &onTCP, "iwarp", "echo:64:16", rate, 1.3, 2.0},
	{"5", "iWARP 64 B, 64 callers, 1 connection", &onTCP, "iwarp", "echo:64:64", rate, 2.5, 4},
	{"6", "CPU a call of these, both ends", &onTCP, "iwarp", "echo:64:64", cpu, 0.40, 0.25},
	{"7", "allocations a 64 B call, both ends", &onTCP, "iwarp", "echo:64:1", allocs, 2, 0},
	{"8", "iWARP 1 MiB read, no CRC, 1 caller", &onTCP, "iwarpnocrc", "read:1m:1", rate, 0.85, 0.95},
	{"8", "iWARP 1 MiB read, no CRC, 16 callers", &onTCP, "iwarpnocrc", "read:1m:16", rate, 0.85, 0.95},
	{"9", "iWARP 1 MiB read, CRC, 1 caller", &onTCP, "iwarp", "read:1m:1", rate, 0.65, 0.75},
	{"9", "iWARP 1 MiB read, CRC, 16 callers", &onTCP, "iwarp", "read:1m:16", rate, 0.65, 0.75},
	{"10", "iWARP 1 MiB write, no CRC, 1 caller", &onTCP, "iwarpnocrc", "write:1m:1", rate, 0.75, 0.88},
	{"10", "iWARP 1 MiB write, no CRC, 16 callers", &onTCP, "iwarpnocrc", "write:1m:16", rate, 0.75, 0.93},
	{"10", "iWARP 1 MiB write, CRC, 1 caller", &onTCP, "iwarp", "write:1m:1", rate, 0.55, 0.65},
	{"10", "iWARP 1 MiB write, CRC, 16 callers", &onTCP, "iwarp", "write:1m:16", rate, 0.55, 0.75},
	{"11", "iWARP 64 KiB read, 1 caller", &onTCP, "iwarp", "read:64k:1", rate, 0.75, 0.95},
	{"11", "iWARP 4 KiB read, 1 caller", &onTCP, "iwarp", "read:4k:1", rate, 0.75, 0.85},
	{"12", "CPU a 1 MiB read, no CRC", &onTCP, "iwarpnocrc", "read:1m:1", cpu, 1.25, 1.05},
	{"12", "CPU a 1 MiB read, CRC", &onTCP, "iwarp", "read:1m:1", cpu, 1.60, 1.40},
	{"13", "allocations a 1 MiB read", &onTCP, "iwarp", "read:1m:1", allocs, 4, 0},
	{"13", "bytes allocated a 1 MiB read", &onTCP, "iwarp", "read:1m:1", heap, 16 << 10, 512},
	{"14", "peak memory, 1 MiB reads, 16 callers, alone", &alone, "iwarp", "read:1m:16", rss, 1.3, 1.1},
	{"21", "loopback 64 B, 1 caller, x two channels", &byChan, "loopback", "echo:64:1", p50, 4, 2},
	{"21", "the same in microseconds", &byChan, "loopback", "echo:64:1", micros, 2.5, 1.3},
	{"21", "allocations of these", &byChan, "loopback", "echo:64:1", allocs, 2, 0},
	{"22", "loopback 1 MiB read, x one copy", &byCopy, "loopback", "read:1m:1", rate, 0.7, 0.9},
}

// runTargets measures every group of targets and calls row with what each gave.
func runTargets(pairs, ms int, row func(*group, []drive.Row), note func(string)) error {
	for _, g := range groups {
		var loads []drive.Workload
		have := map[string]bool{}
		for _, t := range targets {
			if t.in != g || have[t.load] {
				continue
			}
			have[t.load] = true
			w, err := drive.ParseWorkload(t.load)
			if err != nil {
				return err
			}
			loads = append(loads, w)
		}
		if _, err := peers.Find(g.peers[0]); err != nil {
			continue // a mode that the provider does not have
		}
		switch {
		case g.pin == "0,1" && runtime.NumCPU() < 2:
			continue
		case g.alone:
			for _, w := range loads {
				note(w.Name + " alone")
				rows, err := drive.Alone(append([]string{g.reference}, g.peers...), w, min(pairs, 5), ms)
				if err != nil {
					return err
				}
				row(g, rows)
			}
			continue
		}
		plan := drive.Plan{Reference: g.reference, Peers: g.peers, Workloads: loads, Pairs: pairs, MS: ms, Pin: g.pin,
			Progress: func(w drive.Workload, pair int) { note(fmt.Sprintf("%s x %s, pair %d", w.Name, g.reference, pair+1)) }}
		if err := plan.Run(func(rows []drive.Row) { row(g, rows) }); err != nil {
			return err
		}
	}
	return nil
}

// writeTargets prints must, tuned-for and reached, and gRPC's figure beside.
func writeTargets(w io.Writer, rows map[*group][]drive.Row) {
	fmt.Fprintf(w, "\n%-3s %-50s %-7s %8s %8s %9s %-14s %8s  %s\n", "no", "target", "", "must", "tuned", "reached", "[min..max]", "grpc", "")
	for _, t := range targets {
		sign := ">="
		if t.below() {
			sign = "<="
		}
		fmt.Fprintf(w, "%-3s %-50s %-7s %s %5s %s %5s", t.no, t.what, t.metric.name, sign, number(t.must), sign, number(t.best))
		r := find(rows[t.in], t.peer, t.load)
		if r == nil || r.Pairs == 0 {
			why := "not measured here"
			if _, err := peers.Find(t.peer); err != nil {
				why = "the provider has no such mode"
			}
			if r != nil && r.Error != "" {
				why = r.Error
			}
			fmt.Fprintf(w, " %9s  %s\n", "-", why)
			continue
		}
		v := t.metric.of(*r)
		other := "-"
		if g := find(rows[t.in], "grpc", t.load); g != nil && g.Pairs > 0 {
			other = number(t.metric.of(*g).Median)
		}
		fmt.Fprintf(w, " %9s %-14s %8s  %s\n", number(v.Median), fmt.Sprintf("%s..%s", number(v.Min), number(v.Max)), other, t.verdict(v.Median))
	}
}

func (t target) verdict(v float64) string {
	reached := func(goal float64) bool {
		if t.below() {
			return v <= goal+exact(t.metric)
		}
		return v >= goal
	}
	switch {
	case reached(t.best):
		return "tuned"
	case reached(t.must):
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

func find(rows []drive.Row, peer, load string) *drive.Row {
	for i := range rows {
		if rows[i].Peer == peer && rows[i].Workload == load {
			return &rows[i]
		}
	}
	return nil
}

func number(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
