package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// outcomes are the ends of tests, by "folder Test/sub": pass, fail or skip.
type outcomes map[string]string

// event is a line of go test -json.
type event struct{ Action, Test, Output string }

// goTest runs go test -json in folder dir, with env beside our own environment, and returns the ends of its tests, and what was
// printed.
func goTest(root, dir string, env []string, args ...string) (ends map[string]string, out string, err error) {
	cmd := exec.Command("go", append(append([]string{"test", "-json", "-count=1"}, args...), "./"+dir)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	ends = make(map[string]string)
	var text strings.Builder
	for d := json.NewDecoder(bytes.NewReader(stdout)); ; {
		var e event
		if derr := d.Decode(&e); derr != nil {
			if derr != io.EOF {
				return nil, "", fmt.Errorf("go test -json ./%s: %w\n%s", dir, derr, stderr.Bytes())
			}
			break
		}
		text.WriteString(e.Output)
		switch e.Action {
		case "run", "pass", "fail", "skip": // a test that panics has no end but "run"
			if e.Test != "" {
				ends[e.Test] = e.Action
			}
		}
	}
	return ends, text.String() + stderr.String(), err
}

// runTests runs every test that rows name.
func runTests(root string, rows []Row, say io.Writer) outcomes {
	tops := make(map[string]map[string]bool)
	for _, r := range rows {
		for _, name := range r.Tests {
			dir, test, _ := strings.Cut(name, " ")
			if tops[dir] == nil {
				tops[dir] = make(map[string]bool)
			}
			top, _, _ := strings.Cut(test, "/")
			tops[dir][top] = true
		}
	}
	all := make(outcomes)
	for _, dir := range slices.Sorted(maps.Keys(tops)) {
		names := slices.Sorted(maps.Keys(tops[dir]))
		fmt.Fprintf(say, "running %d tests of %s\n", len(names), dir)
		ends, out, err := goTest(root, dir, nil, "-run", "^("+strings.Join(names, "|")+")$")
		for test, end := range ends {
			all[dir+" "+test] = end
		}
		if err != nil {
			fmt.Fprintf(say, "%s: %v\n%s\n", dir, err, out)
		}
	}
	return all
}

// judge tells what is wrong with a row, given how its tests ended.
func (r Row) judge(ends outcomes) (faults []string) {
	for _, name := range r.Tests {
		switch end := ends[name]; end {
		case "pass":
		case "":
			faults = append(faults, fmt.Sprintf("%s: test %s did not run", r.ID, name))
		case "run":
			faults = append(faults, fmt.Sprintf("%s: test %s did not end", r.ID, name))
		default:
			faults = append(faults, fmt.Sprintf("%s: test %s: %s", r.ID, name, end))
		}
	}
	return faults
}

// Defect is a fault put into the program on purpose: the Old text of File, which must occur there exactly
// once, becomes New. Test, one of its row's, must then fail.
type Defect struct {
	Name, Row, File, Old, New, Test string
}

// fault is the line of the report for a defect that was not caught or has no place.
func (d Defect) fault(err error) string {
	return fmt.Sprintf("defect %q (%s): %v", d.Name, d.Row, err)
}

// source is the file that the defect changes; an error says that it no longer applies.
func (d Defect) source(root string) (path string, src []byte, err error) {
	path = filepath.Join(root, filepath.FromSlash(d.File))
	if src, err = os.ReadFile(path); err != nil {
		return "", nil, err
	}
	if n := bytes.Count(src, []byte(d.Old)); n != 1 {
		return "", nil, fmt.Errorf("no longer applies: its text occurs %d times in %s", n, d.File)
	}
	return path, src, nil
}

// provoked is set in the environment of the tests of a defect.
const provoked = "RPCRDMA_CONFORMANCE_PROVOKED"

// provoke builds the program with the defect, in temporary files, and runs the test. nil: it is caught.
func (d Defect) provoke(root string) error {
	path, src, err := d.source(root)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "defect")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	broken, overlay := filepath.Join(tmp, "broken.go"), filepath.Join(tmp, "overlay.json")
	if err := os.WriteFile(broken, bytes.Replace(src, []byte(d.Old), []byte(d.New), 1), 0o600); err != nil {
		return err
	}
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
func provokeAll(root string, ds []Defect, report func(Defect, error)) (caught []Defect) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan Defect)
	for range 2 {
		wg.Go(func() {
			for d := range next {
				err := d.provoke(root)
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

// findRoot is the folder of go.mod, at or above the working directory.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod at or above the working directory")
		}
		dir = up
	}
}
