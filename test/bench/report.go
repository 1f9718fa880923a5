package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rpcrdma/rpcrdma/test/bench/chart"
	"github.com/rpcrdma/rpcrdma/test/bench/drive"
)

// Where the report lies, seen from this module.
const (
	reportDir  = "../../docs/performance"
	reportPage = "../../docs/performance.md"
	reportFile = "results.json"
)

// report measures slices, keeps what they gave, and draws and writes everything that is kept.
func report(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("report", flag.ExitOnError)
	only := f.String("only", "", "slices to measure, with commas (default: all); none: draw and write again")
	pairs := f.Int("pairs", 9, "pairs of runs for each peer and workload")
	ms := f.Int("ms", 120, "milliseconds of a run")
	list := f.Bool("list", false, "list the slices")
	f.Parse(args)
	if *list {
		for _, s := range slicesOfReport {
			fmt.Printf("%-18s %s\n", s.name, s.about)
		}
		return nil
	}
	if f.NArg() > 0 || *pairs < 1 || *ms < 1 {
		f.Usage()
		os.Exit(2)
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(reportDir, 0o755); err != nil {
		return err
	}
	file := filepath.Join(reportDir, reportFile)
	all, err := loadRecords(file)
	if err != nil {
		return err
	}
	for _, s := range chosen {
		began := time.Now()
		r, err := s.run(ctx, measure{*pairs, *ms, note}, func([]drive.Row) {})
		note("")
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Printf("%s: %.0f s\n", s.name, time.Since(began).Seconds())
		all[s.name] = r
		if err := all.save(file); err != nil {
			return err
		}
	}
	for _, c := range charts(all) {
		if err := c.Save(filepath.Join(reportDir, c.file)); err != nil {
			return err
		}
	}
	return errors.Join(fill(reportPage, "targets", all.table()), fill(reportPage, "tools", all.toolTable()), fill(reportPage, "method", all.method()))
}

// choose finds slices by name; "" is all of them.
func choose(names string) (chosen []slice, err error) {
	switch names {
	case "":
		return slicesOfReport, nil
	case "none":
		return nil, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(slicesOfReport, func(s slice) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no slice %q; -list names them", name)
		}
		chosen = append(chosen, slicesOfReport[i])
	}
	return chosen, nil
}

// fill replaces what stands in file between the markers of name.
func fill(file, name, text string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	begin, end := fmt.Appendf(nil, "<!-- %s: written by make bench-report -->\n", name), fmt.Appendf(nil, "<!-- end of %s -->\n", name)
	before, rest, ok := bytes.Cut(b, begin)
	_, after, ok2 := bytes.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s: the markers of %s are missing", file, name)
	}
	return os.WriteFile(file, slices.Concat(before, begin, []byte(text), end, after), 0o644)
}

// table is the targets as Markdown.
func (r records) table() string {
	var b strings.Builder
	b.WriteString("| | | must | tuned for | reached | absolute | | grpc-go | net/rpc | go-nfs |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, t := range targets {
		got := t.of(r, t.peer)
		verdict := got.why
		if got.why == "" {
			verdict = t.verdict(got.Median)
		}
		if verdict == "BELOW" {
			verdict = "**below**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |", t.what, strings.Replace(t.metric.name, " x", " ×", 1), t.goal(t.must), t.goal(t.best),
			got.spread(), got.plain, verdict)
		for _, peer := range others {
			fmt.Fprintf(&b, " %s |", t.of(r, peer).number())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// toolTable is what UCX and libfabric came to, and ours under the nearest load.
func (r records) toolTable() string {
	var b strings.Builder
	b.WriteString("| | measured | × raw TCP |\n|---|---|---|\n")
	for _, t := range r["tools"].Tools {
		switch {
		case t.Missing != "":
			fmt.Fprintf(&b, "| %s | not installed: Debian's %s has it | – |\n", t.Name, t.Missing)
		case t.Error != "":
			fmt.Fprintf(&b, "| %s | %s | – |\n", t.Name, strings.Join(strings.Fields(t.Error), " "))
		default:
			fmt.Fprintf(&b, "| %s | %s %s | %s |\n", t.Name, number(t.Value), strings.Replace(t.Unit, "us", "µs", 1), reached{Spread: t.X}.spread())
		}
	}
	for _, t := range []target{
		{what: "ours, 64 B, latency", in: &callers, peer: ours, load: "echo:64:1", metric: p50},
		{what: "ours, 1 MiB read, no CRC", in: &bulk, peer: noCRC, load: "read:1m:1", metric: rate},
		{what: "ours, 1 MiB write, no CRC", in: &bulk, peer: noCRC, load: "write:1m:1", metric: rate},
	} {
		got := t.of(r, t.peer)
		fmt.Fprintf(&b, "| %s | %s | %s |\n", t.what, got.plain, got.spread())
	}
	return b.String()
}

// method says on what machine, when, and of which commit.
func (r records) method() string {
	var b strings.Builder
	machines := map[string]bool{}
	for _, one := range r {
		machines[one.Machine] = true
	}
	for _, m := range slices.Sorted(maps.Keys(machines)) {
		fmt.Fprintf(&b, "- %s\n", m)
	}
	if v := versions(); len(v) > 0 {
		fmt.Fprintf(&b, "- %s\n", strings.Join(v, ", "))
	}
	for _, s := range slicesOfReport {
		if one, ok := r[s.name]; ok {
			fmt.Fprintf(&b, "- %s (`%s`): %s, of %s\n", s.about, s.name, one.When.Format("2006-01-02 15:04 UTC"), one.Commit)
		}
	}
	return b.String()
}

// picture is a chart and where it goes.
type picture struct {
	chart.Chart
	file string
}

// titles are what the charts call the peers.
var titles = map[string]string{
	"tcp": "raw TCP, a connection a caller", ours: "rpcrdma, iWARP", noCRC: "rpcrdma, iWARP, no CRC", "grpc": "grpc-go", "netrpc": "net/rpc",
	"iwarp?credits=1024": "rpcrdma, iWARP, 1024 credits", "iwarp?payload=16777216": "rpcrdma, iWARP", "iwarp?payload=16777216&crc=false": "rpcrdma, iWARP, no CRC",
}

// charts draws what there is.
func charts(r records) (list []picture) {
	add := func(file, title, x, y string, bytes bool, lines []chart.Line) {
		if len(lines) > 0 {
			list = append(list, picture{chart.Chart{Title: title, X: x, Y: y, Bytes: bytes, Lines: lines}, file})
		}
	}
	many := r.rows(manyCallers.name)
	add("callers.svg", "64 B calls: rate by callers", "callers", "calls a second", false,
		byPeer(many, manyCallers.peers, callersOf, func(s drive.Sample) float64 { return s.Rate }))
	var tails []chart.Line
	for i, q := range quantiles {
		for _, l := range byPeer(many, []string{"tcp", ours}, callersOf, q.of) {
			l.Name, l.Style = l.Name+", "+q.name, i
			tails = append(tails, l)
		}
	}
	add("latency.svg", "64 B calls: latency by callers", "callers", "microseconds", false, tails)
	add("cpu.svg", "64 B calls: CPU of both ends by callers", "callers", "microseconds a call", false,
		byPeer(many, manyCallers.peers, callersOf, func(s drive.Sample) float64 { return s.CPU }))

	conns := r.rows(manyConns.name)
	tails = nil
	for i, q := range quantiles {
		l := chart.Line{Name: q.name, Color: i}
		for _, row := range conns {
			if row.Pairs > 0 {
				l.X, l.Y = append(l.X, optionOf(row.Peer, "conns")), append(l.Y, q.of(row.Sample))
			}
		}
		tails = append(tails, l)
	}
	memory := chart.Line{Name: "peak memory of client and server"}
	for _, row := range conns {
		if row.Pairs > 0 {
			memory.X, memory.Y = append(memory.X, optionOf(row.Peer, "conns")), append(memory.Y, row.Sample.RSS)
		}
	}
	if len(conns) > 0 {
		add("connections-latency.svg", "64 B calls by 64 callers: latency by connections", "connections", "microseconds", false, tails)
		add("connections-memory.svg", "Memory by connections that 64 callers share", "connections", "MiB", false, []chart.Line{memory})
	}
	gb := func(s drive.Sample) float64 { return s.Rate }
	for _, x := range []struct {
		in   *group
		file string
		what string
	}{{&readSizes, "reads.svg", "Read, 1 caller"}, {&writeSizes, "writes.svg", "Write, 1 caller"}} {
		lines := byPeer(r.rows(x.in.name), x.in.peers, bytesOf, gb)
		for i := range lines {
			for k := range lines[i].Y {
				lines[i].Y[k] *= lines[i].X[k] / 1e9
			}
		}
		add(x.file, x.what+": throughput by size", "bytes", "GB/s", true, lines)
	}
	for _, op := range []string{"read", "write"} {
		var rows []drive.Row
		for _, row := range r.rows(inlines.name) {
			if strings.HasPrefix(row.Workload, op+":") {
				rows = append(rows, row)
			}
		}
		lines := byPeer(rows, inlines.peers, bytesOf, func(s drive.Sample) float64 { return s.CPU })
		for i := range lines {
			lines[i].Name = "inline up to " + sizeName(optionOf(lines[i].Name, "inline"))
		}
		add("inline-"+op+".svg", "A "+op+" inline or by chunk: CPU of both ends", "bytes", "microseconds a call", true, lines)
	}
	var lines []chart.Line
	for i, op := range []string{"read", "write"} {
		l := chart.Line{Name: "1 MiB " + op, Color: i}
		for _, row := range r.rows(manySegments.name) {
			if row.Pairs > 0 && strings.HasPrefix(row.Workload, op) {
				l.X, l.Y = append(l.X, (1<<20)/optionOf(row.Peer, "segment")), append(l.Y, row.GBPerSecond)
			}
		}
		if len(l.X) > 0 {
			lines = append(lines, l)
		}
	}
	add("segments.svg", "1 MiB by 1 caller, no CRC: throughput by segments of the chunk", "segments", "GB/s", false, lines)
	for i := range list {
		list[i].Linear = list[i].file == "segments.svg" || list[i].file == "connections-memory.svg"
	}
	return list
}
