package properties

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/extensions"
	"github.com/rpcrdma/rpcrdma/extensions/sdk"
	"github.com/rpcrdma/rpcrdma/props"
	"github.com/rpcrdma/rpcrdma/test/self"
)

// plugin is the name under which the test binary is the extension in a process of its own.
const plugin = "rpcrdma-ext-props"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == plugin {
		sdk.Serve(fromOptions)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func fromOptions(text map[string]string) (ext.Extension, error) {
	o, err := props.ParseOptions(text)
	if err != nil {
		return nil, err
	}
	return props.New(o), nil
}

func TestCompiledIn(t *testing.T) {
	Run(t, func(tb testing.TB, options map[string]string) ext.Extension {
		x, err := fromOptions(options)
		if err != nil {
			tb.Fatal(err)
		}
		return x
	})
}

func TestPlugin(t *testing.T) {
	path := self.As(t, plugin)
	digest, err := extensions.Digest(path)
	if err != nil {
		t.Fatal(err)
	}
	running := make(map[string]ext.Extension) // by its options: one process serves any number of connections
	Run(t, func(tb testing.TB, options map[string]string) ext.Extension {
		if x := running[fmt.Sprint(options)]; x != nil {
			return x
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		l, err := extensions.Load(ctx, []extensions.Spec{{
			Name: props.Name, Path: path, SHA256: digest, Required: true, Options: options, Timeout: time.Second,
		}}, extensions.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil)), StartTimeout: time.Minute})
		if err != nil {
			tb.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		x := l.Set().At(0)
		running[fmt.Sprint(options)] = x
		return x
	})
}
