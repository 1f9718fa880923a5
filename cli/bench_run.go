package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcrdma/rpcrdma/cli/bench"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
)

// withinScheme is the provider whose both ends are in one process.
const withinScheme = "loopback"

type benchFlags struct {
	connFlags
	op       string
	size     string
	callers  int
	conns    int
	calls    int
	duration time.Duration
	warmup   time.Duration
	timeout  time.Duration
	columns  string
	json     bool
}

func newBenchRun() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "run URL",
		Short: "call a bench server as fast as it goes",
		Long: `run keeps callers busy at the server that bench serve runs at URL, and prints perftest's columns.
loopback:// serves itself, within this process; tcp:// is plain ONC RPC without RDMA, to compare.

The operations: echo carries its bytes there and back in the message, read has the server place
them in the caller's memory (by RDMA Write), write has it fetch them (by RDMA Read); what fits
into an inline message, see --inline, goes in it. Of every payload 16 bytes are checked, of each caller's
first all of them.

As in perftest a MB is 1024² bytes, t_typical the median; bytes count one way. Times are of whole
calls, there and back, where ib_send_lat shows half of it. BW peak is the best tenth of a second.
Callers share the connections, each of which takes --credits calls at a time.

The provider's options go into the URL: iwarp://server:20050?crc=false. Interrupted, it prints what
it has measured; exit status 1.`,
		Example: `  rpcrdma bench run iwarp://server:20050
  rpcrdma bench run --op read --size 64..16m --callers 16 iwarp://server:20050
  rpcrdma bench run --columns lat -n 10000 loopback://`,
		Args: wantArgs("URL"),
		RunE: work(func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("iterations") && cmd.Flags().Changed("duration") {
				return usagef("--iterations and --duration both say when to end: give one")
			}
			return f.run(cmd, args[0])
		}),
	}
	f.add(cmd.Flags())
	cmd.Flags().StringVar(&f.op, "op", "echo", "operation: echo, read or write")
	cmd.Flags().StringVarP(&f.size, "size", "s", "64", "bytes of a payload: a size, a list, or a range that doubles, up to 16m: 64,4k or 64..16m")
	cmd.Flags().IntVar(&f.callers, "callers", 1, "calls at the same time")
	cmd.Flags().IntVar(&f.conns, "conns", 1, "connections that they share")
	cmd.Flags().IntVarP(&f.calls, "iterations", "n", 0, "calls of each size, by all callers together (default: as many as --duration has time for)")
	cmd.Flags().DurationVarP(&f.duration, "duration", "D", time.Second, "time for each size")
	cmd.Flags().DurationVar(&f.warmup, "warmup", 200*time.Millisecond, "calls that do not count, before each size")
	cmd.Flags().DurationVarP(&f.timeout, "timeout", "W", 10*time.Second, "wait for a connection and for a reply")
	cmd.Flags().StringVar(&f.columns, "columns", string(bench.Both), "bw as perftest's bandwidth tests, lat as its latency tests, or both")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON and nothing else")
	return cmd
}

// The most that a command line can ask for.
const (
	maxBenchCallers = 1 << 14
	maxBenchMemory  = 4 << 30 // of callers' buffers together
)

// plan checks the flags.
func (f *benchFlags) plan() (o bench.Options, err error) {
	o = bench.Options{Op: bench.Op(f.op), Callers: f.callers, Calls: f.calls, Duration: f.duration, Warmup: f.warmup}
	known := false
	for _, op := range bench.Ops {
		known = known || op == o.Op
	}
	if !known {
		return o, usagef("--op %s: want echo, read or write", f.op)
	}
	if o.Sizes, err = bench.ParseSizes(f.size); err != nil {
		return o, usagef("--size %w", err)
	}
	most := 0
	for _, n := range o.Sizes {
		most = max(most, n)
	}
	switch columns := bench.Columns(f.columns); {
	case columns != bench.Both && columns != bench.Bandwidth && columns != bench.Latency:
		return o, usagef("--columns %s: want bw, lat or both", f.columns)
	case f.callers < 1 || f.callers > maxBenchCallers:
		return o, usagef("--callers %d: want 1 to %d", f.callers, maxBenchCallers)
	case f.conns < 1 || f.conns > bench.MaxConnections:
		return o, usagef("--conns %d: want 1 to %d", f.conns, bench.MaxConnections)
	case f.calls < 0:
		return o, usagef("-n %d: want a positive number", f.calls)
	case f.duration <= 0 || f.warmup < 0 || f.timeout <= 0:
		return o, usagef("--duration and --timeout want a positive time, --warmup no negative one")
	case int64(f.callers)*int64(most) > maxBenchMemory:
		return o, usagef("--callers %d with --size %s: together more than %d GiB; take fewer or smaller ones", f.callers, bench.FormatSize(most), maxBenchMemory>>30)
	}
	return o, nil
}

func (f *benchFlags) run(cmd *cobra.Command, url string) (err error) {
	o, err := f.plan()
	if err != nil {
		return err
	}
	// Nothing but the scheme matters of an address within this process.
	if rest, ok := strings.CutPrefix(url, withinScheme+"://"); ok && (rest == "" || rest[0] == '?') {
		url = withinScheme + "://127.0.0.1:0" + rest
	}
	t, err := target(url)
	if err != nil {
		return err
	}
	server := url
	opts, finish, err := f.dialOptions(cmd.Context(), t, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, finish()) }()
	if t.Scheme == withinScheme {
		s, err := newBenchServer(bench.MaxPayload)
		if err != nil {
			return err
		}
		defer s.close()
		f.metrics.watch(ofServer(s.Server))
		ls, err := s.listen(cmd.Context(), url, rpc.ConnOptions(opts...))
		if err != nil {
			return err
		}
		_, query, _ := strings.Cut(url, "?")
		server = ls[0].URL() + "?" + query
		if t, err = target(server); err != nil {
			return err
		}
	}
	client, err := rpc.NewClient(server, rpc.ConnOptions(opts...), rpc.WithConnections(f.conns), rpc.WithRetransmits(-1),
		rpc.WithCallTimeout(f.timeout), rpc.WithTCPRecord(bench.MaxPayload+64<<10))
	if err != nil {
		return err
	}
	defer client.Close()
	f.metrics.watch(ofClient(client))
	dial, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	err = client.Connect(dial)
	cancel()
	if err != nil {
		return advise(t, err)
	}
	return f.measure(cmd, t, client, o)
}

func (f *benchFlags) measure(cmd *cobra.Command, t rpc.Target, client *rpc.Client, o bench.Options) error {
	out, columns := cmd.OutOrStdout(), bench.Columns(f.columns)
	if f.json {
		out = io.Discard
	}
	tell, end := steps(cmd.ErrOrStderr())
	if tell != nil {
		o.Tell = func(size int, calls uint64, elapsed time.Duration) {
			done, total := int64(elapsed), int64(o.Duration)
			if o.Calls > 0 {
				done, total = int64(calls), int64(o.Calls)
			}
			tell(fmt.Sprintf("%s of %s: %d calls", o.Op, bench.FormatSize(size), calls), min(done, total), total)
		}
	}
	r := benchReport{Target: t.String(), Op: o.Op, Callers: f.callers, Connections: f.conns, Inline: f.inline, Credits: f.credits, Results: []benchResult{}}
	first := fmt.Sprintf("%s of %s: %s, %s", o.Op, t, count(f.callers, "caller"), count(f.conns, "connection"))
	head := false
	err := bench.Run(cmd.Context(), client, o, func(got *bench.Result) {
		end()
		if !head { // known only once a call was answered
			head = true
			if conns := client.Conns(); len(conns) > 0 && conns[0].Version() != 0 {
				first += fmt.Sprintf(", version %d", conns[0].Version())
			}
			fmt.Fprintln(out, first)
			_ = columns.WriteHeader(out) // as any line's: who has closed our output wants none
		}
		_ = columns.WriteRow(out, got)
		r.Results = append(r.Results, newBenchResult(got))
	})
	end()
	if !head {
		fmt.Fprintln(out, first)
	}
	r.Traffic = traffic(client)
	if f.verbose {
		fmt.Fprintln(out, r.Traffic)
	}
	if err = explainBench(t, err); err != nil {
		r.Error = oneLine(err)
	}
	if f.json && (err == nil || head) {
		if jerr := writeJSON(cmd.OutOrStdout(), r); err == nil {
			err = jerr
		}
	}
	return err
}

// explainBench says what to do about a server that answers, and not as a bench server does.
func explainBench(t rpc.Target, err error) error {
	var refused *rpcmsg.AcceptError
	switch {
	case errors.As(err, &refused) && (refused.Stat == rpcmsg.ProgUnavail || refused.Stat == rpcmsg.ProgMismatch):
		return fmt.Errorf("%s://%s: %w: that server is no bench server of this version; run rpcrdma bench serve there", t.Scheme, t.Address, err)
	case errors.Is(err, bench.ErrPayload):
		return fmt.Errorf("%s://%s: %w", t.Scheme, t.Address, err)
	}
	return advise(t, err)
}

// count is so many of something.
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
