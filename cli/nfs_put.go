package cli

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcrdma/rpcrdma/ulp/nfs"
)

func newPut() *cobra.Command {
	var f nfsFlags
	var asJSON bool
	var t nfs.Transfer
	cmd := &cobra.Command{
		Use:   "put URL/PATH LOCAL",
		Short: "copy a file to the server",
		Long: `put copies the file LOCAL to PATH, which may be a directory. It is written under another name
and gets its own, or replaces what has it, when it is complete and on the server's stable
storage. When it is interrupted or fails, nothing stays behind.`,
		Example: `  rpcrdma nfs put iwarp://server:20049/incoming/ big.iso`,
		Args:    wantArgs("URL/PATH", "LOCAL"),
		RunE: work(func(cmd *cobra.Command, args []string) error {
			local := args[1]
			if _, err := os.Stat(local); err != nil {
				return err
			}
			return f.with(cmd, args[0], func(ctx context.Context, m *mounted) error {
				var end func()
				var sent int64
				t.Progress, end = progress(cmd.ErrOrStderr(), filepath.Base(local))
				start := time.Now()
				err := m.PutFile(ctx, local, m.path, t)
				end()
				if err != nil {
					return err
				}
				if st, err := os.Stat(local); err == nil {
					sent = st.Size()
				}
				return reportMove(cmd, m, asJSON, f.verbose, local, uint64(sent), time.Since(start))
			})
		}),
	}
	f.add(cmd)
	transferFlags(cmd, &t)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print how it was moved, as JSON")
	return cmd
}
