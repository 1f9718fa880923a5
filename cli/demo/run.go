package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rpcrdma/rpcrdma/extensions"
)

// Options of a run.
type Options struct {
	// Self is the command line that runs this program as "server" or "client", which is put behind it.
	Self []string
	// Listen is where the server listens: a provider's URL with port 0.
	Listen string
	// Tree is the directory to move; "": one made by Spec.
	Tree string
	Spec Spec
	// Source is a second tree, moved once, by the highest version; "": none.
	Source string
	// Keep leaves what was made in the temporary directory.
	Keep            bool
	Inline, Credits int
	// Extensions are loaded by both processes: the one that exchanges properties, and what else there is to try.
	Extensions []extensions.Spec
	// Tell shows progress; nil: nobody looks.
	Tell func(step string, done, total int64)
	Errs io.Writer
}

// plan is a pass to make.
type plan struct {
	name, tree string
	want       uint32 // the version that must be settled
	min, max   uint32
	echo       bool
	inline     int
}

// Run makes the passes. The error is what kept it from finishing; whether all was as said is in the
// report's checks.
func Run(ctx context.Context, o Options) (*Report, error) {
	tmp, err := os.MkdirTemp("", "rpcrdma-demo-")
	if err != nil {
		return nil, err
	}
	if !o.Keep {
		defer os.RemoveAll(tmp)
	}
	if o.Tell == nil {
		o.Tell = func(string, int64, int64) {}
	}
	r := &Report{Listen: o.Listen, Seed: o.Spec.Seed, Tree: o.Tree}
	if o.Keep {
		r.Kept = tmp
	}
	start := time.Now()
	store := filepath.Join(tmp, "store")
	if err := os.Mkdir(store, 0o755); err != nil {
		return nil, err
	}
	tree := o.Tree
	if tree == "" {
		o.Tell("make the tree", 0, 0)
		tree = filepath.Join(tmp, "tree")
		if err := errors.Join(os.Mkdir(tree, 0o755), o.Spec.Make(tree)); err != nil {
			return nil, fmt.Errorf("make the tree: %w", err)
		}
	} else if st, err := os.Stat(tree); err != nil {
		return nil, err
	} else if !st.IsDir() {
		return nil, fmt.Errorf("%s is no directory", tree)
	}
	trees := []string{tree}
	plans := []plan{{name: "tree", tree: tree, want: 2, min: 1, max: 2, echo: true}}
	if o.Source != "" {
		trees = append(trees, o.Source)
		plans = append(plans, plan{name: "Go's source", tree: o.Source, want: 2, min: 1, max: 2})
	}
	plans = append(plans, plan{name: "tree", tree: tree, want: 1, min: 1, max: 1, echo: true})
	sums := map[string]Digest{}
	for _, t := range trees {
		o.Tell("digest the source", 0, 0)
		if sums[t], err = digestDir(ctx, t, nil); err != nil {
			return nil, fmt.Errorf("digest %s: %w", t, err)
		}
	}
	plugin, err := copyPlugin(o.Self[0], tmp)
	if err != nil {
		return nil, fmt.Errorf("make the plugin: %w", err)
	}
	srv, err := startServer(ctx, o, store, trees, plugin)
	if err != nil {
		return nil, err
	}
	for i, p := range plans {
		p.inline = o.Inline
		pr, err := runPass(ctx, o, srv, p, store, fmt.Sprintf("back%d", i), sums[p.tree], srv.urls[1+index(trees, p.tree)])
		if err != nil {
			srv.stop()
			return r, fmt.Errorf("version %d, %s: %w", p.want, p.name, err)
		}
		r.Passes = append(r.Passes, *pr)
	}
	o.Tell("properties and a plugin", 0, 0)
	if r.Extended, err = runExtended(ctx, o, srv); err != nil {
		srv.stop()
		return r, fmt.Errorf("extensions: %w", err)
	}
	err = srv.stop()
	r.Seconds = time.Since(start).Seconds()
	r.OK = err == nil
	r.OK = r.OK && allHeld(r.Extended.Checks)
	for _, p := range r.Passes {
		r.OK = r.OK && allHeld(p.Checks)
	}
	return r, err
}

func index(list []string, s string) int {
	for i := range list {
		if list[i] == s {
			return i
		}
	}
	return -1
}

// runPass runs one client's process, then looks at what the server stored, and judges.
func runPass(ctx context.Context, o Options, srv *serverChild, p plan, store, back string, source Digest, from string) (*Pass, error) {
	before, err := srv.counters()
	if err != nil {
		return nil, err
	}
	label := fmt.Sprintf("version %d, %s", p.want, p.name)
	got, err := runClient(ctx, o, clientConfig{From: from, To: srv.urls[0], Back: back, Min: p.min, Max: p.max, Echo: p.echo, Inline: o.Inline, Credits: o.Credits, Extensions: o.Extensions},
		func(step string, done, total int64) { o.Tell(label+": "+step, done, total) })
	if err != nil {
		return nil, err
	}
	after, err := srv.counters()
	if err != nil {
		return nil, err
	}
	o.Tell(label+": digest what the server stored", 0, 0)
	// It stays until the end: after thousands of removals ext4 is slow to make files for seconds.
	stored, err := digestDir(ctx, filepath.Join(store, back), nil)
	if err != nil {
		return nil, err
	}
	server := minus(after, before)
	pr := &Pass{Name: p.name, Version: got.Version, Files: source.Files("file"), Links: source.Files("link"), Dirs: source.Files("dir"),
		Bytes: source.Bytes(), Credits: got.Credits, Client: Counters(got.Counters), Server: Counters(server), Echoes: got.Echoes,
		ListSeconds: got.List.Seconds(), ReadSeconds: got.Read.Seconds(), WriteSeconds: got.Write.Seconds()}
	pr.judge(p, source, got.Received, stored)
	return pr, nil
}

// command is this program again, as a child that does not outlive us.
func (o Options) command(ctx context.Context, role string) (*exec.Cmd, io.WriteCloser, io.ReadCloser, error) {
	argv := append(append([]string(nil), o.Self...), role)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr = o.Errs
	cmd.SysProcAttr = dieWithParent()
	cmd.WaitDelay = 2 * time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, nil, err
	}
	return cmd, in, out, cmd.Start()
}

// why prefers the end of the context to what it caused.
func why(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// plainError is what a child said of its failure.
func plainError(role, said string) error {
	return errors.New(role + ": " + strings.TrimPrefix(said, role+": "))
}
