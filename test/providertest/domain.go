package providertest

import (
	"errors"
	"runtime"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

var domainChecks = []check{
	{name: "Probe tells devices, and every option that Open takes has a help text", run: func(w *world) {
		info, err := w.p.Probe(w.ctx)
		if err != nil {
			w.Fatalf("Probe: %v", err)
		}
		if len(info.Devices) == 0 {
			w.Errorf("no devices, and no error")
		}
		for _, o := range info.Options {
			if o.Key == "" || o.Help == "" {
				w.Errorf("option %+v is not described", o)
			}
		}
	}},
	{name: "an unknown option is an OptionError with its key", run: func(w *world) {
		_, err := w.p.Open(w.ctx, w.o.Local, map[string]string{"no-such-option": "1"})
		var oe *verbs.OptionError
		if !errors.As(err, &oe) || oe.Key != "no-such-option" {
			w.Fatalf("Open: %v, want an OptionError with the key", err)
		}
	}},
	{name: "Caps are whole", run: func(w *world) {
		c := w.open().Caps()
		switch {
		case c.Queue <= 0, c.MaxMessage <= 0, c.MaxSegs <= 0, c.MaxReadSegs <= 0, c.PrivateDial < 0, c.PrivateAccept < 0, c.PrivateReject < 0, c.MaxReads < 0:
			w.Errorf("a limit is missing: %+v", c)
		case c.Keys != verbs.KeysRandom && c.Keys != verbs.KeysDevice:
			w.Errorf("Keys is %d", c.Keys)
		}
	}},
	{name: "Alloc gives zeroed memory that can be written", run: func(w *world) {
		d := w.open()
		for _, n := range []int{1, 4095, 1 << 20} {
			r := w.alloc(d, n)
			w.same("fresh memory", r.Bytes(), make([]byte, n))
			for i := range r.Bytes() {
				r.Bytes()[i] = 0xAA
			}
			r.Release()
		}
	}},
	{name: "Register of no memory is an error", run: func(w *world) {
		if _, err := w.open().Register(nil); err == nil {
			w.Errorf("Register(nil) succeeded")
		}
	}},
	{name: "Register keeps the memory in its place", run: func(w *world) {
		mem := pattern(1, 5000)
		r, err := w.open().Register(mem)
		if err != nil {
			w.Fatal(err)
		}
		if &r.Bytes()[0] != &mem[0] || len(r.Bytes()) != len(mem) {
			w.Errorf("Bytes is other memory")
		}
		r.Release()
	}},
	{name: "a second Release panics", run: func(w *world) {
		d := w.open()
		registered, err := d.Register(make([]byte, 10))
		if err != nil {
			w.Fatal(err)
		}
		for kind, r := range map[string]verbs.Region{"Alloc": w.alloc(d, 10), "Register": registered} {
			r.Release()
			func() {
				defer func() {
					if recover() == nil {
						w.Errorf("%s: the second Release did not panic", kind)
					}
				}()
				r.Release()
			}()
		}
	}},
	{name: "Release recycles the Region: Register allocates nothing in the steady state", run: func(w *world) {
		if raceEnabled {
			w.Skip("allocations are not counted under the race detector")
		}
		d := w.open()
		mem := make([]byte, 1<<16)
		n := testing.AllocsPerRun(200, func() {
			r, err := d.Register(mem)
			if err != nil {
				w.Fatal(err)
			}
			r.Release()
		})
		if n != 0 {
			w.Errorf("%v allocations per Register and Release", n)
		}
		runtime.KeepAlive(mem)
	}},
	{name: "after Close nothing is dialled or listened for", run: func(w *world) {
		d := w.open()
		if err := d.Close(); err != nil {
			w.Fatalf("Close: %v", err)
		}
		if _, err := d.Dial(w.ctx, "127.0.0.1:1", verbs.Options{Handler: &end{}}); err == nil {
			w.Errorf("Dial succeeded")
		}
		if _, err := d.Listen(w.ctx, w.o.Listen, verbs.ListenOptions{}); err == nil {
			w.Errorf("Listen succeeded")
		}
	}},
}
