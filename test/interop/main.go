package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	fabric := flag.String("fabric", "siw", "the kernel's software RDMA in the guests: siw (iWARP)")
	smoke := flag.Bool("smoke", false, "only the few cases that show that it works at all")
	only := flag.String("run", "", "only cases whose name matches this regular expression")
	verbose := flag.Bool("v", false, "print what the cases note, not only of those that fail")
	list := flag.Bool("list", false, "print the cases")
	part := flag.String("part", "", "what a case runs in the lab's network; not for people")
	flag.Parse()
	if *part != "" {
		os.Exit(runPart(*part, flag.Args()))
	}
	os.Exit(runAll(*fabric, *smoke, *only, *verbose, *list))
}

func runAll(fabric string, smoke bool, only string, verbose, list bool) int {
	pattern, err := regexp.Compile(only)
	if err != nil || fabric != "siw" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "interop: -fabric siw, -run REGEXP, no arguments")
		return 2
	}
	var chosen []*testCase
	for _, c := range cases {
		if pattern.MatchString(c.name) && (c.smoke || !smoke) {
			chosen = append(chosen, c)
			if list {
				fmt.Printf("%-22s %s\n", c.name, c.what)
			}
		}
	}
	if list {
		return 0
	}
	setup, err := repoPath("test/interop/lab/setup.sh")
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		return 1
	}
	if why, err := exec.Command(setup, "check").Output(); err != nil {
		fmt.Printf("skipped: %s\n", strings.TrimSpace(string(why)))
		return 0
	}
	begin := time.Now()
	s := exec.Command(setup)
	s.Stderr = os.Stderr
	if err := s.Run(); err != nil {
		if s.ProcessState.ExitCode() == 3 {
			fmt.Println("skipped: Debian's packages cannot be downloaded")
			return 0
		}
		fmt.Fprintln(os.Stderr, "interop: the lab's set-up failed:", err)
		return 1
	}
	cache := os.Getenv("RPCRDMA_LAB_CACHE")
	if cache == "" {
		cache = filepath.Join(os.Getenv("HOME"), ".cache/rpcrdma-interop")
	}
	l, err := openLab(cache)
	if err == nil {
		err = errors.Join(build(l.bin), l.netUp())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		return 1
	}
	defer l.close()
	// The first interrupt ends the case in progress, so that nothing is left running.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Printf("lab ready in %.1f s; captures and logs: %s\n", time.Since(begin).Seconds(), l.out)
	passed, failed := 0, 0
	for _, c := range chosen {
		if ctx.Err() != nil {
			break
		}
		start := time.Now()
		t := l.run(ctx, c)
		mark := "ok  "
		if t.failure == "" {
			passed++
		} else {
			failed++
			mark = "FAIL"
		}
		fmt.Printf("%s  %-22s %6.1f s  %s\n", mark, c.name, time.Since(start).Seconds(), c.what)
		if t.failure != "" || verbose {
			for _, n := range append(t.notes, t.failure) {
				for line := range strings.Lines(strings.TrimRight(n, "\n")) {
					fmt.Printf("        %s\n", strings.TrimRight(line, "\n"))
				}
			}
		}
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed > 0 || ctx.Err() != nil {
		return 1
	}
	return 0
}

// repoPath is a file of this repository, wherever in it we were started.
func repoPath(rel string) (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, rel)); err == nil {
			return filepath.Join(dir, rel), nil
		}
		if dir == "/" {
			return "", errors.New("run it in the repository")
		}
	}
	return "", err
}

// build makes our programs, static: work runs in guests without a C library of ours.
func build(dir string) error {
	top, err := repoPath("go.mod")
	if err != nil {
		return err
	}
	for _, p := range []string{"./cmd/rpcrdma", "./test/interop/work"} {
		c := exec.Command("go", "build", "-o", dir+"/", p)
		c.Dir = filepath.Dir(top)
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w\n%s", p, err, out)
		}
	}
	return nil
}
