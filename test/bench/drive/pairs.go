package drive

import (
	"fmt"
	"slices"
	"strconv"
)

// Sample is one run of one stack, client and server together.
type Sample struct {
	Rate     float64 // operations a second
	P50, P99 float64 // microseconds an operation
	P999     float64
	CPU      float64 // microseconds of both processes an operation
	Allocs   float64 // heap allocations of both an operation
	Bytes    float64 // bytes allocated an operation
	RSS      float64 // MiB, peak of both
}

// Spread is a median with what it was taken of. Low and High are the medians of the lower and of the
// upper half: what is measured may have two modes, and then the median says little.
type Spread struct{ Median, Min, Max, Low, High float64 }

// Row is one stack under one workload. The plain columns are medians; Rate, P50, CPU and
// RSS also come as ratios to the reference's run right before.
type Row struct {
	Workload, Peer               string
	Pairs                        int
	Sample                       Sample
	RateX, P50X, CPUX, RSSX      Spread  `json:",omitzero"`
	GBPerSecond, CPUSecondsPerGB float64 `json:",omitempty"`
	Error                        string  `json:",omitempty"`
	samples                      []Sample
	rateXs, p50Xs, cpuXs, rssXs  []float64
}

// Plan is what to measure.
type Plan struct {
	Reference string // "": no ratios, the stacks take turns
	// Program is the executable of another build of this command that runs Reference; "": this one. The peer of the
	// same name then is a peer like any other: so two builds are compared.
	Program   string
	Peers     []string
	Workloads []Workload
	Pairs, MS int
	Pin       string // "", or "server,client" CPUs
	Progress  func(Workload, int)
}

// Run measures the plan, workload by workload. A peer that cannot start or fails
// is a Row with its Error and costs the others nothing; an error means that the
// reference itself does not work.
func (p Plan) Run(row func([]Row)) error {
	var ref *stack
	if p.Reference != "" {
		var err error
		if ref, err = start(p.Program, p.Reference, p.Pin); err != nil {
			return err
		}
		defer func() { ref.stop() }()
	}
	var stacks []*stack
	for _, name := range p.Peers {
		if name == p.Reference && p.Program == "" {
			continue
		}
		s, err := start("", name, p.Pin)
		if err != nil {
			stacks = append(stacks, &stack{name: name, dead: err})
			continue
		}
		defer s.stop()
		stacks = append(stacks, s)
	}
	for _, w := range p.Workloads {
		if ref != nil && ref.callers > 0 && w.Callers > ref.callers {
			continue
		}
		if ref == nil {
			row(p.turns(w, stacks))
			continue
		}
		rows, err := p.workload(w, ref, stacks)
		if err != nil {
			return err
		}
		row(rows)
	}
	return nil
}

func (p Plan) workload(w Workload, ref *stack, stacks []*stack) ([]Row, error) {
	rows := make([]Row, 1+len(stacks))
	rows[0] = Row{Workload: w.Name, Peer: ref.name}
	for i, s := range stacks {
		rows[i+1] = Row{Workload: w.Name, Peer: s.name}
	}
	for pair := range p.Pairs {
		if p.Progress != nil {
			p.Progress(w, pair)
		}
		for i, s := range stacks {
			if s.dead != nil || s.callers > 0 && w.Callers > s.callers {
				continue
			}
			a, err := ref.measure(w, p.MS)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", ref.name, w.Name, err)
			}
			b, err := s.measure(w, p.MS)
			if err != nil {
				s.dead = fmt.Errorf("%s: %w", w.Name, err)
				continue
			}
			rows[0].add(a, a)
			rows[i+1].add(b, a)
		}
		if len(stacks) == 0 {
			a, err := ref.measure(w, p.MS)
			if err != nil {
				return nil, err
			}
			rows[0].add(a, a)
		}
	}
	out := rows[:0]
	for i := range rows {
		r := &rows[i]
		if i > 0 && stacks[i-1].dead != nil {
			r.Error = stacks[i-1].dead.Error()
		}
		if r.finish(w); r.Pairs > 0 || r.Error != "" {
			out = append(out, *r)
		}
	}
	return out, nil
}

// turns measures the stacks one after the other, without a reference.
func (p Plan) turns(w Workload, stacks []*stack) (rows []Row) {
	all := make([]Row, len(stacks))
	for i, s := range stacks {
		all[i] = Row{Workload: w.Name, Peer: s.name}
	}
	for turn := range p.Pairs {
		if p.Progress != nil {
			p.Progress(w, turn)
		}
		for i, s := range stacks {
			if s.dead != nil || s.callers > 0 && w.Callers > s.callers {
				continue
			}
			got, err := s.measure(w, p.MS)
			if err != nil {
				s.dead = fmt.Errorf("%s: %w", w.Name, err)
				continue
			}
			all[i].add(got, got)
		}
	}
	for i := range all {
		if all[i].finish(w); stacks[i].dead != nil {
			all[i].Error = stacks[i].dead.Error()
		}
		all[i].RateX, all[i].P50X, all[i].CPUX, all[i].RSSX = Spread{}, Spread{}, Spread{}, Spread{}
		if all[i].Pairs > 0 || all[i].Error != "" {
			rows = append(rows, all[i])
		}
	}
	return rows
}

func (r *Row) add(s, ref Sample) {
	r.samples = append(r.samples, s)
	r.rateXs = append(r.rateXs, s.Rate/ref.Rate)
	r.p50Xs = append(r.p50Xs, s.P50/ref.P50)
	r.cpuXs = append(r.cpuXs, s.CPU/ref.CPU)
	r.rssXs = append(r.rssXs, s.RSS/ref.RSS)
}

// Signs counts the pairs in which the rate was lower, and higher, than the reference's.
func (r *Row) Signs() (lower, higher int) {
	for _, x := range r.rateXs {
		switch {
		case x < 1:
			lower++
		case x > 1:
			higher++
		}
	}
	return lower, higher
}

// finish turns samples into medians.
func (r *Row) finish(w Workload) {
	if r.Pairs = len(r.samples); r.Pairs == 0 {
		return
	}
	column := func(f func(Sample) float64) float64 {
		v := make([]float64, len(r.samples))
		for i, s := range r.samples {
			v[i] = f(s)
		}
		return spread(v).Median
	}
	r.Sample = Sample{
		Rate:   column(func(s Sample) float64 { return s.Rate }),
		P50:    column(func(s Sample) float64 { return s.P50 }),
		P99:    column(func(s Sample) float64 { return s.P99 }),
		P999:   column(func(s Sample) float64 { return s.P999 }),
		CPU:    column(func(s Sample) float64 { return s.CPU }),
		Allocs: column(func(s Sample) float64 { return s.Allocs }),
		Bytes:  column(func(s Sample) float64 { return s.Bytes }),
		RSS:    column(func(s Sample) float64 { return s.RSS }),
	}
	r.RateX, r.P50X, r.CPUX, r.RSSX = spread(r.rateXs), spread(r.p50Xs), spread(r.cpuXs), spread(r.rssXs)
	if w.Op != "echo" && w.N > 0 {
		r.GBPerSecond = r.Sample.Rate * float64(w.N) / 1e9
		r.CPUSecondsPerGB = r.Sample.CPU / 1e6 / (float64(w.N) / 1e9)
	}
}

func spread(v []float64) Spread {
	if len(v) == 0 {
		return Spread{}
	}
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	return Spread{Median: middle(s), Min: digits(s[0]), Max: digits(s[n-1]), Low: middle(s[:(n+1)/2]), High: middle(s[n/2:])}
}

// middle is the median of what is sorted.
func middle(s []float64) float64 { return digits((s[(len(s)-1)/2] + s[len(s)/2]) / 2) }

// digits rounds to five digits: no clock here has more to say.
func digits(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64)
	if err != nil {
		return v
	}
	return r
}
