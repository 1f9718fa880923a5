package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/ulp/nfs"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/mount3"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// nfsFlags are those of every nfs verb.
type nfsFlags struct {
	connFlags
	uid, gid  int
	mountport uint16
	timeout   time.Duration
}

func newNFS() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "nfs",
		Short: "use an NFS version 3 server: ls, stat, get, put, rm, mkdir",
		Long: `nfs works on one path of a server. URL/PATH is resolved against what the server
exports; MOUNT is asked over the same connection, and, of servers that do not have it there, over
TCP, at the port that --mountport or the server's rpcbind says.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fmt.Errorf("nfs what? there are: ls, stat, get, put, rm, mkdir")
		},
	}
	cmd.AddCommand(newLs(), newStat(), newGet(), newPut(), newRm(), newMkdir())
	return cmd
}

func (f *nfsFlags) add(cmd *cobra.Command) {
	f.connFlags.add(cmd.Flags())
	cmd.Flags().IntVar(&f.uid, "uid", os.Getuid(), "user id to act as")
	cmd.Flags().IntVar(&f.gid, "gid", os.Getgid(), "group id to act as")
	cmd.Flags().Uint16Var(&f.mountport, "mountport", 0, "TCP port of the MOUNT service, of servers that do not have it on the same address (default: their rpcbind is asked)")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 30*time.Second, "wait for a connection, and for each reply")
}

// mounted is a session with a server: an export and a path in it.
type mounted struct {
	*nfs.FS
	path   string
	target rpc.Target
	client *rpc.Client
}

// with connects, mounts, runs work and says goodbye.
func (f *nfsFlags) with(cmd *cobra.Command, url string, work func(context.Context, *mounted) error) error {
	t, err := target(url)
	if err != nil {
		return err
	}
	if !isID(f.uid) || !isID(f.gid) {
		return usagef("--uid %d --gid %d: want numbers from 0 to %d", f.uid, f.gid, uint32(math.MaxUint32))
	}
	if f.timeout <= 0 {
		return usagef("--timeout wants a positive duration")
	}
	opts, finish, err := f.dialOptions(cmd.Context(), t, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	sys := rpcmsg.Sys{UID: uint32(f.uid), GID: uint32(f.gid), GIDs: f.groups()}
	sys.Machine, _ = os.Hostname() // it is for the server's log only
	silence := newWaiting(cmd.ErrOrStderr(), t, waitPatience)
	client, err := rpc.NewClient(url, rpc.ConnOptions(opts...), rpc.WithAuthSys(sys), rpc.WithCallTimeout(f.timeout),
		rpc.WithRetransmits(nfsRetransmits), rpc.WithInterceptor(silence.call))
	if err != nil {
		return errors.Join(err, finish())
	}
	f.metrics.watch(ofClient(client))
	err = f.mount(cmd.Context(), client, t, silence, work)
	client.Close()
	return errors.Join(err, finish())
}

func isID(n int) bool { return n >= 0 && uint64(n) <= math.MaxUint32 }

// groups are our own, when we act as ourselves.
func (f *nfsFlags) groups() (gids []uint32) {
	if f.uid != os.Getuid() {
		return nil
	}
	all, _ := os.Getgroups() // none is fine
	for _, g := range all {
		if len(gids) < rpcmsg.MaxGIDs {
			gids = append(gids, uint32(g))
		}
	}
	return gids
}

func (f *nfsFlags) mount(ctx context.Context, client *rpc.Client, t rpc.Target, silence *waiting, work func(context.Context, *mounted) error) error {
	dial, cancel := context.WithTimeout(ctx, f.timeout)
	connected := silence.begin()
	err := client.Connect(dial)
	connected()
	cancel()
	if err != nil {
		if ctx.Err() != nil {
			return errInterrupted
		}
		return advise(t, err)
	}
	export, rest, err := nfs.Mount(ctx, client, t.Path, f.dialMount(t))
	if err != nil {
		var other mountError
		if errors.As(err, &other) && ctx.Err() == nil {
			return other.error
		}
		return advise(t, err)
	}
	err = work(ctx, &mounted{export, rest, t, client})
	if ctx.Err() != nil && err != nil {
		return errInterrupted
	}
	leave, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_ = export.Unmount(leave) // a courtesy: nothing hangs on it
	return f.explain(t, err)
}

// dialMount connects to MOUNT where the server has it apart. What fails of that is not the fault of t's address.
func (f *nfsFlags) dialMount(t rpc.Target) nfs.DialMount {
	return func(ctx context.Context) (nfs.Caller, func() error, error) {
		ctx, cancel := context.WithTimeout(ctx, f.timeout)
		defer cancel()
		mount := rpc.Target{Scheme: "tcp", Address: t.Address}
		host, _, err := net.SplitHostPort(t.Address)
		if err != nil {
			return nil, nil, err
		}
		if f.mountport != 0 {
			mount.Address = net.JoinHostPort(host, strconv.Itoa(int(f.mountport)))
		} else if mount, err = lookup(ctx, mount, mount3.Program, mount3.Version); err != nil {
			return nil, nil, mountError{fmt.Errorf("%s has no MOUNT at this address, and where else is not known: %w; name its TCP port with --mountport (often 20048)", t, err)}
		}
		c, end, err := nfs.DialMountTCP(mount.Address)(ctx)
		if err != nil {
			err = mountError{fmt.Errorf("MOUNT: %w", advise(mount, err))}
		}
		return c, end, err
	}
}

type mountError struct{ error }

// explain says what to do about a refusal of the file system's; what the transport failed of
// is advise's to say.
func (f *nfsFlags) explain(t rpc.Target, err error) error {
	var path *fs.PathError
	var status nfs3.Status
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		hint := ""
		if f.uid == 0 {
			hint = "; servers take root for nobody unless told otherwise (--squash none)"
		}
		return fmt.Errorf("%w; we act as uid %d gid %d, see --uid and --gid%s", err, f.uid, f.gid, hint)
	case errors.As(err, &status):
		return err
	case !errors.As(err, &path):
		return advise(t, err)
	case isTransport(path.Err):
		return fmt.Errorf("%s %s: %w", path.Op, path.Path, advise(t, path.Err))
	}
	return err
}

func isTransport(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) || errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// moved is what get and put report with --json.
type moved struct {
	Path    string         `json:"path"`
	Local   string         `json:"local"`
	Bytes   uint64         `json:"bytes"`
	Seconds float64        `json:"seconds"`
	Traffic *trafficReport `json:"traffic"`
}

// nfsRetransmits lets a server be away for half a minute: files are worth the wait.
const nfsRetransmits = 30

// trafficReport is how a client's messages travelled.
type trafficReport struct {
	Version     uint32            `json:"rpcrdma_version,omitempty"` // absent: tcp
	Calls       uint64            `json:"calls"`
	Messages    map[string]uint64 `json:"messages"` // by form, calls and replies
	InlineBytes uint64            `json:"inline_bytes"`
	ReadBytes   uint64            `json:"rdma_read_bytes"`
	WriteBytes  uint64            `json:"rdma_write_bytes"`
	ReadChunks  uint64            `json:"read_chunks"`
	WriteChunks uint64            `json:"write_chunks"`
	ReplyChunks uint64            `json:"reply_chunks"`
	Credits     uint64            `json:"credits"`
}

func traffic(c *rpc.Client) *trafficReport {
	n := c.Counters()
	r := &trafficReport{Calls: n.CallsSent, InlineBytes: n.InlineBytes, ReadBytes: n.ReadBytes, WriteBytes: n.WriteBytes,
		ReadChunks: n.ReadChunks, WriteChunks: n.WriteChunks, ReplyChunks: n.ReplyChunks, Credits: n.Granted, Messages: forms(n)}
	for _, conn := range c.Conns() {
		r.Version = conn.Version()
	}
	return r
}

func forms(n obs.Counters) map[string]uint64 {
	return map[string]uint64{obs.FormInline.String(): n.Inline, obs.FormChunked.String(): n.Chunked,
		obs.FormLong.String(): n.Long, obs.FormLongMore.String(): n.LongMore}
}

func (r *trafficReport) String() string {
	if r.Version == 0 {
		return fmt.Sprintf("tcp: %d calls", r.Calls)
	}
	return fmt.Sprintf("version %d, %d calls; messages %d inline, %d chunked, %d long; bytes %s inline, %s by RDMA Read, %s by RDMA Write", r.Version, r.Calls,
		r.Messages[obs.FormInline.String()], r.Messages[obs.FormChunked.String()], r.Messages[obs.FormLong.String()]+r.Messages[obs.FormLongMore.String()],
		size(r.InlineBytes), size(r.ReadBytes), size(r.WriteBytes))
}

// size is a number of bytes for people.
func size(n uint64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 10<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 10<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// progress shows how far a transfer is, on a terminal and nowhere else; end takes the line
// away again.
func progress(w io.Writer, what string) (tell func(done, total int64), end func()) {
	if !terminal(w) {
		return nil, func() {}
	}
	start, last := time.Now(), time.Time{}
	return func(done, total int64) {
			if now := time.Now(); now.Sub(last) > 100*time.Millisecond {
				last = now
				rate := float64(done) / now.Sub(start).Seconds()
				fmt.Fprintf(w, "\r\x1b[K%s %3.0f%% %s/s", what, 100*float64(done)/float64(max(total, 1)), size(uint64(rate)))
			}
		}, func() {
			fmt.Fprint(w, "\r\x1b[K")
		}
}
