package cli

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rpcrdma/rpcrdma/cli/demo"
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/extensions"
	"github.com/rpcrdma/rpcrdma/extensions/sdk"
	"github.com/rpcrdma/rpcrdma/extensions/x/continuation"
	"github.com/rpcrdma/rpcrdma/extensions/x/hostauth"
	"github.com/rpcrdma/rpcrdma/extensions/x/keepalive"
	"github.com/rpcrdma/rpcrdma/props"
)

// The extensions that are compiled into the stock program. A program of one's own may register more before it calls
// Main.
func init() {
	extensions.Register(props.Name, props.Configured)
	extensions.Register(keepalive.Name, keepalive.Configured)
	extensions.Register("continuation", continuation.Configured)
	extensions.RegisterGate(hostauth.Name, hostauth.Configured)
}

// pluginPrefix begins the names of plugins' executables.
const pluginPrefix = "rpcrdma-ext-"

// servePlugin makes this process the plugin NAME where its executable is called rpcrdma-ext-NAME, and NAME is compiled in: one
// binary is enough for a program and its plugins.
func servePlugin() (served bool) {
	name, ok := strings.CutPrefix(filepath.Base(os.Args[0]), pluginPrefix)
	if name == demo.ExtensionName { // of no use elsewhere
		extensions.Register(name, demo.NewExtension)
	}
	if ok {
		sdk.Serve(func(options map[string]string) (ext.Extension, error) { return extensions.Make(name, options) })
	}
	return ok
}
