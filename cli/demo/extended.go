package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"time"

	"github.com/rpcrdma/rpcrdma/extensions"
)

// Extended is what was shown of extensions, between a server that runs one as a plugin and a client.
type Extended struct {
	Plugin   string         `json:"plugin"` // its name
	Killed   int            `json:"killed"` // its process that was killed
	Next     int            `json:"next"`   // the process that followed it
	Client   extendedResult `json:"client"`
	Restarts uint64         `json:"restarts"`
	Checks   []Check        `json:"checks"`
}

// copyPlugin makes the demo's plugin in dir: this program, under the name of one. A copy of our own cannot be changed by others,
// wherever this program lies.
func copyPlugin(self, dir string) (spec extensions.Spec, err error) {
	spec = extensions.Spec{Name: ExtensionName, Path: filepath.Join(dir, "rpcrdma-ext-"+ExtensionName), Required: true}
	from, err := os.Open(self)
	if err != nil {
		return spec, err
	}
	defer from.Close()
	to, err := os.OpenFile(spec.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return spec, err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return spec, err
	}
	spec.SHA256, err = extensions.Digest(spec.Path)
	return spec, err
}

// runExtended runs the client's process, and kills the server's plugin in the middle of its traffic.
func runExtended(ctx context.Context, o Options, srv *serverChild) (*Extended, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd, in, out, err := o.command(ctx, "extended")
	if err != nil {
		return nil, err
	}
	x := &Extended{Plugin: ExtensionName}
	got, err := x.lead(in, json.NewDecoder(out), srv, extendedConfig{URL: srv.extended, Extensions: o.Extensions, Credits: o.Credits})
	in.Close()
	ended := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, err
	case ended != nil:
		return nil, ended
	}
	x.Client = *got
	x.judge()
	return x, nil
}

// lead talks to the client's process.
func (x *Extended) lead(in io.Writer, lines *json.Decoder, srv *serverChild, cfg extendedConfig) (*extendedResult, error) {
	enc := json.NewEncoder(in)
	if err := enc.Encode(cfg); err != nil {
		return nil, err
	}
	for {
		var line extendedLine
		if err := lines.Decode(&line); err != nil {
			return nil, fmt.Errorf("the client's process ended without a result: %w", err)
		}
		switch {
		case line.Error != "":
			return nil, plainError("client", line.Error)
		case line.Result != nil:
			return line.Result, nil
		case line.Traffic:
			if err := x.kill(srv); err != nil {
				return nil, err
			}
			if err := enc.Encode(struct{}{}); err != nil {
				return nil, err
			}
		}
	}
}

// kill kills the plugin's process and waits for the next one.
func (x *Extended) kill(srv *serverChild) error {
	before, err := srv.state()
	if err != nil {
		return err
	}
	if x.Killed = before.Plugin.PID; x.Killed == 0 {
		return errors.New("the server's plugin has no process")
	}
	if err := syscall.Kill(x.Killed, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill the plugin: %w", err)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		now, err := srv.state()
		if err != nil {
			return err
		}
		x.Restarts = now.Plugin.Restarts - before.Plugin.Restarts
		if x.Next = now.Plugin.PID; x.Restarts > 0 && x.Next != 0 {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil // the checks say so
}

func (x *Extended) check(what string, ok bool, format string, args ...any) {
	x.Checks = append(x.Checks, newCheck(what, ok, format, args...))
}

// judge holds what came out against what was said.
func (x *Extended) judge() {
	c := &x.Client
	x.check("version 2 settled for the extensions", c.Version == 2, "version %d was", c.Version)
	want := []string{"rbsiz=4096", "brs=inline (default)", "colour=1", "depth=4", "pace=100"}
	x.check("the client has the server's properties, those of its plugin among them", containsAll(c.Server, want), "%q", c.Server)
	want = []string{"rbsiz=4096", "brs=none", "colour=1 (default)", "depth=1 (default)", "pace=1 (default)"}
	x.check("the server has the client's properties", containsAll(c.Client, want), "%q", c.Client)
	answers := []asked{{"colour=5", "done"}, {"depth=64", "16 instead"}, {"pace=1", "rejected"}}
	x.check("one REQPROP was satisfied in part", reflect.DeepEqual(c.Asked, answers), "%q", c.Asked)
	answers = []asked{{"rbsiz=65536", "4096 instead"}}
	x.check("an UPDPROP raised the server's receives, when that was true", reflect.DeepEqual(c.Larger, answers) && c.Before == extendedInline && c.After == raisedSize,
		"%q, then from %d to %d bytes", c.Larger, c.Before, c.After)
	x.check(fmt.Sprintf("no call of %d callers failed meanwhile", manyCallers), c.Raise.Failed == 0 && c.Raise.Made >= 2*manyCallers, "%d of %d: %s", c.Raise.Failed, c.Raise.Made, c.Raise.First)
	x.check("an echo of 16 KiB was a Long Call before, and inline in one Send after", c.Long.Long == 1 && c.Inline.Long == 0 && c.Inline.Inline == 2,
		"%d long before; %d long, %d inline after", c.Long.Long, c.Inline.Long, c.Inline.Inline)
	x.check("the plugin was killed with -9 and runs again as another process", x.Killed != 0 && x.Next != 0 && x.Next != x.Killed && x.Restarts == 1,
		"process %d, then %d, after %d restarts", x.Killed, x.Next, x.Restarts)
	x.check(fmt.Sprintf("no call of %d callers failed meanwhile", manyCallers), c.Kill.Failed == 0 && c.Kill.Made >= 2*manyCallers, "%d of %d: %s", c.Kill.Failed, c.Kill.Made, c.Kill.First)
	x.check("the plugin's next process answers on a new connection", reflect.DeepEqual(c.Again, []asked{{"colour=3", "done"}}), "%q", c.Again)
}

// containsAll: extensions of the configuration may have more.
func containsAll(all, want []string) bool {
	return !slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(all, w) })
}
