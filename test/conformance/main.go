package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/rpcrdma/rpcrdma/test/conformance/rewrite"
)

func main() {
	defects := flag.Bool("defects", true, "provoke the defects as well")
	places := flag.Bool("places", false, "check only that each defect has its place, and run nothing")
	verbose := flag.Bool("v", false, "print every row")
	flag.Parse()
	root, err := findRoot()
	if err != nil {
		fatal(err)
	}
	tree, err := parseModule(os.DirFS(root))
	if err != nil {
		fatal(err)
	}
	if *places {
		faults := checkPlaces(tree, allDefects())
		for _, f := range faults {
			fmt.Println(f)
		}
		fmt.Printf("%d of %d defects have their place\n", len(allDefects())-len(faults), len(allDefects()))
		if len(faults) > 0 {
			os.Exit(1)
		}
		return
	}
	if !report(root, tree, *defects, *verbose, os.Stdout) {
		os.Exit(1)
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// tally is a line of the table.
type tally struct {
	rows, tested, departs, planned, notOurs, failed, secondHand int

	tests           map[string]bool
	caught, defects int
}

// report runs tests and defects and prints the table; false: something is not as it must be.
func report(root string, tree *rewrite.Tree, provoke, verbose bool, w io.Writer) bool {
	rows := ledger()
	var faults []string
	for _, err := range check(root, rows, allDefects()) {
		faults = append(faults, err.Error())
	}
	ends := runTests(root, rows, w)
	lines := make(map[string]*tally)
	for _, doc := range documents {
		lines[doc] = &tally{tests: make(map[string]bool)}
	}
	docOf := make(map[string]string)
	for _, r := range rows {
		docOf[r.ID] = r.Doc
		wrong := r.judge(ends)
		faults = append(faults, wrong...)
		lines[r.Doc].count(r, len(wrong) > 0)
		if verbose {
			fmt.Fprintf(w, "%-18s %-14s %s: %s\n", r.ID, r.status(), r.Level, r.Text)
		}
	}
	for _, d := range allDefects() {
		lines[docOf[d.Row]].defects++
	}
	if provoke {
		fmt.Fprintf(w, "provoking %d defects\n", len(allDefects()))
		for _, d := range provokeAll(root, tree, allDefects(), func(d Defect, err error) {
			if err != nil {
				faults = append(faults, d.fault(err))
			}
		}) {
			lines[docOf[d.Row]].caught++
		}
	} else {
		faults = append(faults, checkPlaces(tree, allDefects())...)
	}
	printTable(w, lines, provoke)
	for _, f := range faults {
		fmt.Fprintln(w, f)
	}
	return len(faults) == 0
}

func (t *tally) count(r Row, failed bool) {
	t.rows++
	switch r.status() {
	case Departs:
		t.departs++
	case Planned:
		t.planned++
	case NotOurs:
		t.notOurs++
	default:
		t.tested++
	}
	if failed {
		t.failed++
	}
	if r.SecondHand {
		t.secondHand++
	}
	for _, name := range r.Tests {
		t.tests[name] = true
	}
}

func (t *tally) add(o *tally) {
	t.rows += o.rows
	t.tested += o.tested
	t.departs += o.departs
	t.planned += o.planned
	t.notOurs += o.notOurs
	t.failed += o.failed
	t.secondHand += o.secondHand
	t.caught += o.caught
	t.defects += o.defects
	for name := range o.tests {
		t.tests[name] = true
	}
}

func printTable(w io.Writer, lines map[string]*tally, provoked bool) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "document\trows\ttested\tdeparts\tplanned\tnot ours\tsecond hand\tfailed\ttests\tdefects caught\t")
	line := func(name string, t *tally) {
		defects := fmt.Sprintf("%d of %d", t.caught, t.defects)
		if !provoked {
			defects = "not run"
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t\n", name,
			t.rows, t.tested, t.departs, t.planned, t.notOurs, t.secondHand, t.failed, len(t.tests), defects)
	}
	total := &tally{tests: make(map[string]bool)}
	for _, doc := range documents {
		line(doc, lines[doc])
		total.add(lines[doc])
	}
	line("total", total)
	tw.Flush()
}
