package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newExtensions() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "extensions",
		Short: "what version 2 is extended by: list, verify, new",
		Long: `Extensions are optional operations and properties of RPC-over-RDMA version 2: compiled in, or plugins
that the configuration file names. docs/extensions.md is about writing one.`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("extensions what? there are: list, verify, new")
		},
	}
	cmd.AddCommand(newExtensionsList(), newExtensionsVerify(), newExtensionsNew())
	return cmd
}
