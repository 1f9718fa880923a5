package main

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/rpcrdma/rpcrdma/cli/bench"
	"github.com/rpcrdma/rpcrdma/test/bench/chart"
	"github.com/rpcrdma/rpcrdma/test/bench/drive"
)

// quantiles are the latencies that charts show.
var quantiles = []struct {
	name string
	of   func(drive.Sample) float64
}{
	{"median", func(s drive.Sample) float64 { return s.P50 }},
	{"99 %", func(s drive.Sample) float64 { return s.P99 }},
	{"99.9 %", func(s drive.Sample) float64 { return s.P999 }},
}

// byPeer makes a line of each peer's rows.
func byPeer(rows []drive.Row, peers []string, x func(drive.Row) float64, y func(drive.Sample) float64) (lines []chart.Line) {
	for i, peer := range peers {
		l := chart.Line{Name: titles[peer], Color: i}
		if l.Name == "" {
			l.Name = peer
		}
		for _, row := range rows {
			if row.Peer == peer && row.Pairs > 0 {
				l.X, l.Y = append(l.X, x(row)), append(l.Y, y(row.Sample))
			}
		}
		if len(l.X) > 0 {
			lines = append(lines, l)
		}
	}
	return lines
}

// workload is a row's; rows come from where it was parsed before it was measured.
func workload(r drive.Row) drive.Workload {
	w, err := drive.ParseWorkload(r.Workload)
	if err != nil {
		return drive.Workload{N: 1, Callers: 1}
	}
	return w
}

func callersOf(r drive.Row) float64 { return float64(workload(r).Callers) }
func bytesOf(r drive.Row) float64   { return float64(workload(r).N) }

// optionOf is an option's value in a peer's name.
func optionOf(peer, key string) float64 {
	_, query, _ := strings.Cut(peer, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return 0
	}
	v, err := strconv.ParseFloat(q.Get(key), 64)
	if err != nil {
		return 0
	}
	return v
}

func sizeName(n float64) string { return strings.ToUpper(bench.FormatSize(int(n))) }
