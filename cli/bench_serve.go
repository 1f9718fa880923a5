package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rpcrdma/rpcrdma/cli/bench"
	"github.com/rpcrdma/rpcrdma/core/rpc"
)

type benchServeFlags struct {
	connFlags
	limitFlags
	listen []string
}

func newBenchServe() *cobra.Command {
	var f benchServeFlags
	cmd := &cobra.Command{
		Use:   "serve --listen URL",
		Short: "serve the program that bench run calls",
		Long: fmt.Sprintf(`serve answers bench run, on every address given, until it is interrupted. The bound addresses
are printed, one a line. The program's number is %#x, of those that RFC 5531 leaves to users,
version %d: ECHO 1, READ 2, WRITE 3. It holds %d MiB of its own, touches no file and lets everybody
call who can reach it.`, bench.Program, bench.Version, bench.MaxPayload>>20),
		Example: `  rpcrdma bench serve --listen iwarp://:20050
  rpcrdma bench serve --listen iwarp://127.0.0.1:20050 --listen tcp://127.0.0.1:20051 --inline 16384`,
		Args: noArgs,
		RunE: work(func(cmd *cobra.Command, _ []string) error { return f.run(cmd) }),
	}
	f.add(cmd.Flags())
	f.addLimitsOf(cmd.Flags(), bench.MaxConnections, "all") // one machine may well be all that measures
	cmd.Flags().StringArrayVar(&f.listen, "listen", nil, "address to listen on; may be given several times")
	return cmd
}

func (f *benchServeFlags) run(cmd *cobra.Command) (err error) {
	if len(f.listen) == 0 {
		return usagef("--listen is missing: an address such as iwarp://:20050")
	}
	for _, url := range f.listen {
		if t, err := target(url); err != nil {
			return err
		} else if t.Scheme == withinScheme {
			return usagef("--listen %s: %s is within one process: bench run %s serves itself", url, withinScheme, url)
		}
	}
	if f.perAddr == 0 {
		f.perAddr = f.conns
	}
	limits, err := f.limits()
	if err != nil {
		return err
	}
	opts, finish, err := f.options(cmd.Context(), cmd.ErrOrStderr(), anyRDMA(f.listen))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, finish()) }()
	s, err := newBenchServer(bench.MaxPayload, rpc.WithLog(newLog(cmd.ErrOrStderr(), f.verbose)))
	if err != nil {
		return err
	}
	f.metrics.watch(ofServer(s.Server))
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	defer s.close()
	for _, url := range f.listen {
		ls, err := s.listen(ctx, url, append(limits, rpc.ConnOptions(opts...))...)
		if err != nil {
			return err
		}
		for _, l := range ls {
			if _, err := fmt.Fprintln(out, "listening on", l.URL()); err != nil {
				return err // who is to connect does not learn where
			}
		}
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.failed:
		return err
	}
}

// benchServer serves the program of package bench.
type benchServer struct {
	*rpc.Server
	pattern *rpc.Buffer
	failed  chan error // a listener's end
	serving int
}

// newBenchServer makes one whose READ gives up to n bytes.
func newBenchServer(n int, opts ...rpc.ServerOption) (*benchServer, error) {
	pattern, err := bench.NewPattern(n)
	if err != nil {
		return nil, err
	}
	s := &benchServer{Server: rpc.NewServer(opts...), pattern: pattern, failed: make(chan error)}
	bench.Register(s.Server, pattern)
	return s, nil
}

// listen binds and serves url, on every fabric that has it.
func (s *benchServer) listen(ctx context.Context, url string, opts ...rpc.ListenOption) ([]*rpc.Listener, error) {
	t, err := target(url)
	if err != nil {
		return nil, err
	}
	ls, err := rpc.ListenAll(ctx, url, append(bench.ListenOptions(), opts...)...)
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", advise(t, err))
	}
	for _, l := range ls {
		s.serving++
		go func() { s.failed <- s.Serve(context.WithoutCancel(ctx), l) }()
	}
	return ls, nil
}

// close ends every connection and waits for the listeners.
func (s *benchServer) close() {
	s.Close()
	for range s.serving {
		<-s.failed
	}
	s.pattern.Free()
}
