package drive

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rpcrdma/rpcrdma/cli/bench"
	"github.com/rpcrdma/rpcrdma/test/bench/load"
)

// Workload is op:size:callers, e.g. read:64k:16.
type Workload struct {
	Name    string
	Op      load.Op
	N       int
	Callers int
}

// ParseWorkload reads op:size:callers.
func ParseWorkload(s string) (w Workload, err error) {
	f := strings.Split(s, ":")
	if len(f) != 3 {
		return w, fmt.Errorf("workload %q: want op:size:callers, like read:64k:16", s)
	}
	w = Workload{Name: s, Op: load.Op(f[0])}
	if !slices.Contains([]load.Op{load.Echo, load.Read, load.Write}, w.Op) {
		return w, fmt.Errorf("workload %q: the operations are echo, read and write", s)
	}
	sizes, err1 := bench.ParseSizes(f[1])
	if len(sizes) == 1 {
		w.N = sizes[0]
	}
	limit := load.MaxPayload
	if w.Op == load.Echo {
		limit = 32 << 10 // what raw TCP takes in one piece
	}
	if err1 != nil || len(sizes) != 1 || w.N > limit {
		return w, fmt.Errorf("workload %q: %s takes 0 to %d bytes", s, w.Op, limit)
	}
	if w.Callers, err1 = strconv.Atoi(f[2]); err1 != nil || w.Callers < 1 || w.Callers > load.MaxCallers {
		return w, fmt.Errorf("workload %q: 1 to %d callers", s, load.MaxCallers)
	}
	return w, nil
}

// ParseWorkloads reads a list with commas.
func ParseWorkloads(s string) (ws []Workload, err error) {
	for f := range strings.SplitSeq(s, ",") {
		w, err := ParseWorkload(strings.TrimSpace(f))
		if err != nil {
			return nil, err
		}
		ws = append(ws, w)
	}
	return ws, nil
}
