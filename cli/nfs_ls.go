package cli

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// nodeReport is one object as --json shows it.
type nodeReport struct {
	Name   string    `json:"name"`
	Type   string    `json:"type"`
	Mode   string    `json:"mode"`
	Links  uint32    `json:"links"`
	UID    uint32    `json:"uid"`
	GID    uint32    `json:"gid"`
	Size   uint64    `json:"size"`
	Used   uint64    `json:"used"`
	FileID uint64    `json:"fileid"`
	Handle string    `json:"handle,omitempty"`
	Atime  time.Time `json:"atime"`
	Mtime  time.Time `json:"mtime"`
	Ctime  time.Time `json:"ctime"`
	Target string    `json:"target,omitempty"` // of a symlink
}

func reportNode(name string, a *nfs3.Attr) nodeReport {
	return nodeReport{Name: name, Type: a.Type.String(), Mode: fmt.Sprintf("%04o", a.Mode&0o7777), Links: a.Nlink, UID: a.UID, GID: a.GID,
		Size: a.Size, Used: a.Used, FileID: a.FileID, Atime: a.Atime.Time().UTC(), Mtime: a.Mtime.Time().UTC(), Ctime: a.Ctime.Time().UTC()}
}

func newLs() *cobra.Command {
	var f nfsFlags
	var long, asJSON bool
	cmd := &cobra.Command{
		Use:     "ls URL/PATH",
		Short:   "list a directory",
		Example: `  rpcrdma nfs ls -l iwarp://server:20049/`,
		Args:    wantArgs("URL/PATH"),
		RunE: work(func(cmd *cobra.Command, args []string) error {
			return f.with(cmd, args[0], func(ctx context.Context, m *mounted) error {
				var entries []nfs3.Entry
				for e, err := range m.List(ctx, m.path) {
					if err != nil {
						return err
					}
					if e.Name != "." && e.Name != ".." {
						entries = append(entries, e)
					}
				}
				slices.SortFunc(entries, func(a, b nfs3.Entry) int { return strings.Compare(a.Name, b.Name) })
				if asJSON {
					reports := []nodeReport{}
					for _, e := range entries {
						reports = append(reports, reportNode(e.Name, &e.Attr.Attr))
					}
					return writeJSON(cmd.OutOrStdout(), reports)
				}
				return printEntries(cmd.OutOrStdout(), entries, long)
			})
		}),
	}
	f.add(cmd)
	cmd.Flags().BoolVarP(&long, "long", "l", false, "with mode, owner, size and time")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printEntries(w io.Writer, entries []nfs3.Entry, long bool) error {
	for _, e := range entries {
		var err error
		if a := &e.Attr.Attr; long {
			_, err = fmt.Fprintf(w, "%s %3d %6d %6d %12d %s %s\n", modeText(a.FileMode()), a.Nlink, a.UID, a.GID, a.Size,
				a.Mtime.Time().Format("2006-01-02 15:04"), printable(e.Name))
		} else {
			_, err = fmt.Fprintln(w, printable(e.Name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printable keeps a server's names from steering the terminal.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\ufffd' }) {
		return fmt.Sprintf("%q", name)
	}
	return name
}

// modeText is the mode as ls(1) prints it; fs has a capital L for links.
func modeText(m fs.FileMode) string {
	s := m.String()
	if m&fs.ModeSymlink != 0 {
		s = "l" + s[1:]
	}
	return s
}
