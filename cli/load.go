package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"

	"github.com/rpcrdma/rpcrdma/config"
	"github.com/rpcrdma/rpcrdma/extensions"
	"github.com/rpcrdma/rpcrdma/props"
)

// load loads what the configuration names. Plugins run until the result is closed.
func load(ctx context.Context, specs []extensions.Spec, errs io.Writer, verbose bool) (*extensions.Loaded, error) {
	l, err := extensions.Load(ctx, specs, extensions.Options{Log: newLog(errs, verbose)})
	if ctx.Err() != nil && err != nil {
		return nil, errInterrupted
	}
	return l, severalIn(err)
}

// withProps has the extension props in this process, even where the configuration runs it as a plugin or does without: its table
// is what is to be looked at.
func withProps(specs []extensions.Spec) []extensions.Spec {
	specs = slices.Clone(specs)
	i := slices.IndexFunc(specs, isProps)
	if i < 0 {
		return append(specs, extensions.Spec{Name: props.Name, Required: true})
	}
	specs[i] = extensions.Spec{Name: props.Name, Required: true, Options: specs[i].Options}
	return specs
}

func isProps(s extensions.Spec) bool { return s.Name == props.Name }

// newLog logs warnings, or with verbose all.
func newLog(errs io.Writer, verbose bool) *slog.Logger {
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(errs, &slog.HandlerOptions{Level: level}))
}

// severalError is several things that are wrong, for each of which there is a line.
type severalError struct {
	error
	each []error
}

// severalIn makes one of an error that joins others, or that is a file's.
func severalIn(err error) error {
	var file *config.Error
	if errors.As(err, &file) {
		e := severalError{error: err}
		for _, p := range file.Problems {
			e.each = append(e.each, errors.New(p.String()))
		}
		return e
	}
	if all := each(err); len(all) > 1 {
		return severalError{err, all}
	}
	return err
}

// each are the errors that err joins, or err.
func each(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}
