package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "measure a connection: run, serve",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return fmt.Errorf("bench what? there are: run, serve") },
	}
	cmd.AddCommand(newBenchRun(), newBenchServe())
	return cmd
}
