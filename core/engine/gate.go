package engine

import "sync/atomic"

// gate lets an endpoint's end wait for everybody who uses its memory: calls from Do to
// Free, requests from their arrival to their end.
type gate struct {
	n     atomic.Int64 // users; gateClosed is added when it closes
	empty chan struct{}
}

const gateClosed = 1 << 40

// enter is false when the gate is closed.
func (g *gate) enter() bool {
	if g.n.Add(1) < gateClosed {
		return true
	}
	g.leave()
	return false
}

func (g *gate) leave() {
	if g.n.Add(-1) == gateClosed {
		select {
		case g.empty <- struct{}{}:
		default:
		}
	}
}

// close lets nobody in any more, and waits until all have left.
func (g *gate) close() {
	if g.n.Add(gateClosed) == gateClosed {
		return
	}
	<-g.empty
}
