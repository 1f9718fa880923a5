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
