package cli

import (
	"github.com/rpcrdma/rpcrdma/cli/bench"
)

// benchReport is the outcome as JSON. Times are in microseconds, rates in calls and in bytes of
// payload a second.
type benchReport struct {
	Target      string         `json:"target"`
	Op          bench.Op       `json:"op"`
	Callers     int            `json:"callers"`
	Connections int            `json:"connections"`
	Inline      int            `json:"inline"`
	Credits     int            `json:"credits"`
	Results     []benchResult  `json:"results"`
	Traffic     *trafficReport `json:"traffic"` // warm-up included
	Error       string         `json:"error,omitempty"`
}

type benchResult struct {
	Bytes     int           `json:"bytes"`
	Calls     uint64        `json:"iterations"`
	Seconds   float64       `json:"seconds"`
	PeakBW    float64       `json:"bw_peak_bytes_s"`
	BW        float64       `json:"bw_average_bytes_s"`
	Rate      float64       `json:"msg_rate"`
	Min       float64       `json:"t_min_us"`
	Max       float64       `json:"t_max_us"`
	Typical   float64       `json:"t_typical_us"`
	Avg       float64       `json:"t_avg_us"`
	Deviation float64       `json:"t_stdev_us"`
	P99       float64       `json:"t_99_us"`
	P999      float64       `json:"t_99_9_us"`
	CPU       float64       `json:"cpu_us"` // a call, of this process
	Histogram []benchBucket `json:"histogram"`
}

type benchBucket struct {
	Took  float64 `json:"us"`
	Calls uint64  `json:"iterations"`
}

func newBenchResult(r *bench.Result) benchResult {
	h := &r.Calls
	b := benchResult{Bytes: r.Bytes, Calls: h.N(), Seconds: r.Elapsed.Seconds(),
		PeakBW: r.Peak * float64(r.Bytes), BW: r.Rate() * float64(r.Bytes), Rate: r.Rate(),
		Min: bench.Micros(h.Min()), Max: bench.Micros(h.Max()), Typical: bench.Micros(h.Quantile(.5)), Avg: bench.Micros(h.Mean()),
		Deviation: bench.Micros(h.Deviation()), P99: bench.Micros(h.Quantile(.99)), P999: bench.Micros(h.Quantile(.999)),
		CPU: bench.Micros(r.CPU) / float64(h.N())}
	for _, one := range h.Buckets() {
		b.Histogram = append(b.Histogram, benchBucket{bench.Micros(one.Took), one.Calls})
	}
	return b
}
