package cli

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

func newMkdir() *cobra.Command {
	var f nfsFlags
	var mode string
	var parents bool
	cmd := &cobra.Command{
		Use:   "mkdir URL/PATH",
		Short: "make a directory",
		Args:  wantArgs("URL/PATH"),
		RunE: work(func(cmd *cobra.Command, args []string) error {
			perm, err := strconv.ParseUint(mode, 8, 32)
			if err != nil || perm > 0o777 {
				return usagef("--mode %s: want octal permissions, such as 755", mode)
			}
			return f.with(cmd, args[0], func(ctx context.Context, m *mounted) error {
				if !parents {
					return m.Mkdir(ctx, m.path, fs.FileMode(perm))
				}
				made := "/"
				for name := range strings.SplitSeq(strings.Trim(path.Clean(m.path), "/"), "/") {
					made = path.Join(made, name)
					if err := m.Mkdir(ctx, made, fs.FileMode(perm)); err != nil && !errors.Is(err, fs.ErrExist) {
						return err
					}
				}
				return nil
			})
		}),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&mode, "mode", "755", "permissions, octal")
	cmd.Flags().BoolVarP(&parents, "parents", "p", false, "make what is missing above it too; one that exists is fine")
	return cmd
}
