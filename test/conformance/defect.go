package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rpcrdma/rpcrdma/test/conformance/rewrite"
)

// Defect is a fault put into the program on purpose: the fragment Old, which occurs once in the declaration In,
// becomes New (see package rewrite). Test, which is one of the tests of Row, must then fail.
type Defect struct {
	Name, Row, In, Old, New, Test string
}

// fault is the line of the report for a defect that was not caught or has no place.
func (d Defect) fault(err error) string {
	return fmt.Sprintf("defect %q (%s): %v", d.Name, d.Row, err)
}

// parseModule parses the module, in which the defects have their places. Tests are no such place.
func parseModule(module fs.FS) (*rewrite.Tree, error) {
	return rewrite.Load(module, "test")
}

// apply returns the file with the defect in it. An error means that the defect no longer applies.
func (d Defect) apply(t *rewrite.Tree) (*rewrite.Change, error) {
	r, err := rewrite.Parse(d.Old, d.New)
	if err != nil {
		return nil, err
	}
	c, err := t.Apply(d.In, r)
	if err != nil {
		return nil, fmt.Errorf("no longer applies: %w", err)
	}
	return c, nil
}

// checkPlaces finds the defects that no longer apply, by name, without running anything.
func checkPlaces(t *rewrite.Tree, ds []Defect) (faults []string) {
	for _, d := range ds {
		if _, err := d.apply(t); err != nil {
			faults = append(faults, d.fault(err))
		}
	}
	return faults
}

// provoked is set in the environment of the tests of a defect.
const provoked = "RPCRDMA_CONFORMANCE_PROVOKED"

// provoke builds the program with the defect, in temporary files, and runs the test. nil: it is caught.
func (d Defect) provoke(root string, t *rewrite.Tree) error {
	change, err := d.apply(t)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "defect")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	broken, overlay := filepath.Join(tmp, "broken.go"), filepath.Join(tmp, "overlay.json")
	if err := os.WriteFile(broken, change.Source, 0o600); err != nil {
		return err
	}
	path := filepath.Join(root, filepath.FromSlash(change.Path))
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: broken}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		return err
	}
	dir, test, _ := strings.Cut(d.Test, " ")
	ends, out, failed := goTest(root, dir, []string{provoked + "=1"}, "-vet=off", "-timeout=90s", "-overlay", overlay, "-run", exactly(test))
	top, _, _ := strings.Cut(test, "/")
	switch {
	case ends[test] == "fail", ends[top] == "fail", ends[test] == "run" && failed != nil:
		return nil
	case ends[test] == "pass":
		return fmt.Errorf("not caught: %s still passes", d.Test)
	}
	return fmt.Errorf("%s did not run:\n%s", d.Test, out)
}

// exactly is the -run of exactly that test.
func exactly(test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + p + "$"
	}
	return strings.Join(parts, "/")
}

// provokeAll runs the defects, two at a time, and returns those that were caught.
func provokeAll(root string, t *rewrite.Tree, ds []Defect, report func(Defect, error)) (caught []Defect) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan Defect)
	for range 2 {
		wg.Go(func() {
			for d := range next {
				err := d.provoke(root, t)
				mu.Lock()
				if err == nil {
					caught = append(caught, d)
				}
				report(d, err)
				mu.Unlock()
			}
		})
	}
	for _, d := range ds {
		next <- d
	}
	close(next)
	wg.Wait()
	return caught
}
