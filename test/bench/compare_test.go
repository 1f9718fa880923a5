package main

import "testing"

func TestUnlikely(t *testing.T) {
	for _, c := range []struct {
		k, n int
		want bool
	}{
		{0, 0, false}, {5, 5, false}, {6, 6, true}, {7, 9, false}, {8, 9, true}, {14, 20, false}, {15, 20, true}, {50, 100, false}, {61, 100, true},
	} {
		if got := unlikely(c.k, c.n); got != c.want {
			t.Errorf("unlikely(%d, %d) = %v, want %v", c.k, c.n, got, c.want)
		}
	}
}
