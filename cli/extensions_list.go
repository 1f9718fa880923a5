package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/rpcrdma/rpcrdma/config"
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/extensions"
)

func newExtensionsList() *cobra.Command {
	var configFile string
	var verbose, asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "which extensions there are, and which are loaded",
		Long: `list shows the extensions that are compiled in and those that the configuration names, with their
operations and properties. Plugins are started to be asked, and ended. LOADED says whether verbs that
connect or listen load it.`,
		Example: `  rpcrdma extensions list
  rpcrdma extensions list -v --config ./rpcrdma.hcl`,
		Args: noArgs,
		RunE: work(func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(configFile)
			if err != nil {
				return err
			}
			all := describeAll(cmd.Context(), append(c.Extensions, unnamed(c.Extensions)...), extensions.Options{Log: newLog(cmd.ErrOrStderr(), false)})
			if cmd.Context().Err() != nil {
				return errInterrupted
			}
			reports := make([]extensionReport, len(all))
			for i, d := range all {
				reports[i] = d.report(i < len(c.Extensions))
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), reports)
			}
			return printExtensions(cmd.OutOrStdout(), reports, verbose)
		}),
	}
	addConfig(cmd.Flags(), &configFile)
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "a block for each, with all that it declares")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// unnamed are the extensions that are compiled in and not in specs.
func unnamed(specs []extensions.Spec) (more []extensions.Spec) {
	for _, name := range extensions.Registered() {
		if !slices.ContainsFunc(specs, func(s extensions.Spec) bool { return s.Name == name }) {
			more = append(more, extensions.Spec{Name: name})
		}
	}
	return more
}

// described is an extension and what it declares, or why that is not known.
type described struct {
	spec extensions.Spec
	decl ext.Declaration
	err  error
}

// describeAll asks all of them at the same time.
func describeAll(ctx context.Context, specs []extensions.Spec, o extensions.Options) []described {
	all := make([]described, len(specs))
	var wg sync.WaitGroup
	for i, s := range specs {
		wg.Go(func() {
			d, err := extensions.Describe(ctx, s, o)
			all[i] = described{s, d, err}
		})
	}
	wg.Wait()
	return all
}

func (d *described) report(configured bool) extensionReport {
	r := extensionReport{Name: d.spec.Name, Path: d.spec.Path, SHA256: d.spec.SHA256, Configured: configured}
	if d.err != nil {
		err := d.err
		if e := (*extensions.Error)(nil); errors.As(err, &e) {
			err = e.Err // whose it is, the line says
		}
		r.Error = oneLine(err)
		return r
	}
	r.declared(&d.decl)
	return r
}

// Declare and Connect make it an ext.Extension, for ext.NewSet to look at.
func (d *described) Declare() ext.Declaration { return d.decl }

func (d *described) Connect(ext.Conn) ext.Session { return nil }

func newExtensionsVerify() *cobra.Command {
	var configFile, name string
	cmd := &cobra.Command{
		Use:   "verify [NAME|PATH]",
		Short: "start plugins, and check digests, declarations and clashes",
		Long: `verify loads every extension that the configuration names, as a verb that connects or listens would, and
ends it again: plugins are started, digests compared, declarations checked, each by itself and
against the others. With NAME it says nothing of the others.

With PATH, which has a / in it, it looks at an executable that the configuration need not name, and prints
the block to put there. The extension's name is taken from rpcrdma-ext-NAME, or --name says it.

Exit status 1: something is wrong.`,
		Example: `  rpcrdma extensions verify
  rpcrdma extensions verify --config ./rpcrdma.hcl acme
  rpcrdma extensions verify ./rpcrdma-ext-acme`,
		Args: wantArgs("[NAME|PATH]"),
		RunE: work(func(cmd *cobra.Command, args []string) error {
			c, err := loadConfig(configFile)
			if err != nil {
				return err
			}
			v := verifier{cmd: cmd, specs: c.Extensions}
			switch {
			case len(args) == 0 && name != "":
				return usagef("--name goes with a PATH")
			case len(args) == 0:
				return v.all()
			case strings.Contains(args[0], "/"):
				return v.path(args[0], name)
			case name != "":
				return usagef("--name goes with a PATH, which has a / in it: ./%s?", args[0])
			}
			return v.named(args[0])
		}),
	}
	addConfig(cmd.Flags(), &configFile)
	cmd.Flags().StringVar(&name, "name", "", "the name of the extension at PATH (default: what follows rpcrdma-ext-)")
	return cmd
}

// verifier is one run of verify.
type verifier struct {
	cmd   *cobra.Command
	specs []extensions.Spec // the configuration's
}

func (v *verifier) describe(specs []extensions.Spec) ([]described, error) {
	all := describeAll(v.cmd.Context(), specs, extensions.Options{Log: newLog(v.cmd.ErrOrStderr(), false)})
	if v.cmd.Context().Err() != nil {
		return nil, errInterrupted
	}
	return all, nil
}

// all verifies what the configuration names.
func (v *verifier) all() error {
	all, err := v.describe(v.specs)
	if err != nil {
		return err
	}
	var wrong []error
	var fine []ext.Extension
	for i := range all {
		if all[i].err != nil {
			wrong = append(wrong, all[i].err)
		} else {
			fine = append(fine, &all[i])
		}
	}
	if _, err := ext.NewSet(fine...); err != nil && len(wrong) == 0 {
		wrong = append(wrong, err)
	}
	if err := errors.Join(wrong...); err != nil {
		return severalIn(err)
	}
	for i := range all {
		v.say(&all[i])
	}
	return nil
}

// named verifies one of them.
func (v *verifier) named(name string) error {
	if i := slices.IndexFunc(v.specs, func(s extensions.Spec) bool { return s.Name == name }); i >= 0 {
		return v.one(v.specs[i])
	}
	if slices.Contains(extensions.Registered(), name) {
		return v.one(extensions.Spec{Name: name})
	}
	return fmt.Errorf("no extension %q: neither does the configuration name one nor is it compiled in; a PATH has a / in it", name)
}

// path verifies an executable, and says how to name it in the configuration.
func (v *verifier) path(path, name string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if name == "" {
		base, ok := strings.CutPrefix(filepath.Base(path), pluginPrefix)
		if !ok {
			return usagef("%s: the name of the extension cannot be told from this file's, which is not rpcrdma-ext-NAME: say it with --name", path)
		}
		name = base
	}
	sum, err := extensions.Digest(path)
	if err != nil {
		return err
	}
	if err := v.one(extensions.Spec{Name: name, Path: path, SHA256: sum, Required: true}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(v.cmd.OutOrStdout(), "\nextension %q {\n  path   = %s\n  sha256 = %q\n}\n", name, config.Quote(path), sum)
	return err
}

// one verifies an extension beside the others that the configuration names, as far as they can be loaded.
func (v *verifier) one(spec extensions.Spec) error {
	specs := []extensions.Spec{spec}
	for _, s := range v.specs {
		if s.Name != spec.Name {
			specs = append(specs, s)
		}
	}
	all, err := v.describe(specs)
	if err != nil {
		return err
	}
	d := &all[0]
	if d.err != nil {
		return d.err
	}
	if err := extensions.CheckGate(d.spec, d.decl); err != nil {
		return err
	}
	set := []ext.Extension{d}
	for i := range all[1:] {
		if all[1+i].err == nil {
			set = append(set, &all[1+i])
		}
	}
	if _, err := ext.NewSet(set...); err != nil {
		var wrong []error
		for _, err := range each(err) {
			if concerns(err, spec.Name) {
				wrong = append(wrong, err)
			}
		}
		if len(wrong) > 0 {
			return severalError{err, wrong}
		}
	}
	v.say(d)
	return nil
}

// concerns tells whether an error of ext.NewSet's is about the extension of that name.
func concerns(err error, name string) bool {
	var clash *ext.ClashError
	var bad *ext.DeclareError
	return errors.As(err, &clash) && (clash.A == name || clash.B == name) || errors.As(err, &bad) && bad.Name == name
}

// say tells of an extension that is as it should be, and what a user might overlook.
func (v *verifier) say(d *described) {
	out := v.cmd.OutOrStdout()
	where := "compiled in"
	if d.spec.Path != "" {
		where = d.spec.Path
	}
	fmt.Fprintf(out, "%s: ok: version %s, class %s, %s, %s; %s\n", d.spec.Name, d.decl.Version, d.decl.Class,
		count(len(d.decl.Ops), "operation"), plural(len(d.decl.Props), "property", "properties"), where)
	carried := slices.ContainsFunc(v.specs, isProps)
	if len(d.decl.Props) > 0 && !d.decl.Carrier && !carried {
		fmt.Fprintln(out, "  note: nobody exchanges its properties: the configuration disables props")
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
