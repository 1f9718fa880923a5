package drive

// Alone measures each peer with no other process of the benchmark alive: memory that one
// stack or an earlier workload keeps is not counted against another. The first peer is
// the reference.
func Alone(names []string, w Workload, pairs, ms int) ([]Row, error) {
	rows := make([]Row, len(names))
	for i, name := range names {
		rows[i] = Row{Workload: w.Name, Peer: name}
	}
	for range pairs {
		var ref Sample
		for i, name := range names {
			s, err := start("", name, "")
			var got Sample
			if err == nil {
				got, err = s.measure(w, ms)
				s.stop()
			}
			switch {
			case err != nil && i == 0:
				return nil, err
			case err != nil:
				rows[i].Error = err.Error()
				continue
			case i == 0:
				ref = got
			}
			rows[i].add(got, ref)
		}
	}
	for i := range rows {
		rows[i].finish(w)
	}
	return rows, nil
}
