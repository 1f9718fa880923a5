package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
)

type pingFlags struct {
	connFlags
	program, version uint32
	count            int
	interval         time.Duration
	timeout          time.Duration
	json             bool
	rpcbind          bool
}

func newPing() *cobra.Command {
	var f pingFlags
	cmd := &cobra.Command{
		Use:   "ping URL",
		Short: "call a server's NULL procedure and show the latencies",
		Long: `ping calls procedure 0 of a program, which every ONC RPC program has, once a second
until it is interrupted or has called COUNT times. Exit status 1: not every call was
answered.`,
		Example: `  rpcrdma ping -c 3 iwarp://server:20049
  rpcrdma ping --program 100005 --version 3 tcp://server:20048
  rpcrdma ping --rpcbind --program 100005 tcp://server`,
		Args: wantArgs("URL"),
		RunE: work(func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) }),
	}
	f.add(cmd.Flags())
	cmd.Flags().Uint32Var(&f.program, "program", 100003, "program number")
	cmd.Flags().Uint32Var(&f.version, "version", 3, "version of the program")
	cmd.Flags().IntVarP(&f.count, "count", "c", 0, "calls to make; 0: until interrupted")
	cmd.Flags().DurationVarP(&f.interval, "interval", "i", time.Second, "from call to call")
	cmd.Flags().DurationVarP(&f.timeout, "timeout", "W", 10*time.Second, "wait for a connection and for a reply")
	cmd.Flags().BoolVar(&f.rpcbind, "rpcbind", false, "ask the server's rpcbind for the port, which URL then lacks")
	cmd.Flags().BoolVar(&f.json, "json", false, "print a summary as JSON and nothing else")
	return cmd
}

// pingReport is the summary; times are in microseconds.
type pingReport struct {
	Target          string    `json:"target"`
	Program         uint32    `json:"program"`
	ProgramVersion  uint32    `json:"version"`
	ProtocolVersion uint32    `json:"rpcrdma_version,omitempty"`
	Sent            int       `json:"sent"`
	Received        int       `json:"received"`
	ConnectUS       float64   `json:"connect_us"`
	Min             float64   `json:"min_us"`
	Avg             float64   `json:"avg_us"`
	Median          float64   `json:"median_us"`
	Max             float64   `json:"max_us"`
	Deviation       float64   `json:"deviation_us"`
	Error           string    `json:"error,omitempty"` // the last
	Times           []float64 `json:"times_us"`

	mute bool // the last call had no answer
}

func (f *pingFlags) run(cmd *cobra.Command, address string) error {
	t, err := target(address)
	if err != nil {
		return err
	}
	if f.count < 0 || f.interval < 0 || f.timeout <= 0 {
		return usagef("--count and --interval want no negative numbers, --timeout a positive one")
	}
	if f.rpcbind {
		if t, address, err = f.find(cmd.Context(), t, address); err != nil {
			return err
		}
	}
	opts, finish, err := f.dialOptions(cmd.Context(), t, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	client, err := rpc.NewClient(address, rpc.ConnOptions(opts...), rpc.WithRetransmits(-1))
	if err != nil {
		return errors.Join(err, finish())
	}
	f.metrics.watch(ofClient(client))
	r := pingReport{Target: t.String(), Program: f.program, ProgramVersion: f.version, Times: []float64{}}
	out := cmd.OutOrStdout()
	if f.json {
		out = io.Discard
	}
	err = f.loop(cmd.Context(), client, t, &r, out)
	if r.mute {
		// Who does not answer calls does not answer an orderly end either.
		for _, c := range client.Conns() {
			c.Abort(errUnanswered)
		}
	}
	client.Close()
	if ferr := finish(); err == nil {
		err = ferr
	}
	if r.Sent > 0 {
		r.summarize()
		if f.json {
			if jerr := writeJSON(cmd.OutOrStdout(), r); err == nil {
				err = jerr
			}
		} else {
			r.print(out)
		}
	}
	if err == nil && r.Received < r.Sent {
		return statusError(exitFailed)
	}
	return err
}

// find puts the port that the server's rpcbind has for the program into a target and its URL.
func (f *pingFlags) find(ctx context.Context, t rpc.Target, s string) (rpc.Target, string, error) {
	u, err := url.Parse(s)
	if err != nil {
		return t, s, err
	}
	if u.Port() != "" {
		return t, s, usagef("--rpcbind finds the port: leave %s out of the URL", u.Port())
	}
	wait, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	if t, err = lookup(wait, t, f.program, f.version); err != nil {
		if ctx.Err() != nil {
			return t, s, errInterrupted
		}
		err = fmt.Errorf("%w; name the port in the URL instead", err)
		return t, s, err
	}
	u.Host = t.Address
	return t, u.String(), nil
}

// loop calls until the count is reached or the user has had enough; both are no error. A
// connection that cannot be made, or a server that has no such program, ends it.
func (f *pingFlags) loop(ctx context.Context, client *rpc.Client, t rpc.Target, r *pingReport, out io.Writer) error {
	begin := time.Now()
	dial, cancel := context.WithTimeout(ctx, f.timeout)
	err := client.Connect(dial)
	cancel()
	if err != nil {
		return advise(t, err)
	}
	r.ConnectUS = micros(time.Since(begin))
	if _, err := fmt.Fprintf(out, "PING %s program %d version %d, connected in %.3f ms\n", t, f.program, f.version, r.ConnectUS/1000); err != nil {
		return err
	}
	null := &rpc.Proc{Program: f.program, Version: f.version, Name: "NULL"}
	tick := time.NewTicker(max(f.interval, time.Microsecond))
	defer tick.Stop()
	for seq := 1; ; seq++ {
		call, cancel := context.WithTimeout(ctx, f.timeout)
		start := time.Now()
		err := client.Call(call, null, nil, nil)
		took := time.Since(start)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		r.Sent++
		r.mute = errors.Is(err, context.DeadlineExceeded)
		if err != nil {
			err = f.explain(t, err)
			if seq == 1 {
				return err
			}
			r.Error = oneLine(err)
			if _, err := fmt.Fprintf(out, "seq=%d %s\n", seq, r.Error); err != nil {
				return err
			}
		} else {
			r.Received++
			r.Times = append(r.Times, micros(took))
			how := ""
			for _, c := range client.Conns() {
				if r.ProtocolVersion = c.Version(); r.ProtocolVersion == 0 {
					continue // tcp
				}
				how = fmt.Sprintf(" rpcrdma_version=%d credits=%d", r.ProtocolVersion, c.Counters().Granted)
			}
			if _, err := fmt.Fprintf(out, "reply from %s: seq=%d time=%.3f ms%s\n", t.Address, seq, micros(took)/1000, how); err != nil {
				return err
			}
		}
		if seq == f.count {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// explain says which flag to change where the server has another program.
func (f *pingFlags) explain(t rpc.Target, err error) error {
	var refused *rpcmsg.AcceptError
	switch {
	case !errors.As(err, &refused):
	case refused.Stat == rpcmsg.ProgUnavail:
		return fmt.Errorf("%w: the server does not serve program %d; name one that it does with --program", advise(t, err), f.program)
	case refused.Stat == rpcmsg.ProgMismatch:
		return fmt.Errorf("%w of program %d; name one of them with --version", advise(t, err), f.program)
	}
	return advise(t, err)
}

var errUnanswered = errors.New("calls were not answered")

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func (r *pingReport) summarize() {
	n := float64(len(r.Times))
	if n == 0 {
		return
	}
	sorted := slices.Sorted(slices.Values(r.Times))
	var sum, squares float64
	for _, t := range sorted {
		sum += t
		squares += t * t
	}
	r.Min, r.Max, r.Avg, r.Median = sorted[0], sorted[len(sorted)-1], sum/n, sorted[len(sorted)/2]
	r.Deviation = math.Sqrt(max(0, squares/n-r.Avg*r.Avg))
}

func (r *pingReport) print(w io.Writer) {
	fmt.Fprintf(w, "--- %s ping statistics ---\n%d calls, %d replies, %.0f%% lost\n", r.Target, r.Sent, r.Received,
		100*float64(r.Sent-r.Received)/float64(r.Sent))
	if r.Received > 0 {
		fmt.Fprintf(w, "min/avg/median/max/mdev = %.3f/%.3f/%.3f/%.3f/%.3f ms\n", r.Min/1000, r.Avg/1000, r.Median/1000, r.Max/1000, r.Deviation/1000)
	}
}
