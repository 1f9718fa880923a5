package main

import (
	"context"
	"fmt"

	"github.com/rpcrdma/rpcrdma/test/bench/drive"
	"github.com/rpcrdma/rpcrdma/test/bench/tools"
)

// group is runs that belong together: the same processes, reference and pinning.
type group struct {
	name      string
	reference string // "": the peers take turns, for charts
	peers     []string
	loads     []string
	pin       string
	alone     bool   // no other peer's process is alive
	program   string // executable of another build that runs the reference
	// often are times as many pairs, of a third of the time each: for what has two modes.
	often int
}

// slice is a part of the report that is measured at one go, in a few minutes.
type slice struct {
	name, about string
	groups      []*group
	more        func(context.Context, measure, *record) error
	chart       bool // not among the targets
}

// measure is how long and how often.
type measure struct {
	pairs, ms int
	note      func(string)
}

// Peers that the targets name.
const (
	ours  = "iwarp"
	noCRC = "iwarpnocrc"
	// A message of 4 KiB and its headers fits. In version 2 a peer takes 4096 bytes until it says more.
	inline8k  = "iwarp?inline=8192&version=1"
	thread    = "iwarp?reader=thread"
	spin      = "iwarp?spin=50us"
	segment1  = "iwarp?crc=false&inline=8192&version=1&segment=1048576"
	segment4k = "iwarp?crc=false&inline=8192&version=1&segment=4096" // 256 to a MiB
)

var (
	latencyPeers = []string{ours, inline8k, "grpc", "netrpc", "gonfs"}
	latencyLoads = []string{"echo:64:1", "read:4k:1", "write:4k:1"}

	oneCore  = group{name: "one core", reference: "tcp", peers: latencyPeers, loads: latencyLoads, pin: "0,0", often: 3}
	twoCores = group{name: "two cores", reference: "tcp", peers: latencyPeers, loads: latencyLoads, pin: "0,1", often: 3}
	threads  = group{name: "thread", reference: "tcp", peers: []string{thread}, loads: latencyLoads[:1], pin: "0,0", often: 3}
	spins    = group{name: "spin", reference: "tcp", peers: []string{spin}, loads: latencyLoads[:1], pin: "0,1", often: 3}
	callers  = group{name: "callers", reference: "tcp", peers: []string{ours, "grpc", "netrpc", "gonfs"}, loads: []string{"echo:64:1", "echo:64:16", "echo:64:64"}}
	bulk     = group{name: "bulk", reference: "tcp", peers: []string{ours, noCRC, "grpc", "netrpc", "gonfs"},
		loads: []string{"read:1m:1", "read:1m:16", "write:1m:1", "write:1m:16", "read:64k:1"}}
	alone    = group{name: "alone", reference: "tcp", peers: []string{ours, "grpc", "netrpc"}, loads: []string{"read:1m:16"}, alone: true}
	byChan   = group{name: "channels", reference: "chan", peers: []string{"loopback"}, loads: []string{"echo:64:1"}}
	byCopy   = group{name: "copies", reference: "memcpy", peers: []string{"loopback"}, loads: []string{"read:1m:1"}}
	segments = group{name: "segments", reference: segment1, peers: []string{segment4k}, loads: []string{"read:1m:1", "write:1m:1"}}
)

// Peers and loads of the charts.
var (
	manyCallers = group{name: "many callers", peers: []string{"tcp", ours, "iwarp?credits=1024", "grpc", "netrpc"}, loads: doubling("echo:64:%d", 1, 1024)}
	manyConns   = group{name: "many connections", peers: withOption("iwarp?conns=%d", 1, 4, 16, 64, 256, 1000), loads: []string{"echo:64:64"}}
	readSizes   = group{name: "read sizes", peers: large, loads: sizes("read", 64, 16<<20)}
	writeSizes  = group{name: "write sizes", peers: large, loads: sizes("write", 64, 16<<20)}
	inlines     = group{name: "inline", peers: withOption("iwarp?version=1&inline=%d", 4<<10, 8<<10, 16<<10, 32<<10, 64<<10, 256<<10),
		loads: append(sizes("read", 1<<10, 256<<10), sizes("write", 1<<10, 256<<10)...)}
	manySegments = group{name: "many segments", peers: withOption("iwarp?crc=false&inline=8192&version=1&segment=%d", 1<<20, 512<<10, 256<<10, 128<<10, 64<<10, 32<<10, 16<<10, 8<<10, 4<<10),
		loads: []string{"read:1m:1", "write:1m:1"}}

	large = []string{"tcp", "iwarp?payload=16777216", "iwarp?payload=16777216&crc=false", "grpc", "netrpc"}
)

// idleConnections is how many are opened to see what one costs.
const idleConnections = 1000

var slicesOfReport = []slice{
	{name: "one-core", about: "one caller, both ends on one CPU", groups: []*group{&oneCore, &threads}},
	{name: "two-cores", about: "one caller, an end on each of two CPUs", groups: []*group{&twoCores, &spins}},
	{name: "callers", about: "64 B by 1, 16 and 64 callers", groups: []*group{&callers}},
	{name: "bulk", about: "64 KiB and 1 MiB, with and without CRC", groups: []*group{&bulk}},
	{name: "memory", about: "peak memory, idle connections", groups: []*group{&alone}, more: measureIdle},
	{name: "process", about: "loopback; segments", groups: []*group{&byChan, &byCopy, &segments}},
	{name: "tools", about: "UCX and libfabric", more: measureTools},
	{name: "chart-callers", about: "1 to 1024 callers", groups: []*group{&manyCallers}, chart: true},
	{name: "chart-connections", about: "1 to 1000 connections", groups: []*group{&manyConns}, chart: true},
	{name: "chart-reads", about: "read of 64 B to 16 MiB", groups: []*group{&readSizes}, chart: true},
	{name: "chart-writes", about: "write of 64 B to 16 MiB", groups: []*group{&writeSizes}, chart: true},
	{name: "chart-inline", about: "inline or by chunk", groups: []*group{&inlines}, chart: true},
	{name: "chart-segments", about: "1 to 256 segments a chunk", groups: []*group{&manySegments}, chart: true},
}

// doubling are loads with a number that doubles.
func doubling(format string, from, to int) (list []string) {
	for n := from; n <= to; n *= 2 {
		list = append(list, fmt.Sprintf(format, n))
	}
	return list
}

// sizes are loads of one caller.
func sizes(op string, from, to int) []string { return doubling(op+":%d:1", from, to) }

func withOption(format string, values ...int) (list []string) {
	for _, v := range values {
		list = append(list, fmt.Sprintf(format, v))
	}
	return list
}

// run measures the slice; what a reference that fails leaves is an error.
func (s slice) run(ctx context.Context, m measure, show func([]drive.Row)) (record, error) {
	r := newRecord()
	for _, g := range s.groups {
		if err := g.run(m, func(rows []drive.Row) {
			show(rows)
			r.Tables[g.name] = append(r.Tables[g.name], rows...)
		}); err != nil {
			return r, fmt.Errorf("%s: %w", g.name, err)
		}
	}
	if s.more != nil {
		return r, s.more(ctx, m, &r)
	}
	return r, nil
}

func (g *group) run(m measure, row func([]drive.Row)) error {
	var loads []drive.Workload
	for _, l := range g.loads {
		w, err := drive.ParseWorkload(l)
		if err != nil {
			return err
		}
		loads = append(loads, w)
	}
	pairs, ms := m.pairs, m.ms
	switch {
	case g.often > 0:
		pairs, ms = pairs*g.often, max(ms/3, 1)
	case g.reference == "":
		pairs, ms = max(pairs/3, 1), max(ms/2, 1)
	}
	if g.alone {
		for _, w := range loads {
			m.note(w.Name + " alone")
			rows, err := drive.Alone(append([]string{g.reference}, g.peers...), w, min(pairs, 5), ms)
			if err != nil {
				return err
			}
			row(rows)
		}
		return nil
	}
	return drive.Plan{Reference: g.reference, Program: g.program, Peers: g.peers, Workloads: loads, Pairs: pairs, MS: ms, Pin: g.pin,
		Progress: func(w drive.Workload, pair int) { m.note(fmt.Sprintf("%s: %s, pair %d", g.name, w.Name, pair+1)) }}.Run(row)
}

func measureIdle(_ context.Context, m measure, r *record) error {
	for _, name := range []string{"tcp", ours, "grpc", "netrpc"} {
		m.note(fmt.Sprintf("%d idle connections of %s", idleConnections, name))
		r.Idle = append(r.Idle, drive.MeasureIdle(name, idleConnections))
	}
	return nil
}

func measureTools(ctx context.Context, m measure, r *record) (err error) {
	r.Tools, err = tools.Run(ctx, min(m.pairs, 3), m.note)
	return err
}
