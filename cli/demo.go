package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcrdma/rpcrdma/cli/demo"
	"github.com/rpcrdma/rpcrdma/config"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

func newDemo() *cobra.Command {
	o := demo.Options{Spec: demo.Default}
	var asJSON, quick bool
	var configFile string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "serve, read and write a tree between two processes, and check everything",
		Long: `demo starts a server and a client, processes of their own, over software iWARP on the loopback
interface. The client lists a tree by NFS version 3, reads all of it through Write chunks (what
is too small for one comes inline) and writes it back through Read chunks; an echo program
beside NFS sends Long Calls and Long Replies. First RPC-over-RDMA version 2, then version 1.
Every file is compared by SHA-256 at the source, as the client received it, and as the server
stored it again; messages, bytes and credits are counted at both ends. Then a client exchanges
properties with the server, which runs an extension as a plugin: one request for changes is
satisfied in part, the server's receives are raised among 64 callers, and its plugin is killed among
64 callers. Exit status 0: all of it held.

Without --tree it makes one: 2000 files, 200 MiB, of all sizes at which something changes. Go's
source goes along once if there is a Go here.`,
		Args: noArgs,
		RunE: work(func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			o.Self, o.Errs = []string{self, "demo"}, cmd.ErrOrStderr()
			if !cmd.Flags().Changed("listen") && !linked(defaultFabric) {
				return usagef("the demo runs over %s, which is not linked into this program; name another provider by --listen: there are %s", defaultFabric, strings.Join(verbs.Schemes(), ", "))
			}
			if t, err := target(o.Listen); err != nil {
				return err
			} else if t.Scheme == "tcp" || t.Scheme == "loopback" {
				return usagef("--listen %s: the demo moves data by RDMA between two processes: want another provider, such as %s", o.Listen, demoListen)
			}
			if scheme, rest, _ := strings.Cut(o.Listen, "://"); strings.EqualFold(scheme, rpc.SchemeAny) {
				o.Listen = defaultFabric + "://" + rest
			}
			c, err := loadConfig(configFile)
			if err != nil {
				return err
			}
			o.Extensions = withProps(c.Extensions)
			o.Extensions[slices.IndexFunc(o.Extensions, isProps)].Options = nil // what it begins with is among the checks
			if !cmd.Flags().Changed("inline") {
				o.Inline = max(c.Protocol.Inline, config.MinInlineV2)
			}
			if !cmd.Flags().Changed("credits") {
				o.Credits = c.Protocol.Credits
			}
			switch {
			case quick:
				o.Spec = demo.Spec{Seed: o.Spec.Seed, Files: 400, Bytes: 24 << 20}
			case o.Tree == "" && o.Source == "":
				o.Source = goSource(cmd.Context())
			case o.Tree != "":
				if st, err := os.Stat(o.Tree); err != nil {
					return fmt.Errorf("--tree: %w", err)
				} else if !st.IsDir() {
					return fmt.Errorf("--tree: %s is no directory", o.Tree)
				}
			}
			var end func()
			o.Tell, end = steps(cmd.ErrOrStderr())
			r, err := demo.Run(cmd.Context(), o)
			end()
			switch {
			case cmd.Context().Err() != nil:
				return errInterrupted
			case err != nil:
				return err
			}
			return conclude(cmd.OutOrStdout(), r, asJSON)
		}),
	}
	addConfig(cmd.Flags(), &configFile)
	cmd.Flags().StringVar(&o.Tree, "tree", "", "move this directory instead of one that is made")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print everything that was counted and checked, as JSON")
	cmd.Flags().BoolVar(&quick, "quick", false, "a tree of 24 MiB and nothing else: some seconds")
	cmd.Flags().Uint64Var(&o.Spec.Seed, "seed", o.Spec.Seed, "make another tree")
	cmd.Flags().StringVar(&o.Listen, "listen", demoListen, "where the server listens; the provider's options go into the query")
	cmd.Flags().IntVar(&o.Inline, "inline", 4096, "bytes of the largest inline message")
	cmd.Flags().IntVar(&o.Credits, "credits", 64, "calls in flight on a connection")
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "leave the trees in the temporary directory")
	cmd.AddCommand(demoRole("server", func(cmd *cobra.Command) error {
		return demo.Server(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	}), demoRole("client", func(cmd *cobra.Command) error {
		return demo.Client(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	}), demoRole("extended", func(cmd *cobra.Command) error {
		return demo.ExtendedClient(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	}))
	return cmd
}

// conclude prints the report; that something did not hold is an error.
func conclude(w io.Writer, r *demo.Report, asJSON bool) error {
	if !asJSON {
		r.Print(w)
	} else if err := writeJSON(w, r); err != nil {
		return err
	}
	if !r.OK {
		return errors.New("the demo did not hold what it says; the lines marked FAILED tell what")
	}
	return nil
}

const demoListen = defaultFabric + "://127.0.0.1:0"

// demoRole is one of the demo's processes. Interrupts are the parent's business: it ends
// its children's input.
func demoRole(name string, run func(*cobra.Command) error) *cobra.Command {
	return &cobra.Command{Use: name, Hidden: true, Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		cmd.SetContext(context.WithoutCancel(cmd.Context()))
		if run(cmd) != nil {
			return statusError(exitFailed) // the parent was told in its own way
		}
		return nil
	}}
}

// goSource is Go's own source tree, "" if there is none.
func goSource(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return ""
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "src")
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return ""
	}
	return dir
}

// steps shows what is being done, on a terminal and nowhere else.
func steps(w io.Writer) (tell func(step string, done, total int64), end func()) {
	if !terminal(w) {
		return nil, func() {}
	}
	return func(step string, done, total int64) {
			percent := ""
			if total > 0 {
				percent = fmt.Sprintf(" %3.0f%%", 100*float64(done)/float64(total))
			}
			fmt.Fprintf(w, "\r\x1b[K%s%s", step, percent)
		}, func() {
			fmt.Fprint(w, "\r\x1b[K")
		}
}
