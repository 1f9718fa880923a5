package providertest

import (
	"context"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// Options tell the suite what it cannot find out by itself.
type Options struct {
	Local   string            // Open's local
	Listen  string            // an address to listen on; "": 127.0.0.1:0
	Listen6 string            // the same for IPv6; "": no check with IPv6
	Domain  map[string]string // Open's options, for every domain

	// SmallBuffers are further options that make the fabric's own buffers as small as they get
	// (iwarp: sndbuf and rcvbuf of 4096). nil: as Domain.
	SmallBuffers map[string]string
	// ShortSetup are further options that cut the set-up time-out to a second or less.
	// nil: what depends on it is skipped.
	ShortSetup map[string]string
	// Stall makes half-done set-ups towards addr, as a hostile or dying peer leaves them; stop ends
	// them. nil: only what can be made through the contract is checked.
	Stall func(t *testing.T, addr string) (stop func())
	// Skip names checks ("group/check", spaces as they are) that do not hold, and why.
	Skip map[string]string
	// Hang is how long a check waits for what must happen; 0: a minute, since a machine may be busy.
	Hang time.Duration
}

// check is one sentence of the contract.
type check struct {
	name  string
	needs func(c verbs.Caps, o *Options) string // a reason to skip, or ""; nil: none
	run   func(w *world)
}

type group struct {
	name   string
	checks []check
}

var groups = []group{
	{"domain", domainChecks},
	{"set-up", setupChecks},
	{"private", privateChecks},
	{"admit", admitChecks},
	{"into", intoChecks},
	{"messages", messageChecks},
	{"tap", tapChecks},
	{"memory", memoryChecks},
	{"model", modelChecks},
	{"access", accessChecks},
	{"queue", queueChecks},
	{"end", endChecks},
	{"pool", poolChecks},
	{"detach", detachChecks},
	{"drive", driveChecks},
	{"load", loadChecks},
}

// Run checks the provider that open returns. o is one Options at most.
func Run(t *testing.T, provider func(t *testing.T) verbs.Provider, o ...Options) {
	var opt Options
	if len(o) > 0 {
		opt = o[0]
	}
	if opt.Listen == "" {
		opt.Listen = "127.0.0.1:0"
	}
	if opt.Hang == 0 {
		opt.Hang = time.Minute
	}
	p := provider(t)
	if _, err := p.Probe(context.Background()); err != nil {
		t.Skipf("%s cannot run here: %v", p.Name(), err)
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.checks {
				t.Run(c.name, func(t *testing.T) {
					if why, ok := opt.Skip[g.name+"/"+c.name]; ok {
						t.Skip(why)
					}
					w := newWorld(t, provider(t), &opt)
					if c.needs != nil {
						if why := c.needs(w.caps(), &opt); why != "" {
							t.Skip(why)
						}
					}
					c.run(w)
				})
			}
		})
	}
}

func needs(why string, ok func(c verbs.Caps) bool) func(verbs.Caps, *Options) string {
	return func(c verbs.Caps, _ *Options) string {
		if ok(c) {
			return ""
		}
		return "Caps: " + why
	}
}

var needsReads = needs("the provider has no RDMA Read", func(c verbs.Caps) bool { return c.MaxReads > 0 })
