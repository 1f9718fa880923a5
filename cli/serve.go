package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"slices"
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
	limitFlags
	export string
	listen []string
	mount  string
	allow  []string
	squash string
	anon   string
	ro     bool
	rpcb   bool
	async  bool
	state  string
}

func newServeNFS() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "nfs --export DIR --listen URL",
		Short: "serve a directory by NFS version 3",
		Long: `nfs serves DIR as / by NFS version 3 and MOUNT version 3, on every address given, until it
is interrupted: then calls in progress are answered first. The bound addresses are
printed, one a line, and the command by which a Linux client mounts them: Linux asks for
MOUNT by TCP, so both are served by TCP, too, on port 20048 or as --mount-listen says. With
--rpcbind the machine's rpcbind is told, and mount -o vers=3,proto=rdma,nolock does.

Only the networks that it listens in may use it, unless --allow names others.

As root it serves each caller with the rights of the caller's user and groups, which the kernel
judges. As another user it has one user for all callers, its own, whatever --squash says.

File handles are signed with a key in the state directory, so that clients can hold them over a
restart of the server and nobody can make one up.`,
		Example: `  rpcrdma serve nfs --export /srv/data --listen iwarp://:20049
  rpcrdma serve nfs --export /srv/data --listen iwarp://127.0.0.1:20049 --listen tcp://127.0.0.1:2049 --read-only`,
		Args: noArgs,
		RunE: work(func(cmd *cobra.Command, _ []string) error { return f.run(cmd) }),
	}
	f.add(cmd.Flags())
	f.addLimits(cmd.Flags())
	cmd.Flags().StringVar(&f.export, "export", "", "directory to serve")
	cmd.Flags().StringArrayVar(&f.listen, "listen", nil, "address to listen on; may be given several times")
	cmd.Flags().StringVar(&f.mount, "mount-listen", "", "serve by TCP on this address, too, for clients that ask for MOUNT there; none for nowhere (default tcp://, the host of the first --listen, port 20048)")
	cmd.Flags().StringArrayVar(&f.allow, "allow", nil, "network that may use it, e.g. 10.0.0.0/8; or any; may be given several times (default: the networks of the addresses it listens on)")
	cmd.Flags().StringVar(&f.squash, "squash", "", "who acts as the anonymous user: root, all or none (default root)")
	cmd.Flags().StringVar(&f.anon, "anon", "", "UID:GID of the anonymous user (default 65534:65534)")
	cmd.Flags().StringVar(&f.state, "state", "", "directory that keeps the key of file handles (default $RPCRDMA_STATE, else /var/lib/rpcrdma; for others than root $XDG_STATE_HOME/rpcrdma, ~/.local/state/rpcrdma)")
	cmd.Flags().BoolVar(&f.ro, "read-only", false, "refuse changes")
	cmd.Flags().BoolVar(&f.rpcb, "rpcbind", false, "register with this machine's rpcbind, so that clients need not be told ports")
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
		if err1 != nil || err2 != nil || u == math.MaxUint32 || g == math.MaxUint32 { // -1 is nobody's id
			return o, usagef("--anon %s: want UID:GID, such as 65534:65534", f.anon)
		}
		o.Anon = &server3.IDs{UID: uint32(u), GID: uint32(g)}
	}
	for _, s := range f.allow {
		if s == "any" {
			o.Allow = append(o.Allow, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"))
			continue
		}
		p, err := parseNetwork(s)
		if err != nil {
			return o, usagef("--allow %s: want a network such as 10.0.0.0/8, an address, or any", s)
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
	for _, url := range f.listen {
		if t, err := target(url); err != nil {
			return err
		} else if t.Scheme == withinScheme {
			return usagef("--listen %s: %s is within one process, nobody else can reach it; want an address such as iwarp://:20049", url, withinScheme)
		}
	}
	mount, chosen, err := f.mountAddress()
	if err != nil {
		return err
	}
	if len(o.Allow) == 0 {
		listens := f.listen
		if mount != "" {
			listens = append(listens[:len(listens):len(listens)], mount)
		}
		if o.Allow, err = ownNetworks(cmd.Context(), listens); err != nil {
			return err
		}
	}
	limits, err := f.limits()
	if err != nil {
		return err
	}
	opts, finish, err := f.options(cmd.Context(), cmd.ErrOrStderr(), anyRDMA(f.listen))
	if err != nil {
		return err
	}
	if o.Secret, err = f.handleKey(cmd.ErrOrStderr()); err != nil {
		return errors.Join(err, finish())
	}
	o.Log = newLog(cmd.ErrOrStderr(), f.verbose)
	nfs, err := server3.New(f.export, o)
	if err != nil {
		return errors.Join(err, finish())
	}
	for _, line := range nfs.Notes() {
		fmt.Fprintf(cmd.ErrOrStderr(), "rpcrdma: %s\n", line)
	}
	server := rpc.NewServer(rpc.WithLog(o.Log))
	nfs.Register(server)
	f.metrics.watch(ofServer(server))
	err = f.serve(cmd, server, "serving "+nfs.Dir(), mount, chosen, append(limits, rpc.ConnOptions(opts...)))
	return errors.Join(err, nfs.Close(), finish())
}

// handleKey is the key of file handles. Where the directory was not named and cannot be made, there is none, and a line says why.
func (f *serveFlags) handleKey(errs io.Writer) ([]byte, error) {
	dir := cmp.Or(f.state, os.Getenv("RPCRDMA_STATE"))
	named := dir != ""
	if !named {
		var err error
		if dir, err = server3.StateDir(); err != nil {
			fmt.Fprintf(errs, "rpcrdma: no state directory: %s; name one with --state\n", oneLine(err))
			return nil, nil
		}
	}
	key, err := server3.HandleKey(dir)
	var bad *server3.KeyError
	switch {
	case err == nil:
		return key, nil
	case named || errors.As(err, &bad):
		return nil, err
	}
	fmt.Fprintf(errs, "rpcrdma: no state directory: %s; name one with --state\n", oneLine(err))
	return nil, nil
}

// anyRDMA tells whether one of the addresses is not plain TCP.
func anyRDMA(urls []string) bool {
	return slices.ContainsFunc(urls, func(u string) bool {
		t, err := target(u)
		return err == nil && t.Scheme != "tcp"
	})
}

// grace is how long calls in progress may take once the server is told to end.
const grace = 5 * time.Second

// serve binds everything, then says so, then serves until it is interrupted or a listener fails.
func (f *serveFlags) serve(cmd *cobra.Command, server *rpc.Server, what, mount string, chosen bool, opts []rpc.ListenOption) (err error) {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	var listeners []*rpc.Listener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	bind := func(url string) ([]*rpc.Listener, error) {
		t, err := target(url)
		if err != nil {
			return nil, err
		}
		ls, err := rpc.ListenAll(ctx, url, opts...)
		if err != nil {
			return nil, fmt.Errorf("cannot listen: %w", advise(t, err))
		}
		listeners = append(listeners, ls...)
		return ls, nil
	}
	for _, url := range f.listen {
		if _, err := bind(url); err != nil {
			return err
		}
	}
	nfs := listeners
	var mounts *rpc.Listener
	if mount != "" {
		switch ls, err := bind(mount); {
		case err == nil:
			mounts = ls[0] // tcp is one fabric
		case chosen:
			return err
		default: // our own idea: the rest works without
			fmt.Fprintf(cmd.ErrOrStderr(), "rpcrdma: MOUNT is not served by TCP: %s; choose an address with --mount-listen\n", oneLine(err))
		}
	}
	unregister := func() error { return nil }
	if f.rpcb {
		if unregister, err = register(ctx, listeners); err != nil {
			return err
		}
	}
	said := []string{what}
	for _, l := range listeners {
		said = append(said, "listening on "+l.URL())
	}
	if _, err := fmt.Fprintln(out, strings.Join(append(said, mountLines(nfs, mounts)...), "\n")); err != nil {
		return errors.Join(err, unregister()) // who is to connect does not learn where
	}
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { failed <- server.Serve(context.WithoutCancel(ctx), l) }()
	}
	ended := 0
	select {
	case <-ctx.Done():
	case err = <-failed:
		ended++
	}
	if uerr := unregister(); err == nil { // before the last calls are answered: no new clients
		err = uerr
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if serr := server.Shutdown(end); serr != nil && err == nil {
		err = fmt.Errorf("calls still in progress after %v were cut short", grace)
	}
	for ; ended < len(listeners); ended++ {
		// One that had not begun to serve when the server was shut down says that it is closed.
		if serr := <-failed; err == nil && !errors.Is(serr, rpc.ErrClosed) {
			err = serr
		}
	}
	return err
}
