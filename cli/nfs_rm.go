package cli

import (
	"context"
	"errors"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

func newRm() *cobra.Command {
	var f nfsFlags
	var dir bool
	cmd := &cobra.Command{
		Use:   "rm URL/PATH",
		Short: "remove a file, or with --dir an empty directory",
		Args:  wantArgs("URL/PATH"),
		RunE: work(func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, args[0], func(ctx context.Context, m *mounted) error {
				if dir {
					return m.Rmdir(ctx, m.path)
				}
				n, err := m.Lstat(ctx, m.path)
				if err == nil && n.Attr.Type == nfs3.TypeDir {
					return &fs.PathError{Op: "rm", Path: m.path, Err: errors.New("is a directory; --dir removes one that is empty")}
				}
				return m.Remove(ctx, m.path)
			})
		}),
	}
	f.add(cmd)
	cmd.Flags().BoolVarP(&dir, "dir", "d", false, "remove an empty directory")
	return cmd
}
