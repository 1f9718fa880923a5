package cli

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcrdma/rpcrdma/ulp/nfs"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

func newGet() *cobra.Command {
	var f nfsFlags
	var asJSON bool
	var t nfs.Transfer
	cmd := &cobra.Command{
		Use:   "get URL/PATH [LOCAL]",
		Short: "copy a file from the server",
		Long: `get copies a file to LOCAL, or to its own name in the working directory. It is written under
another name and gets its own when it is complete. When LOCAL is - it goes to standard
output, from the beginning, as it comes.`,
		Example: `  rpcrdma nfs get iwarp://server:20049/big.iso /tmp/
  rpcrdma nfs get iwarp://server:20049/src.tar.gz - | tar xz`,
		Args: wantArgs("URL/PATH", "[LOCAL]"),
		RunE: work(func(cmd *cobra.Command, args []string) error {
			toOutput := len(args) > 1 && args[1] == "-"
			if toOutput && asJSON {
				return usagef("--json and - both want standard output")
			}
			if err := checkTransfer(cmd, &t); err != nil {
				return err
			}
			return f.with(cmd, args[0], func(ctx context.Context, m *mounted) error {
				local := path.Base(m.path)
				if len(args) > 1 {
					local = args[1]
				}
				var end func()
				t.Progress, end = progress(cmd.ErrOrStderr(), path.Base(m.path))
				start := time.Now()
				var attr nfs3.Attr
				var err error
				if toOutput {
					attr, err = m.GetTo(ctx, m.path, cmd.OutOrStdout(), t)
				} else {
					attr, err = m.GetFile(ctx, m.path, local, t)
				}
				end()
				if err != nil {
					return err
				}
				return reportMove(cmd, m, asJSON, f.verbose, local, attr.Size, time.Since(start))
			})
		}),
	}
	f.add(cmd)
	transferFlags(cmd, &t)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print how it was moved, as JSON")
	return cmd
}

func transferFlags(cmd *cobra.Command, t *nfs.Transfer) {
	cmd.Flags().IntVar(&t.Window, "window", 8, "pieces in flight, 1 to 1024")
	cmd.Flags().IntVar(&t.Chunk, "chunk", 0, "bytes of a piece, 512 to 1048576 (default: what the server prefers)")
}

func checkTransfer(cmd *cobra.Command, t *nfs.Transfer) error {
	if t.Window < 1 || t.Window > 1024 {
		return usagef("--window %d: want 1 to 1024", t.Window)
	}
	if cmd.Flags().Changed("chunk") && (t.Chunk < 512 || t.Chunk > nfs3.MaxData) {
		return usagef("--chunk %d: want 512 to %d", t.Chunk, nfs3.MaxData)
	}
	return nil
}

// reportMove says what get or put did: nothing, unless asked.
func reportMove(cmd *cobra.Command, m *mounted, asJSON, verbose bool, local string, n uint64, took time.Duration) error {
	r := moved{Path: m.path, Local: local, Bytes: n, Seconds: took.Seconds(), Traffic: traffic(m.client)}
	if asJSON {
		return writeJSON(cmd.OutOrStdout(), r)
	}
	if verbose {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s in %.3f s, %s/s; %v\n", size(n), r.Seconds, size(uint64(float64(n)/max(r.Seconds, 1e-9))), r.Traffic)
	}
	return nil
}
