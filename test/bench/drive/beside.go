package drive

// Beside runs other after each run of a peer and returns the spread of the ratios that other makes of
// them: for programs that are no peers of ours.
func Beside(name string, w Workload, pairs, ms int, other func(Sample) (ratio float64, err error)) (Spread, error) {
	ref, err := start("", name, "")
	if err != nil {
		return Spread{}, err
	}
	defer ref.stop()
	var ratios []float64
	for range pairs {
		s, err := ref.measure(w, ms)
		if err != nil {
			return Spread{}, err
		}
		x, err := other(s)
		if err != nil {
			return Spread{}, err
		}
		ratios = append(ratios, x)
	}
	return spread(ratios), nil
}

// Median is the middle of v, 0 of nothing.
func Median(v []float64) float64 { return spread(v).Median }
