package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLabels(t *testing.T) {
	var got []string
	for _, tick := range (doubling{true}).Ticks(64, 16<<20) {
		if tick.Label != "" {
			got = append(got, tick.Label)
		}
	}
	if want := "64 256 1K 4K 16K 64K 256K 1M 4M 16M"; strings.Join(got, " ") != want {
		t.Errorf("sizes: %q, want %q", got, want)
	}
	got = nil
	for _, tick := range (decades{}).Ticks(9, 2100) {
		if tick.Label != "" {
			got = append(got, tick.Label)
		}
	}
	if want := "10 20 50 100 200 500 1000 2000"; strings.Join(got, " ") != want {
		t.Errorf("decades: %q, want %q", got, want)
	}
	for v, want := range map[float64]string{5: "5", 2000: "2000", 20000: "20 k", 5e6: "5 M"} {
		if short(v) != want {
			t.Errorf("%v is %q, want %q", v, short(v), want)
		}
	}
}

func TestSave(t *testing.T) {
	c := Chart{Title: "a title", X: "callers", Y: "calls a second", Lines: []Line{
		{Name: "one", X: []float64{1, 2, 4}, Y: []float64{10, 0, 40}},
		{Name: "two", X: []float64{1, 2}, Y: []float64{1000, 2000}, Color: 1, Style: 1},
		{Name: "nothing"},
	}}
	if err := (Chart{Lines: []Line{{X: []float64{1, 1}, Y: []float64{1, 1}}}}).Save(filepath.Join(t.TempDir(), "c.png")); err != nil {
		t.Error(err)
	}
	for _, linear := range []bool{false, true} {
		c.Linear = linear
		file := filepath.Join(t.TempDir(), "c.svg")
		if err := c.Save(file); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(file)
		for _, want := range []string{"a title", "callers", "calls a second", "one", "two"} {
			if err != nil || !strings.Contains(string(b), ">"+want+"<") {
				t.Errorf("%q is missing in the picture, %v", want, err)
			}
		}
	}
}
