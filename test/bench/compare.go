package main

import (
	"fmt"
	"io"
	"math"
	"os/exec"
	"strings"

	"github.com/rpcrdma/rpcrdma/test/bench/drive"
)

// compare measures our own peers of the slices beside the same peers of another build of this command, in pairs of runs: a
// ratio of 1 is no change.
func compare(w io.Writer, before string, chosen []slice, m measure) error {
	program, err := exec.LookPath(before)
	if err != nil {
		return fmt.Errorf("-before: %w", err)
	}
	fmt.Fprintf(w, "%-34s %-18s %5s %-22s %-22s %-22s %s\n", "workload", "peer", "pairs", "rate x [halves]", "p50 x [halves]", "CPU x [halves]", "")
	for _, s := range chosen {
		for _, g := range s.groups {
			for _, peer := range append([]string{g.reference}, g.peers...) {
				if !strings.HasPrefix(peer, "iwarp") && !strings.HasPrefix(peer, "loopback") {
					continue
				}
				one := *g
				one.reference, one.peers, one.program, one.alone = peer, []string{peer}, program, false
				err := one.run(m, func(rows []drive.Row) {
					m.note("")
					r := rows[len(rows)-1]
					fmt.Fprintf(w, "%-34s %-18s %5d %-22s %-22s %-22s %s\n", g.name+" "+r.Workload, peer, r.Pairs,
						spreadOf(r.RateX), spreadOf(r.P50X), spreadOf(r.CPUX), change(r))
				})
				if err != nil {
					return fmt.Errorf("%s: %w", g.name, err)
				}
			}
		}
	}
	return nil
}

func spreadOf(s drive.Spread) string { return reached{Spread: s}.spread() }

// change says whether a row shows more than noise: so many pairs lie on one side of 1 that chance alone would do it to either
// side in less than one row of twenty (sign test).
func change(r drive.Row) string {
	if r.Error != "" {
		return r.Error
	}
	slower, faster := r.Signs()
	switch {
	case unlikely(slower, slower+faster):
		return "slower"
	case unlikely(faster, slower+faster):
		return "faster"
	}
	return "no change beyond noise"
}

// unlikely reports that k heads or more of n tosses come up less often than once in forty.
func unlikely(k, n int) bool {
	p, ways := 0.0, 1.0 // ways is n over i
	for i := range n + 1 {
		if i >= k {
			p += ways
		}
		ways = ways * float64(n-i) / float64(i+1)
	}
	return p/math.Exp2(float64(n)) < 1.0/40
}
