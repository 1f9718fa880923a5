package extensions

import (
	"context"
	"log/slog"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// Describe loads one extension to learn what it declares, and ends it again. Neither what it needs nor what would clash
// with it is looked at.
func Describe(ctx context.Context, spec Spec, o Options) (ext.Declaration, error) {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	s := &slot{spec: spec}
	s.start(ctx, o)
	if s.plugin != nil {
		s.plugin.Close()
	}
	if s.err == nil {
		s.err = s.decl.Check()
	}
	return s.decl, s.err
}

// Make makes an extension that is compiled in, by its name: what a program serves as a plugin.
func Make(name string, options map[string]string) (ext.Extension, error) {
	return compiledIn(name, options)
}
