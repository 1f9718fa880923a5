package peers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/test/bench/load"
)

// TestEveryPeerMovesWhatItIsAsked runs each stack within this process: every operation,
// around the sizes where stacks change their ways, one and several callers.
func TestEveryPeerMovesWhatItIsAsked(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Find(name)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			addr := "-"
			if s.Serve != nil {
				if addr, err = s.Serve(); err != nil {
					t.Fatal(err)
				}
			}
			p := s.Client()
			if err := p.Connect(ctx, addr); err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			for _, op := range []load.Op{load.Echo, load.Read, load.Write} {
				for _, n := range []int{0, 1, 64, 1000, 4096, 32 << 10, 1 << 20} {
					if op == load.Echo && n > 32<<10 {
						continue
					}
					if err := p.Do(ctx, op, 0, n); err != nil {
						t.Errorf("%s of %d bytes: %v", op, n, err)
					}
				}
				if s.Callers == 1 {
					continue
				}
				if r := load.Drive(p, load.Run{Op: op, N: 16 << 10, Callers: 8, MS: 30}); r.Error != "" || r.Ops == 0 {
					t.Errorf("%s by 8 callers: %+v", op, r)
				}
			}
		})
	}
}

func TestNamesWithOptions(t *testing.T) {
	for _, good := range []string{"iwarp?crc=false&inline=16384&conns=3", "loopback?segment=4096&payload=65536&version=1&credits=5"} {
		s, err := Find(good)
		if err != nil {
			t.Fatal(err)
		}
		addr := "-"
		if s.Serve != nil {
			if addr, err = s.Serve(); err != nil {
				t.Fatal(err)
			}
		}
		p := s.Client()
		if err := p.Connect(t.Context(), addr); err != nil {
			t.Fatal(err)
		}
		if r := load.Drive(p, load.Run{Op: load.Read, N: 64 << 10, Callers: 4, MS: 20}); r.Error != "" {
			t.Errorf("%s: %s", good, r.Error)
		}
		if err := p.(load.Idler).Idle(t.Context(), 5); err != nil {
			t.Errorf("%s: %v", good, err)
		}
		p.Close()
	}
	for _, bad := range []string{"tcp?x=1", "iwarp?inline=much", "iwarp?conns=0"} {
		if _, err := Find(bad); err == nil {
			t.Errorf("%s was found", bad)
		}
	}
}

func TestFindNamesThePeersThereAre(t *testing.T) {
	if _, err := Find("nosuch"); err == nil || err.Error() == "" {
		t.Error("an unknown peer was found")
	} else if want := fmt.Sprintf("no peer %q", "nosuch"); err.Error()[:len(want)] != want {
		t.Errorf("error %q", err)
	}
}
