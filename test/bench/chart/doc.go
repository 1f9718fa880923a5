// Package chart draws lines over an axis that doubles, as SVG: how a cost grows with callers,
// connections or sizes.
//
// Imports: gonum/plot.
package chart
