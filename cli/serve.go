package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/server3"
)

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "serve a program: nfs",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return fmt.Errorf("serve what? there is: nfs") },
	}
	cmd.AddCommand(newServeNFS())
	return cmd
}

type serveFlags struct {
	connFlags
	export string
	listen []string
	mount  string
	allow  []string
	squash string
	anon   string
	ro     bool
	async  bool
}

func newServeNFS() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "nfs --export DIR --listen URL",
		Short: "serve a directory by NFS version 3",
		Long: `nfs serves DIR as / by NFS version 3 and MOUNT version 3, on every address given, until it
is interrupted: then calls in progress are answered first. The bound addresses are
printed, one a line.

Without root it serves with its own rights: every caller acts as the user that runs it.`,
		Example: `  rpcrdma serve nfs --export /srv/data --listen iwarp://:20049
  rpcrdma serve nfs --export /srv/data --listen iwarp://127.0.0.1:20049 --listen tcp://127.0.0.1:2049 --read-only`,
		Args: noArgs,
		RunE: work(func(cmd *cobra.Command, _ []string) error { return f.run(cmd) }),
	}
	f.add(cmd.Flags())
	cmd.Flags().StringVar(&f.export, "export", "", "directory to serve")
	cmd.Flags().StringArrayVar(&f.listen, "listen", nil, "address to listen on; may be given several times")
	cmd.Flags().StringVar(&f.mount, "mount-listen", "", "serve MOUNT on this address too, alone: tcp://:20048 for clients that ask there")
	cmd.Flags().StringArrayVar(&f.allow, "allow", nil, "network that may use it, e.g. 10.0.0.0/8; may be given several times; default: any")
	cmd.Flags().StringVar(&f.squash, "squash", "", "who acts as the anonymous user: root, all or none (default root)")
	cmd.Flags().StringVar(&f.anon, "anon", "", "UID:GID of the anonymous user (default 65534:65534)")
	cmd.Flags().BoolVar(&f.ro, "read-only", false, "refuse changes")
	cmd.Flags().BoolVar(&f.async, "async", false, "answer before names and attributes are on stable storage; faster, and a crash may lose them")
	return cmd
}

// serverOptions checks what can be checked without touching the file system.
func (f *serveFlags) serverOptions() (o server3.Options, err error) {
	if f.export == "" {
		return o, usagef("--export is missing: the directory to serve")
	}
	if len(f.listen) == 0 {
		return o, usagef("--listen is missing: an address such as iwarp://:20049")
	}
	o.ReadOnly, o.Async = f.ro, f.async
	if o.Squash, err = server3.ParseSquash(f.squash); err != nil {
		return o, usagef("--squash %s: want root, all or none", f.squash)
	}
	if f.anon != "" {
		uid, gid, _ := strings.Cut(f.anon, ":")
		u, err1 := strconv.ParseUint(uid, 10, 32)
		g, err2 := strconv.ParseUint(gid, 10, 32)
		if err1 != nil || err2 != nil {
			return o, usagef("--anon %s: want UID:GID, such as 65534:65534", f.anon)
		}
		o.Anon = &server3.IDs{UID: uint32(u), GID: uint32(g)}
	}
	for _, s := range f.allow {
		p, err := parseNetwork(s)
		if err != nil {
			return o, usagef("--allow %s: want a network such as 10.0.0.0/8, or an address", s)
		}
		o.Allow = append(o.Allow, p)
	}
	return o, nil
}

func parseNetwork(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Unmap().Prefix(a.Unmap().BitLen())
	}
	p, err := netip.ParsePrefix(s)
	return p.Masked(), err
}

func (f *serveFlags) run(cmd *cobra.Command) error {
	o, err := f.serverOptions()
	if err != nil {
		return err
	}
	for _, url := range append(f.listen, f.mountURLs()...) {
		if _, err := target(url); err != nil {
			return err
		}
	}
	opts, finish, err := f.options(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	nfs, err := server3.New(f.export, o)
	if err != nil {
		return errors.Join(err, finish())
	}
	level := slog.LevelWarn
	if f.verbose {
		level = slog.LevelInfo
	}
	log := rpc.WithLog(slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level})))
	both, alone := rpc.NewServer(log), rpc.NewServer(log)
	nfs.Register(both)
	nfs.RegisterMount(alone)
	err = serveAll(cmd.Context(), cmd.OutOrStdout(), fmt.Sprintf("serving %s", nfs.Dir()), []served{
		{both, f.listen}, {alone, f.mountURLs()}}, opts)
	return errors.Join(err, nfs.Close(), finish())
}

func (f *serveFlags) mountURLs() []string {
	if f.mount == "" {
		return nil
	}
	return []string{f.mount}
}

// served is a server and where it listens.
type served struct {
	server *rpc.Server
	urls   []string
}

// grace is how long calls in progress may take once the server is told to end.
const grace = 5 * time.Second

// serveAll binds everything, then says so, then serves until ctx ends or a listener fails.
func serveAll(ctx context.Context, out io.Writer, what string, all []served, opts []rpc.Option) (err error) {
	type bound struct {
		*rpc.Server
		l *rpc.Listener
	}
	var listeners []bound
	for _, s := range all {
		for _, url := range s.urls {
			t, err := target(url)
			var l *rpc.Listener
			if err == nil {
				l, err = rpc.Listen(ctx, url, opts...)
			}
			if err != nil {
				for _, b := range listeners {
					b.l.Close()
				}
				return fmt.Errorf("cannot listen: %w", advise(t, err))
			}
			listeners = append(listeners, bound{s.server, l})
		}
	}
	fmt.Fprintln(out, what)
	for _, b := range listeners {
		fmt.Fprintf(out, "listening on %s\n", b.l.URL())
	}
	failed := make(chan error, len(listeners))
	for _, b := range listeners {
		go func() { failed <- b.Serve(context.WithoutCancel(ctx), b.l) }()
	}
	ended := 0
	select {
	case <-ctx.Done():
	case err = <-failed:
		ended++
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	for _, s := range all {
		if serr := s.server.Shutdown(end); serr != nil && err == nil {
			err = fmt.Errorf("calls still in progress after %v were cut short", grace)
		}
	}
	for ; ended < len(listeners); ended++ {
		if serr := <-failed; err == nil {
			err = serr
		}
	}
	return err
}
