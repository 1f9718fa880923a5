package props

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// TestBothViews: whatever the two sides offer, ask and answer, in whatever order things happen, in the end each knows
// what the other has in force; every request is settled once; and nobody sends more than the other's receives hold.
func TestBothViews(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		options := func(who string) (o Options) {
			o.Optional = rapid.Bool().Draw(rt, who+" optional")
			o.ReceiveSize = rapid.SampledFrom([]int{0, 4096, 20000, 1 << 18}).Draw(rt, who+" size")
			if rapid.Bool().Draw(rt, who+" has a level") {
				l := rapid.SampledFrom([]ext.BackwardLevel{0, 1, 2}).Draw(rt, who+" level")
				o.Backward = &l
			}
			return o
		}
		p, ae, be := newPair(t, options("client"), options("server"))
		defer p.close(nil)
		p.wait = false
		holds := [2]int{4096, 4096} // what the receives of each hold
		for i, n := range p.ends {
			n.facts.RecvSize = 4096
			n.owner = func(id uint32, value []byte) ext.Change {
				switch rapid.IntRange(0, 3).Draw(rt, "owner") {
				case 0:
					return ext.Change{}
				case 1:
					return ext.Change{Kind: ext.Other, Value: value}
				case 2:
					if id == depth.ID() {
						return depth.Instead(11)
					}
				}
				return ext.Change{Kind: ext.Done}
			}
			n.grant = func(r ext.Request, done func(error)) {
				if r, ok := r.(ext.ReceiveSize); ok {
					if rapid.IntRange(0, 4).Draw(rt, "granted") == 0 && int(r) > holds[i] {
						done(&ext.RequestError{Request: r, Why: "no"})
						return
					}
					if int(r) < holds[i] {
						holds[i] = int(r) // those that come; larger ones stay posted
					} else {
						n.later("receives", func() { holds[i] = max(holds[i], int(r)); done(nil) })
						return
					}
				}
				done(nil)
			}
		}
		step := func() bool {
			did := p.next(func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "lane") })
			for i, n := range p.ends {
				if n.facts.SendLimit > holds[1-i] {
					rt.Fatalf("side %d sends %d bytes into receives of %d", i, n.facts.SendLimit, holds[1-i])
				}
			}
			return did
		}
		label := rapid.SliceOfN(rapid.Byte(), 0, 300)
		asked, settled := 0, 0
		act := func(n *end) {
			switch rapid.IntRange(0, 6).Draw(rt, "act") {
			case 0:
				depth.Offer(n, rapid.Uint32Range(1, 64).Draw(rt, "depth"))
			case 1:
				label_.Offer(n, label.Draw(rt, "label"))
			case 2:
				depth.Reset(n)
			case 3:
				asked++
				depth.Ask(n, rapid.Uint32Range(0, 65).Draw(rt, "depth"), func(ext.ChangeKind, uint32) { settled++ })
			case 4:
				asked++
				label_.Ask(n, label.Draw(rt, "label"), func(ext.ChangeKind, []byte) { settled++ })
			case 5:
				asked++
				ReceiveSize.Ask(n, rapid.SampledFrom([]uint32{4096, 8192, 20000, 1 << 20}).Draw(rt, "rbsiz"), func(ext.ChangeKind, uint32) { settled++ })
			case 6:
				asked++
				Backward.Ask(n, rapid.SampledFrom([]ext.BackwardLevel{0, 1, 2}).Draw(rt, "brs"), func(ext.ChangeKind, ext.BackwardLevel) { settled++ })
			}
		}
		for _, n := range p.ends {
			if rapid.Bool().Draw(rt, "offers") {
				depth.Offer(n, 2)
			}
			if rapid.Bool().Draw(rt, "fixes") {
				strict.Fix(n, true)
			}
			if rapid.Bool().Draw(rt, "labels") {
				label_.Reset(n)
			}
		}
		for _, n := range p.ends {
			n.s.Begin()
		}
		for range rapid.IntRange(0, 30).Draw(rt, "acts") {
			if rapid.Bool().Draw(rt, "something happens") {
				step()
				continue
			}
			act(p.ends[rapid.IntRange(0, 1).Draw(rt, "who")])
		}
		for step() {
		}
		if asked != settled {
			rt.Fatalf("%d requests, %d settled", asked, settled)
		}
		for i, e := range []*Extension{ae, be} {
			mine, err := e.Local(uint64(i + 1))
			if err != nil {
				rt.Fatal(err)
			}
			theirs, err := []*Extension{be, ae}[i].Peer(uint64(2 - i))
			if err != nil || !theirs.Over || theirs.Err != nil {
				rt.Fatal(theirs, err)
			}
			for _, v := range theirs.Values {
				m, ok := mine.Get(v.ID)
				if ok != v.Listed || ok && (!bytes.Equal(m.Data, v.Data) || m.Default != v.Default || m.Fixed != v.Fixed) {
					rt.Fatalf("side %d has %v, the other believes %v", i, m, v)
				}
				told := p.ends[1-i].told[v.ID]
				if !bytes.Equal(told, v.Data) {
					rt.Fatalf("the owner believes %x, the snapshot %v", told, v)
				}
			}
			if n := e.Counters(); n.Malformed+n.Foreign+n.Mismatches+n.Seconds+n.Strays > 0 {
				rt.Fatalf("%+v", n)
			}
		}
	})
}
