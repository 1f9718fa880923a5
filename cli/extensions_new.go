package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rpcrdma/rpcrdma/extensions/kit"
)

// built is the source tree that make build ran in, put in by the linker; paths of source files are trimmed then.
var built string

func newExtensionsNew() *cobra.Command {
	var source string
	cmd := &cobra.Command{
		Use:   "new NAME [DIR]",
		Short: "write the beginning of an extension of one's own",
		Long: `new writes a Go module with a plugin that works, under 80 lines, and its test: an experimental property and
an operation that greets the peer. DIR is made, or is empty; without it it is called NAME.

The module needs the version of rpcrdma that this program is. A program that was built from a source tree
takes it from there, by a replace in go.mod, and says so; --source names another tree.`,
		Example: `  rpcrdma extensions new hello
  cd hello && go test ./... && go build && rpcrdma extensions verify ./rpcrdma-ext-hello`,
		Args: wantArgs("NAME", "[DIR]"),
		RunE: work(func(cmd *cobra.Command, args []string) error {
			name := args[0]
			dir := name
			if len(args) > 1 {
				dir = args[1]
			}
			if !cmd.Flags().Changed("source") {
				source = sourceTree()
			}
			if err := kit.Write(dir, name, source); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "%s has the extension %s: main.go, its test, go.mod and a README.\n", dir, name)
			if source != "" {
				fmt.Fprintf(out, "Its go.mod takes rpcrdma from the source tree that this program was built from: %s\n", source)
			}
			_, err := fmt.Fprintf(out, "Next:\n  cd %s\n  %sgo test ./... && go build\n  rpcrdma extensions verify ./%s%s\n", dir, tidyFirst(source), pluginPrefix, name)
			return err
		}),
	}
	cmd.Flags().StringVar(&source, "source", "", "source tree of rpcrdma that the module takes it from (default: where this program was built, if it is there)")
	return cmd
}

// tidyFirst: a released version's checksums are fetched; those of a source tree come along.
func tidyFirst(source string) string {
	if source == "" {
		return "go mod tidy && "
	}
	return ""
}

// sourceTree is the tree that this program was built from, if it is on this machine; "" for a released version, and if it is not
// known.
func sourceTree() string {
	root := built
	if root == "" {
		if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
			root = filepath.Dir(filepath.Dir(file))
		}
	}
	if root == "" || strings.Contains(filepath.Base(root), "@") { // in the module cache: a released version
		return ""
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return ""
	}
	return root
}
