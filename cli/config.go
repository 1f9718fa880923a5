package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rpcrdma/rpcrdma/config"
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/extensions"
)

func addConfig(flags *pflag.FlagSet, into *string) {
	flags.StringVar(into, "config", "", "configuration file (default $"+config.Environment+", else "+config.SystemFile+" if it is there)")
}

// loadConfig reads the file of that name, or else the one that counts.
func loadConfig(name string) (*config.Config, error) {
	c, err := config.Load(name)
	return c, severalIn(err)
}

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "look at a configuration file: check",
		Args:  noArgs,
		RunE:  func(*cobra.Command, []string) error { return fmt.Errorf("config what? there is: check") },
	}
	cmd.AddCommand(newConfigCheck())
	return cmd
}

func newConfigCheck() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "is a configuration file right, and what is then in force",
		Long: fmt.Sprintf(`check reads a configuration file as every verb does, and prints what is then in force, defaults
included; or each thing that is wrong with it, with its line. Without FILE it takes the one that
counts: $%s, else %s; without that there is none, and all is
default. Extensions that are compiled in are asked about their options. No plugin is started, nor its
digest compared: rpcrdma extensions verify does.`, config.Environment, config.SystemFile),
		Example: `  rpcrdma config check ./rpcrdma.hcl
  rpcrdma config check --json`,
		Args: wantArgs("[FILE]"),
		RunE: work(func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				if name = args[0]; name == "" {
					return usagef("FILE is empty")
				}
			}
			c, err := loadConfig(name)
			if err != nil {
				return err
			}
			if err := checkCompiledIn(cmd.Context(), c); err != nil {
				return err
			}
			r := reportConfig(c)
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), r)
			}
			r.print(cmd.OutOrStdout())
			return nil
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// checkCompiledIn tells of those extensions that are not there, do not take their options, need others that are not loaded, or may
// not be left out.
func checkCompiledIn(ctx context.Context, c *config.Config) error {
	var wrong []error
	bad := func(extension, attribute string, err error) {
		if p, ok := c.Problem(extension, attribute, err.Error()); ok {
			err = errors.New(p.String())
		}
		wrong = append(wrong, err)
	}
	for _, s := range c.Extensions {
		var d ext.Declaration
		if s.Path == "" {
			var err error
			d, err = extensions.Describe(ctx, s, extensions.Options{})
			wrong = append(wrong, err)
		}
		if err := extensions.CheckGate(s, d); err != nil {
			bad(s.Name, "required", err)
		}
		for _, need := range d.Needs {
			if !slices.ContainsFunc(c.Extensions, func(o extensions.Spec) bool { return o.Name == need }) {
				bad(s.Name, "", fmt.Errorf("extension %q needs the extension %q, which is not loaded: %s", s.Name, need, wayTo(need)))
			}
		}
	}
	return severalIn(errors.Join(wrong...))
}

// wayTo says how to have an extension loaded that is not.
func wayTo(extension string) string {
	if extension == config.PropsName {
		return "do not disable it"
	}
	return fmt.Sprintf("name it, too: extension %q { … }", extension)
}

// configReport is what is in force.
type configReport struct {
	File       string            `json:"file,omitempty"` // "": none
	Versions   []uint32          `json:"versions"`
	Inline     int               `json:"inline"`
	Credits    int               `json:"credits"`
	Extensions []extensionConfig `json:"extensions"`
	Metrics    string            `json:"metrics,omitempty"` // "": not exported
}

type extensionConfig struct {
	Name      string            `json:"name"`
	Path      string            `json:"path,omitempty"` // "": compiled in
	SHA256    string            `json:"sha256,omitempty"`
	TimeoutMS int64             `json:"timeout_ms,omitempty"` // 0: the default
	Required  bool              `json:"required"`
	Options   map[string]string `json:"options,omitempty"`
}

func reportConfig(c *config.Config) configReport {
	r := configReport{File: c.File, Inline: c.Protocol.Inline, Credits: c.Protocol.Credits, Metrics: c.Metrics.Listen, Extensions: []extensionConfig{}}
	for v := c.Protocol.MaxVersion; v >= c.Protocol.MinVersion; v-- {
		r.Versions = append(r.Versions, v)
	}
	for _, s := range c.Extensions {
		r.Extensions = append(r.Extensions, reportSpec(s))
	}
	return r
}

func reportSpec(s extensions.Spec) extensionConfig {
	return extensionConfig{s.Name, s.Path, s.SHA256, s.Timeout.Milliseconds(), s.Required, s.Options}
}

func (r configReport) print(w io.Writer) {
	if r.File != "" {
		fmt.Fprintf(w, "%s: ok\n", r.File)
	} else {
		fmt.Fprintln(w, "no configuration file; the defaults:")
	}
	versions := make([]string, len(r.Versions))
	for i, v := range r.Versions {
		versions[i] = fmt.Sprint(v)
	}
	fmt.Fprintf(w, "protocol    versions %s; inline %d; credits %d\n", strings.Join(versions, ", then "), r.Inline, r.Credits)
	for _, x := range r.Extensions {
		x.print(w)
	}
	if r.Metrics != "" {
		fmt.Fprintf(w, "metrics     listen %s\n", r.Metrics)
	}
}

func (x extensionConfig) print(w io.Writer) {
	where := "compiled in"
	if x.Path != "" {
		where = x.Path + " sha256 " + x.SHA256
	}
	if x.TimeoutMS != 0 {
		where += fmt.Sprintf("; timeout %d ms", x.TimeoutMS)
	}
	if !x.Required {
		where += "; not required"
	}
	for _, k := range slices.Sorted(maps.Keys(x.Options)) {
		where += fmt.Sprintf("; %s=%q", k, x.Options[k])
	}
	fmt.Fprintf(w, "extension   %-12s %s\n", x.Name, where)
}
