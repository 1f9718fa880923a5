package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Main runs the command line of this process and returns its exit status. The first
// SIGINT, SIGTERM or SIGHUP (unless nohup(1) has it ignored) ends the work in an orderly way, a later
// one at once. timeout(1) and some shells send each twice, to the process and to its group: those
// count as one. Under the name rpcrdma-ext-NAME the process is the plugin NAME instead.
func Main() int {
	if servePlugin() {
		return exitOK
	}
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	defer stop()
	context.AfterFunc(ctx, func() {
		time.Sleep(500 * time.Millisecond)
		stop()
	})
	return Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// Run is Main with the process's surroundings given.
func Run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(in)
	answer := &output{w: out}
	root.SetOut(answer)
	root.SetErr(errs)
	cmd, err := root.ExecuteContextC(ctx)
	var done statusError
	var failed failedError
	var misused usageError
	var several severalError
	switch {
	case err == nil && answer.err != nil:
		fmt.Fprintln(errs, "rpcrdma: cannot write what was asked for:", answer.err)
		return exitFailed
	case err == nil:
		return exitOK
	case errors.As(err, &done):
		return int(done)
	case errors.As(err, &failed) && errors.As(err, &several):
		for _, err := range several.each {
			fmt.Fprintln(errs, "rpcrdma:", oneLine(err))
		}
		return exitFailed
	case errors.As(err, &failed):
		fmt.Fprintln(errs, "rpcrdma:", oneLine(failed.err))
		return exitFailed
	}
	hint := "; see " + cmd.CommandPath() + " --help"
	if errors.As(err, &misused) {
		hint = "" // it says itself what would do
	}
	fmt.Fprintf(errs, "rpcrdma: %s%s\n", oneLine(err), hint)
	return exitUsage
}

// newRoot is the command tree.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "rpcrdma",
		Short: "ONC RPC over RDMA: serve, use and look inside",
		Long: `rpcrdma carries ONC RPC over RDMA (RFC 8166 and its version 2), on fabrics in software or hardware.

Addresses are URLs whose scheme is the provider: iwarp://host:port. The query takes
?local=ADDR and the provider's options; rpcrdma providers -v lists them.`,
		Example: `  rpcrdma demo
  rpcrdma serve nfs --export /srv/data --listen iwarp://:20049
  rpcrdma ping iwarp://server:20049
  rpcrdma nfs get iwarp://server:20049/file ./file`,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		Args:              noArgs,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.Version = versionLine()
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelp())
	root.AddCommand(newVersion(), newProviders(), newPing(), newServe(), newNFS(), newDemo(), newDecode(), newEncode(), newBench(), newConfig(),
		newExtensions(), newProps())
	return root
}

// newHelp is help COMMAND, which is COMMAND --help.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "show what a command does, its flags and examples",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return fmt.Errorf("no command %q", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// flagError says of a value what would do, where pflag says which function of Go's library refused it.
func flagError(_ *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	if !errors.As(err, &value) {
		return err
	}
	want := map[string]string{"duration": "a time with its unit, such as 500ms or 30s", "int": "a whole number",
		"uint16": "a number from 0 to 65535", "uint32": "a number from 0 to 4294967295", "uint64": "a whole number, 0 or more"}
	flag := value.GetFlag()
	if w := want[flag.Value.Type()]; w != "" {
		return fmt.Errorf("--%s %s: want %s", flag.Name, value.GetValue(), w)
	}
	return err
}

// failedError is what went wrong while working, as against a command line that was not
// understood.
type failedError struct{ err error }

func (e failedError) Error() string { return e.err.Error() }
func (e failedError) Unwrap() error { return e.err }

// usageError is a command line that was not understood, found out only while working.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// statusError ends the program with a status; everything has been said.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// work makes f a cobra RunE: its errors are failures, not misuse.
func work(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd, args)
		var usage usageError
		var status statusError
		if err == nil || errors.As(err, &usage) || errors.As(err, &status) {
			return err
		}
		return failedError{err}
	}
}

// oneLine is an error's text on one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		return fmt.Errorf("no command %q; there are %s", args[0], strings.Join(commandNames(cmd), ", "))
	}
	return fmt.Errorf("unexpected argument %q", args[0])
}

// wantArgs takes the named arguments, those in brackets if they are there.
func wantArgs(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) && names[len(args)][0] != '[' {
			return fmt.Errorf("%s is missing", names[len(args)])
		}
		if len(args) > len(names) {
			return fmt.Errorf("unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

func commandNames(cmd *cobra.Command) (names []string) {
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" {
			names = append(names, c.Name())
		}
	}
	return names
}
