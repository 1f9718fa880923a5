package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

func newStat() *cobra.Command {
	var f nfsFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stat URL/PATH",
		Short: "show the attributes of a file; a symlink is shown itself",
		Args:  wantArgs("URL/PATH"),
		RunE: work(func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, args[0], func(ctx context.Context, m *mounted) error {
				n, err := m.Lstat(ctx, m.path)
				if err != nil {
					return err
				}
				r := reportNode(m.path, &n.Attr)
				r.Handle = fmt.Sprintf("%x", n.Handle.Bytes())
				if n.Attr.Type == nfs3.TypeLnk {
					if r.Target, err = m.Client().ReadLink(ctx, n.Handle); err != nil {
						return err
					}
				}
				if asJSON {
					return writeJSON(cmd.OutOrStdout(), r)
				}
				w := cmd.OutOrStdout()
				fmt.Fprintf(w, "  path: %s\n  type: %s\n", printable(r.Name), r.Type)
				if r.Target != "" {
					fmt.Fprintf(w, "target: %s\n", printable(r.Target))
				}
				fmt.Fprintf(w, "  mode: %s  links: %d  uid: %d  gid: %d\n  size: %d  used: %d  fileid: %d\nhandle: %s\n",
					r.Mode, r.Links, r.UID, r.GID, r.Size, r.Used, r.FileID, r.Handle)
				for _, t := range []struct {
					name string
					at   time.Time
				}{{"access", r.Atime}, {"modify", r.Mtime}, {"change", r.Ctime}} {
					fmt.Fprintf(w, "%s: %s\n", t.name, t.at.Format(time.RFC3339Nano))
				}
				return nil
			})
		}),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
