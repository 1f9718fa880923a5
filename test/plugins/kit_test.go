package plugins_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/extensions"
	"github.com/rpcrdma/rpcrdma/extensions/kit"
	"github.com/rpcrdma/rpcrdma/props"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// TestFirstExtension: what the kit writes, built outside of the tree, runs on both ends of a connection over iWARP: the
// client learns the server's property, asks, and is answered; with the properties carried by compiled-in code and by
// a plugin. This needs what a plugin offers to be part of the first exchange.
func TestFirstExtension(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "first")
	if err := kit.Write(dir, "first", "../.."); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOPROXY=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	first := extensions.Spec{Name: "first", Timeout: time.Second, Path: filepath.Join(dir, "rpcrdma-ext-first"), Required: true, Options: map[string]string{"greeting": "good day"}}
	var err error
	if first.SHA256, err = extensions.Digest(first.Path); err != nil {
		t.Fatal(err)
	}
	for name, carrier := range map[string]extensions.Spec{
		"props compiled in": {Name: "props", Required: true},
		"props as a plugin": plugin(t, "props"),
	} {
		t.Run(name, func(t *testing.T) {
			var said, there wait.Log
			here, far := load(t, &said, carrier, first), load(t, &there, carrier, first)
			url := serve(t, "iwarp://127.0.0.1:0", rpc.WithExtensions(far.Set()))
			id := here.Set().Declared(1).Props[0].ID
			// A machine may be too busy for a plugin to offer in time; then the connection has it not, and another is made.
			for tries := 0; !said.Has("outcome=answered answer=\\\"GOOD DAY\\\""); tries++ {
				if tries == 20 {
					t.Fatalf("no greeting on any of %d connections:\n%s", tries, said.String())
				}
				c := dial(t, url, rpc.WithExtensions(here.Set()))
				in, out := make(blob, 64), make(blob, 0, 64)
				if err := c.Call(context.Background(), echo, &in, &out); err != nil {
					t.Fatal(err)
				}
				x, ok := here.Set().At(0).(*props.Extension)
				if !ok { // what it exchanged is not seen here
					for end := time.Now().Add(3 * time.Second); !said.Has("greeted") && time.Now().Before(end); time.Sleep(time.Millisecond) {
					}
					continue
				}
				conn := c.Conns()[0].ID()
				ctx, cancel := context.WithTimeout(context.Background(), longest)
				err := x.Wait(ctx, conn)
				cancel()
				ours, local := x.Local(conn)
				theirs, peer := x.Peer(conn)
				if err := errors.Join(err, local, peer); err != nil {
					t.Fatal(err)
				}
				mine, _ := ours.Get(id)
				its, _ := theirs.Get(id)
				switch {
				case its.Listed && !its.Fixed:
					t.Fatalf("the server's is %+v", its)
				case mine.Listed && its.Listed:
					wait.For(t, "a greeting", func() bool { return said.Has("greeted") })
				case mine.Listed && said.Has("greeted"):
					t.Fatalf("ours is %+v, the server's %+v, and the log says:\n%s", mine, its, said.String())
				}
			}
		})
	}
}
