// Command bench measures rpcrdma beside raw TCP and gRPC on this machine, as ratios taken
// in pairs of runs, and prints them beside the targets of the project.
//
//	go run .                                    the table of targets
//	go run . -only callers,bulk                 a part of it
//	go run . -before PROGRAM -only callers      ours beside the same of another build of this command
//	go run . -peers iwarp,grpc -workloads echo:64:16,read:1m:1
//	go run . -list
//	go run . report -only bulk                  measures a part of docs/performance.md again
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/rpcrdma/rpcrdma/test/bench/drive"
	"github.com/rpcrdma/rpcrdma/test/bench/peers"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "child" {
		if drive.Child(os.Args[2:]) != nil {
			os.Exit(1) // the driver has been told why
		}
		return
	}
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if len(os.Args) > 1 && os.Args[1] == "report" {
		return report(ctx, os.Args[2:])
	}
	var (
		names     = flag.String("peers", "iwarp,iwarpnocrc,grpc,netrpc,gonfs", "peers to measure, with -workloads")
		reference = flag.String("ref", "tcp", "peer that runs before every other one, with -workloads")
		workloads = flag.String("workloads", "", "op:size:callers,... instead of the table of targets")
		pairs     = flag.Int("pairs", 9, "pairs of runs for each peer and workload")
		ms        = flag.Int("ms", 250, "milliseconds of a run")
		pin       = flag.String("pin", "", "CPUs of server and client, e.g. 0,1, with -workloads")
		file      = flag.String("json", "", "also write every row to this file")
		verbose   = flag.Bool("v", false, "print every row before the table of targets")
		list      = flag.Bool("list", false, "list the peers")
		only      = flag.String("only", "", "slices of the table to measure, with commas (default: all); report -list names them")
		before    = flag.String("before", "", "executable of another build of this command: compare our own peers with its, pair by pair")
	)
	flag.Parse()
	if *list {
		for _, n := range peers.Names() {
			s, err := peers.Find(n)
			if err != nil {
				return err
			}
			fmt.Printf("%-12s %s\n", n, s.About)
		}
		return nil
	}
	if flag.NArg() > 0 || *pairs < 1 || *ms < 1 {
		flag.Usage()
		os.Exit(2)
	}
	var every []drive.Row
	if *workloads != "" && (*only != "" || *before != "") {
		return errors.New("-workloads does not go with -only or -before")
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if *before != "" {
		return compare(os.Stdout, *before, chosen, measure{*pairs, *ms, note})
	}
	if *workloads != "" {
		var ws []drive.Workload
		if ws, err = drive.ParseWorkloads(*workloads); err != nil {
			return err
		}
		plan := drive.Plan{Reference: *reference, Peers: strings.Split(*names, ","), Workloads: ws, Pairs: *pairs, MS: *ms, Pin: *pin,
			Progress: func(w drive.Workload, pair int) { note(fmt.Sprintf("%s, pair %d", w.Name, pair+1)) }}
		err = plan.Run(func(rows []drive.Row) {
			note("")
			drive.WriteTable(os.Stdout, rows)
			every = append(every, rows...)
		})
	} else {
		fmt.Printf("%d CPUs, %s, %d pairs of %d ms; x is the ratio to the run of raw TCP (or what is named) right before\n",
			runtime.NumCPU(), runtime.Version(), *pairs, *ms)
		all := records{}
		for _, one := range chosen {
			if one.chart {
				continue
			}
			r, err := one.run(ctx, measure{*pairs, *ms, note}, func(rows []drive.Row) {
				note("")
				if *verbose {
					drive.WriteTable(os.Stdout, rows)
				}
				every = append(every, rows...)
			})
			if err != nil {
				return err
			}
			all[one.name] = r
		}
		note("")
		writeTargets(os.Stdout, all)
	}
	if *file != "" {
		b, jerr := json.MarshalIndent(map[string]any{"when": time.Now().UTC(), "cpus": runtime.NumCPU(), "ms": *ms, "rows": every}, "", " ")
		if jerr != nil {
			return jerr
		}
		if werr := os.WriteFile(*file, append(b, '\n'), 0o644); werr != nil {
			return werr
		}
	}
	return err
}

// note shows where we are, on a terminal only; "" clears the line.
func note(s string) {
	if st, err := os.Stderr.Stat(); err == nil && st.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprintf(os.Stderr, "\r\x1b[K%s", s)
	}
}
