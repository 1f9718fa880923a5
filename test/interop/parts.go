package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/ulp/nfs"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"

	_ "github.com/rpcrdma/rpcrdma/providers/iwarp"
)

// self runs a part of this program in the lab's network, as a process of its own: what opens sockets on
// goroutines must be in the namespace as a whole.
func (t *T) self(part string, args ...string) string {
	exe, err := os.Executable()
	t.check(err)
	ctx, cancel := context.WithTimeout(t.ctx, 4*time.Minute)
	defer cancel()
	c := t.command(ctx, append([]string{exe, "-part", part}, args...)...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.fatal("%s: %v\n%s", part, err, out)
	}
	return string(out)
}

// parts are what self runs.
var parts = map[string]func(ctx context.Context, args []string) error{
	"escape":   escapePart,
	"inflight": inflightPart,
	"steady":   steadyPart,
	"rights":   rightsPart,
	"fill":     fillPart,
}

func runPart(name string, args []string) int {
	f := parts[name]
	if f == nil {
		fmt.Fprintln(os.Stderr, "interop: no part", name)
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	if err := f(ctx, args); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func (t *T) escapes(s *server) { t.note("%s", t.self("escape", ourURL)) }

func mountRoot(ctx context.Context, url string, mountTCP string, opts ...rpc.ClientOption) (*rpc.Client, *nfs.FS, error) {
	c, err := rpc.NewClient(url, append(opts, rpc.WithAuthSys(rpcmsg.Sys{Machine: "interop"}))...)
	if err != nil {
		return nil, nil, err
	}
	var dial nfs.DialMount
	if mountTCP != "" {
		dial = nfs.DialMountTCP(mountTCP)
	}
	path := c.Target().Path
	if path == "" {
		path = "/"
	}
	fs, _, err := nfs.Mount(ctx, c, path, dial)
	return c, fs, err
}

// escapePart asks our server for what no decent client asks for.
func escapePart(ctx context.Context, args []string) error {
	c, fs, err := mountRoot(ctx, args[0], "")
	if err != nil {
		return err
	}
	defer c.Close()
	raw, root := fs.Client(), fs.Root()
	rootAttr, err := raw.GetAttr(ctx, root)
	if err != nil {
		return err
	}
	// ".." of the root is the root, or nothing.
	for _, name := range []string{"..", "."} {
		if r, err := raw.Lookup(ctx, root, name); err == nil {
			if a, err := raw.GetAttr(ctx, r.Object); err != nil || a.FileID != rootAttr.FileID {
				return fmt.Errorf("LOOKUP %s of the root gives another object (%v)", name, err)
			}
		}
	}
	for _, name := range []string{"../secret", "/etc/passwd", "a/../../secret", "", "a\x00b"} {
		if _, err := raw.Lookup(ctx, root, name); err == nil {
			return fmt.Errorf("LOOKUP of %q gives a handle", name)
		}
	}
	// A link is read, never followed: what it points to gets no handle.
	for _, name := range []string{"up", "abs", "dir"} {
		r, err := raw.Lookup(ctx, root, name)
		if err != nil {
			return err
		}
		a, err := raw.GetAttr(ctx, r.Object)
		if err != nil || a.Type != nfs3.TypeLnk {
			return fmt.Errorf("LOOKUP of a link gives type %v, %v", a.Type, err)
		}
		if _, err := raw.Read(ctx, r.Object, 0, make([]byte, 100)); err == nil {
			return errors.New("READ followed a link")
		}
		if _, err := raw.Lookup(ctx, r.Object, "secret"); err == nil {
			return errors.New("LOOKUP followed a link")
		}
	}
	// Handles with a bit changed, cut, lengthened, or of nothing at all.
	valid := root.Bytes()
	bad := [][]byte{{}, make([]byte, 32), bytes.Repeat([]byte{0xff}, 64), valid[:len(valid)-1], append(bytes.Clone(valid), 0)}
	for i := range len(valid) * 8 {
		h := bytes.Clone(valid)
		h[i/8] ^= 1 << (i % 8)
		bad = append(bad, h)
	}
	for _, b := range bad {
		h, ok := nfs3.NewHandle(b)
		if !ok {
			continue // longer than version 3 has them
		}
		_, err := raw.GetAttr(ctx, h)
		var st nfs3.Status
		if err == nil || errors.As(err, &st) && !slices.Contains([]nfs3.Status{nfs3.ErrBadHandle, nfs3.ErrStale}, st) {
			return fmt.Errorf("a made-up handle %x: %v", b, err)
		}
	}
	fmt.Printf("%d made-up handles were refused", len(bad))
	return nil
}

// watcher counts connections.
type watcher struct{ conns atomic.Int64 }

func (w *watcher) Record(e obs.Event) {
	if e.Kind == obs.ConnUp {
		w.conns.Add(1)
	}
}

// inflightPart lets N callers use one connection at once.
func inflightPart(ctx context.Context, args []string) error {
	n, _ := strconv.Atoi(args[2])
	c, fs, err := mountRoot(ctx, args[0], args[1], rpc.WithCredits(128))
	if err != nil {
		return err
	}
	defer c.Close()
	raw, root := fs.Client(), fs.Root()
	h, err := raw.Lookup(ctx, root, "f.65539")
	if err != nil {
		return err
	}
	errs := make(chan error, n)
	for i := range n {
		go func() {
			buf := make([]byte, 16<<10)
			for k := range 6 {
				var err error
				if (i+k)%2 == 0 {
					_, err = raw.Read(ctx, h.Object, uint64(i%4)*16384, buf)
				} else {
					_, err = raw.GetAttr(ctx, h.Object)
				}
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			return err
		}
	}
	fmt.Printf("granted %d", c.Counters().Granted)
	return nil
}

// steadyPart writes and reads a file of its own for as long as it takes SECONDS, and fails at the first wrong byte.
func steadyPart(ctx context.Context, args []string) error {
	seconds, _ := strconv.Atoi(args[2])
	seen := &watcher{}
	c, fs, err := mountRoot(ctx, args[0], args[1], rpc.WithRecorder(seen), rpc.WithRetransmits(100), rpc.WithCallTimeout(2*time.Minute))
	if err != nil {
		return err
	}
	defer c.Close()
	dir, err := os.MkdirTemp("", "steady")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	begin, rounds := time.Now(), 0
	for ; time.Since(begin) < time.Duration(seconds)*time.Second; rounds++ {
		data := bytes.Repeat([]byte(fmt.Sprintf("round %d ", rounds)), 60000)
		local, back := filepath.Join(dir, "local"), filepath.Join(dir, "back")
		if err := os.WriteFile(local, data, 0o600); err != nil {
			return err
		}
		if err := fs.PutFile(ctx, local, "/steady", nfs.Transfer{}); err != nil {
			return fmt.Errorf("round %d: put: %w", rounds, err)
		}
		if _, err := fs.GetFile(ctx, "/steady", back, nfs.Transfer{}); err != nil {
			return fmt.Errorf("round %d: get: %w", rounds, err)
		}
		if err := exec.Command("cmp", local, back).Run(); err != nil {
			return fmt.Errorf("round %d: other content", rounds)
		}
		os.Remove(back)
		if rounds == 0 {
			fmt.Println("started")
		}
	}
	fmt.Printf("%d rounds in %.1f s over %d connections\n", rounds, time.Since(begin).Seconds(), seen.conns.Load())
	return nil
}
