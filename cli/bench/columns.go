package bench

import (
	"fmt"
	"io"
	"time"
)

// Columns are what is printed of a Result: perftest's, of its bandwidth tests, of its latency tests,
// or both.
type Columns string

// The columns there are.
const (
	Both      Columns = "both"
	Bandwidth Columns = "bw"
	Latency   Columns = "lat"
)

// MiB is perftest's MB.
const MiB = 1 << 20

// column is one of perftest's. It is as wide as its name, and to the right.
type column struct {
	name     string
	decimals int
	of       func(*Result) float64
}

var (
	subject = []column{
		{"    #bytes", 0, func(r *Result) float64 { return float64(r.Bytes) }},
		{"#iterations", 0, func(r *Result) float64 { return float64(r.Calls.N()) }},
	}
	bandwidth = []column{
		{"BW peak[MB/sec]", 2, func(r *Result) float64 { return r.MBPerSecond(r.Peak) }},
		{"BW average[MB/sec]", 2, func(r *Result) float64 { return r.MBPerSecond(r.Rate()) }},
		{"MsgRate[Mpps]", 6, func(r *Result) float64 { return r.Rate() / 1e6 }},
	}
	latency = []column{
		{"t_min[usec]", 2, func(r *Result) float64 { return Micros(r.Calls.Min()) }},
		{"t_max[usec]", 2, func(r *Result) float64 { return Micros(r.Calls.Max()) }},
		{"t_typical[usec]", 2, func(r *Result) float64 { return Micros(r.Calls.Quantile(.5)) }},
		{"t_avg[usec]", 2, func(r *Result) float64 { return Micros(r.Calls.Mean()) }},
		{"t_stdev[usec]", 2, func(r *Result) float64 { return Micros(r.Calls.Deviation()) }},
		{"99%[usec]", 2, func(r *Result) float64 { return Micros(r.Calls.Quantile(.99)) }},
		{"99.9%[usec]", 2, func(r *Result) float64 { return Micros(r.Calls.Quantile(.999)) }},
	}
)

func (c Columns) list() []column {
	all := subject[:len(subject):len(subject)]
	if c != Latency {
		all = append(all, bandwidth...)
	}
	if c != Bandwidth {
		all = append(all, latency...)
	}
	return all
}

// WriteHeader writes the line of names.
func (c Columns) WriteHeader(w io.Writer) error {
	line := ""
	for _, one := range c.list() {
		line += " " + one.name
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

// WriteRow writes r as one line below it.
func (c Columns) WriteRow(w io.Writer, r *Result) error {
	line := ""
	for _, one := range c.list() {
		line += fmt.Sprintf(" %*.*f", len(one.name), one.decimals, one.of(r))
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

// MBPerSecond is rate calls a second as bytes of payload, one way.
func (r *Result) MBPerSecond(rate float64) float64 { return rate * float64(r.Bytes) / MiB }

// Micros is d in microseconds.
func Micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
