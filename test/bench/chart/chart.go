package chart

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Line is one thing that was measured. Lines of the same Color belong together; Style tells
// them apart: 0 is solid, then dashed, then dotted.
type Line struct {
	Name         string
	X, Y         []float64
	Color, Style int
}

// Chart is a picture.
type Chart struct {
	Title, X, Y string
	Bytes       bool // X is sizes: 4k, 1m
	Linear      bool // Y is not logarithmic and begins at 0
	Lines       []Line
}

// Colors that differ in lightness as well, for those who see no hue (Okabe and Ito's).
var colors = []color.Color{
	color.RGBA{0, 114, 178, 255}, color.RGBA{213, 94, 0, 255}, color.RGBA{0, 158, 115, 255},
	color.RGBA{204, 121, 167, 255}, color.RGBA{0, 0, 0, 255}, color.RGBA{230, 159, 0, 255}, color.RGBA{86, 180, 233, 255},
}

var dashes = [][]vg.Length{nil, {vg.Points(6), vg.Points(3)}, {vg.Points(1.5), vg.Points(2.5)}}

// Save writes the chart; the name's ending chooses the format (svg, png).
func (c Chart) Save(file string) error {
	p := plot.New()
	p.Title.Text = c.Title
	p.Title.TextStyle.Font.Size = font.Points(13)
	p.Title.Padding = vg.Points(8)
	p.X.Label.Text, p.Y.Label.Text = c.X, c.Y
	p.X.Label.Padding, p.Y.Label.Padding = vg.Points(4), vg.Points(4)
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, doubling{c.Bytes}
	if c.Linear {
		p.Y.Min = 0
	} else {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{225}, color.Gray{238}
	p.Add(grid)
	for _, l := range c.Lines {
		points := make(plotter.XYs, 0, len(l.X))
		for i := range l.X {
			if l.Y[i] > 0 || c.Linear {
				points = append(points, plotter.XY{X: l.X[i], Y: l.Y[i]})
			}
		}
		if len(points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return fmt.Errorf("%s: %w", l.Name, err)
		}
		of := colors[l.Color%len(colors)]
		line.Color, dots.Color = of, of
		line.Width = vg.Points(1.6)
		line.Dashes = dashes[l.Style%len(dashes)]
		dots.Radius, dots.Shape = vg.Points(1.8), draw.CircleGlyph{}
		p.Add(line, dots)
		p.Legend.Add(l.Name, line)
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(8), vg.Points(-4)
	p.Legend.ThumbnailWidth = vg.Points(28)
	p.Legend.Padding = vg.Points(1.5)
	c.headroom(p)
	return p.Save(7.2*vg.Inch, 4.6*vg.Inch, file)
}

// widen keeps a logarithmic axis with a single value on it away from 0.
func widen(a *plot.Axis) {
	if a.Min >= a.Max {
		a.Min, a.Max = a.Min/2, a.Max*2
	}
}

// headroom makes the Y axis end well above the lines, so that the legend covers none.
func (c Chart) headroom(p *plot.Plot) {
	if widen(&p.X); !c.Linear {
		widen(&p.Y)
	}
	share := 0.05 * float64(len(c.Lines)) // of the height
	if c.Linear {
		p.Y.Max /= 1 - min(share, .6)
		return
	}
	low, high := math.Log(p.Y.Min), math.Log(p.Y.Max)
	p.Y.Max = math.Exp(low + (high-low)/(1-min(share, .6)))
}

// doubling marks powers of two, every second or third where they are many.
type doubling struct{ bytes bool }

func (d doubling) Ticks(low, high float64) (ticks []plot.Tick) {
	if low <= 0 || math.IsInf(high, 0) {
		return nil
	}
	first, last := int(math.Floor(math.Log2(low))), int(math.Ceil(math.Log2(high)))
	step := 1 + (last-first)/12
	for e := first; e <= last; e++ {
		v := math.Exp2(float64(e))
		if v < low*.999 || v > high*1.001 {
			continue
		}
		t := plot.Tick{Value: v}
		if (e-first)%step == 0 {
			t.Label = label(v, d.bytes)
		}
		ticks = append(ticks, t)
	}
	return ticks
}

func label(v float64, bytes bool) string {
	units := []struct {
		over float64
		name string
	}{{1 << 20, "M"}, {1 << 10, "K"}}
	for _, u := range units {
		if bytes && v >= u.over {
			return strconv.FormatFloat(v/u.over, 'g', 4, 64) + u.name
		}
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// decades marks powers of ten, and 2 and 5 times these where there is room.
type decades struct{}

func (decades) Ticks(low, high float64) (ticks []plot.Tick) {
	if low <= 0 || math.IsInf(high, 0) {
		return nil
	}
	first, last := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	named := []int{1}
	if last-first <= 4 {
		named = []int{1, 2, 5}
	}
	for e := first; e <= last; e++ {
		for k := 1; k < 10; k++ {
			v := float64(k) * math.Pow(10, e)
			if v < low*.999 || v > high*1.001 {
				continue
			}
			t := plot.Tick{Value: v}
			if slices.Contains(named, k) {
				t.Label = short(v)
			}
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// short is v as people say it.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 3, 64) + " M"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'g', 3, 64) + " k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
