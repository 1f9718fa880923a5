package drive

import (
	"fmt"
	"io"
)

// WriteTable prints the rows of one workload.
func WriteTable(w io.Writer, rows []Row) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s, %d pairs, x %s\n%-13s %10s %7s %6s %-13s %9s %9s %6s %10s %6s %7s %9s %8s\n",
		rows[0].Workload, rows[0].pairsOfOthers(rows), rows[0].Peer,
		"peer", "ops/s", "GB/s", "x", "[min..max]", "p50 us", "p99 us", "p50 x", "cpu us/op", "cpu x", "allocs", "bytes/op", "RSS MiB")
	for i, r := range rows {
		if r.Pairs == 0 {
			fmt.Fprintf(w, "%-13s %s\n", r.Peer, r.Error)
			continue
		}
		s, x := r.Sample, r.RateX
		if i == 0 { // the reference's own spread
			x = Spread{Median: 1}
			for _, one := range r.samples {
				v := one.Rate / s.Rate
				if x.Min == 0 || v < x.Min {
					x.Min = v
				}
				x.Max = max(x.Max, v)
			}
		}
		fmt.Fprintf(w, "%-13s %10.0f %7.3f %6.2f %-13s %9.1f %9.1f %6.2f %10.2f %6.2f %7.1f %9.0f %8.1f\n", r.Peer, s.Rate, r.GBPerSecond,
			x.Median, fmt.Sprintf("%.2f..%.2f", x.Min, x.Max), s.P50, s.P99, r.P50X.Median, s.CPU, r.CPUX.Median, s.Allocs, s.Bytes, s.RSS)
		if r.Error != "" {
			fmt.Fprintf(w, "%-13s then failed: %s\n", "", r.Error)
		}
	}
}

func (r Row) pairsOfOthers(rows []Row) int {
	n := 0
	for _, o := range rows[1:] {
		n = max(n, o.Pairs)
	}
	if n == 0 {
		n = r.Pairs
	}
	return n
}
