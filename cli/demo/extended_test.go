package demo

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/extensions"
	"github.com/rpcrdma/rpcrdma/props"
)

func init() {
	extensions.Register(props.Name, func(map[string]string) (ext.Extension, error) { return props.New(props.Options{}), nil })
	extensions.Register(ExtensionName, NewExtension)
}

// TestExtended runs both roles in one process over the loopback provider, with the extension compiled in: what is exchanged,
// asked and raised; and that each check can fail.
func TestExtended(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	carrier := extensions.Spec{Name: props.Name, Required: true}
	_, fromServer := startInProcess(t, serverConfig{Listen: "loopback://127.0.0.1:0", Inline: 4096, Credits: 16,
		Extensions: []extensions.Spec{carrier, {Name: ExtensionName, Required: true}}})
	var ready serverReady
	if err := fromServer.Decode(&ready); err != nil || ready.Extended == "" {
		t.Fatalf("%+v, %v", ready, err)
	}
	loaded, p, err := load(ctx, []extensions.Spec{carrier}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	e := extended{cfg: extendedConfig{URL: ready.Extended, Credits: 16}, loaded: loaded, props: p}
	if err := e.run(ctx, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	x := Extended{Client: e.result, Killed: 7, Next: 8, Restarts: 1} // nothing was killed here
	if x.judge(); !allHeld(x.Checks) {
		t.Errorf("%+v", x.Checks)
	}
	for name, spoil := range map[string]func(*Extended){
		"version 1":        func(x *Extended) { x.Client.Version = 1 },
		"server's missing": func(x *Extended) { x.Client.Server = x.Client.Server[1:] },
		"client's missing": func(x *Extended) { x.Client.Client = nil },
		"answers":          func(x *Extended) { x.Client.Asked = []asked{{"colour=5", "rejected"}} },
		"not raised":       func(x *Extended) { x.Client.After = 4096 },
		"raised at once":   func(x *Extended) { x.Client.Larger = []asked{{"rbsiz=65536", "done"}} },
		"a call failed":    func(x *Extended) { x.Client.Raise.Failed = 1 },
		"no calls":         func(x *Extended) { x.Client.Kill.Made = 0 },
		"still long":       func(x *Extended) { x.Client.Inline.Long = 1 },
		"the same process": func(x *Extended) { x.Next = x.Killed },
		"a failed call":    func(x *Extended) { x.Client.Kill.Failed = 1 },
		"no successor":     func(x *Extended) { x.Client.Again = nil },
	} {
		bad := Extended{Client: e.result, Killed: 7, Next: 8, Restarts: 1}
		spoil(&bad)
		bad.judge()
		held := slices.DeleteFunc(slices.Clone(bad.Checks), func(c Check) bool { return !c.OK })
		if len(held) != len(bad.Checks)-1 {
			t.Errorf("%s: %d of %d checks held", name, len(held), len(bad.Checks))
		}
	}
}

// What fails among many callers is counted, and told.
func TestUnderLoadFails(t *testing.T) {
	_, fromServer := startInProcess(t, serverConfig{Listen: "loopback://127.0.0.1:0", Inline: 4096, Credits: 16, Extensions: []extensions.Spec{{Name: props.Name}}})
	var ready serverReady
	if err := fromServer.Decode(&ready); err != nil {
		t.Fatal(err)
	}
	loaded, p, err := load(t.Context(), []extensions.Spec{{Name: props.Name}}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	e := extended{cfg: extendedConfig{URL: ready.Extended, Credits: 16}, loaded: loaded, props: p}
	c, err := e.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	lost := errors.New("lost")
	got, err := underLoad(t.Context(), c, 64, func() error {
		c.Close()
		return lost
	})
	if err != lost || got.Failed != manyCallers || got.First == "" {
		t.Errorf("%+v, %v", got, err)
	}
}
