package cli

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
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
storage. When it is interrupted or fails, nothing stays behind; of a server that does not come back
within half a minute, a file .rpcrdma-*.part may.

When LOCAL is - it is standard input, which is read to its end first; PATH is then the file's.`,
		Example: `  rpcrdma nfs put iwarp://server:20049/incoming/ big.iso
  tar cz src | rpcrdma nfs put iwarp://server:20049/incoming/src.tar.gz -`,
		Args: wantArgs("URL/PATH", "LOCAL"),
		RunE: work(func(cmd *cobra.Command, args []string) error {
			local := args[1]
			if err := checkTransfer(cmd, &t); err != nil {
				return err
			}
			var input *os.File
			if local == "-" {
				t, err := target(args[0])
				if err != nil {
					return err
				}
				if t.Path == "" || strings.HasSuffix(t.Path, "/") {
					return usagef("%s: standard input has no name: end PATH in the one that the file is to have", args[0])
				}
				if input, err = spool(cmd.Context(), cmd.InOrStdin()); err != nil {
					return err
				}
				defer input.Close()
			} else if _, err := os.Stat(local); err != nil {
				return err
			}
			return f.with(cmd, args[0], func(ctx context.Context, m *mounted) error {
				start := time.Now()
				sent, err := put(ctx, cmd, m, t, local, input)
				if err != nil {
					return err
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

// put sends input, or the file local if that is nil.
func put(ctx context.Context, cmd *cobra.Command, m *mounted, t nfs.Transfer, local string, input *os.File) (sent int64, err error) {
	var end func()
	t.Progress, end = progress(cmd.ErrOrStderr(), filepath.Base(local))
	defer end()
	if input == nil {
		if err := m.PutFile(ctx, local, m.path, t); err != nil {
			return 0, err
		}
		if st, err := os.Stat(local); err == nil {
			sent = st.Size()
		}
		return sent, nil
	}
	st, err := input.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), m.Put(ctx, input, st.Size(), m.path, t)
}

// spool reads all of r into a file without a name: what is sent may have to be sent again, when the
// server starts anew before it is on its disk. A read that waits for input for ever is left behind when ctx
// ends, and with it the program.
func spool(ctx context.Context, r io.Reader) (*os.File, error) {
	file, err := os.CreateTemp("", "rpcrdma-put-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		file.Close()
		return nil, err
	}
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(file, r)
		done <- err
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = errInterrupted
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
