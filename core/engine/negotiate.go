package engine

import (
	"sync"
	"time"
)

// NegState is where version negotiation stands: at a client, whose choice it is, and at a server, which follows.
//
//	          connected                reply of that version
//	NegIdle ------------> NegProbing ------------------------> NegSettled <-- NegIdle, at a server:
//	                       |     ^                                             called
//	              ERR_VERS |     | ERR_VERS with a common version
//	                       v     |
//	                      (lower it)
//	                       | none in common
//	                       v
//	                      NegFailed
type NegState uint8

const (
	NegIdle NegState = iota
	NegProbing
	NegSettled
	NegFailed
)

// NegEventKind is what happened to a negotiation.
type NegEventKind uint8

const (
	NegConnected NegEventKind = iota + 1
	NegReply                  // a valid message of the server that is no error; Version
	NegErrVers                // RDMA_ERROR with ERR_VERS; Low, High
	NegCalled                 // at a server: its client's first valid call; Version
)

// NegEvent is an input of Negotiation.Step.
type NegEvent struct {
	Kind      NegEventKind
	Version   uint32
	Low, High uint32
}

// NegAction is what follows.
type NegAction uint8

const (
	NegNothing NegAction = iota
	NegProbe             // send one call in Version, and no second one
	NegOpen              // the version stands; credits as granted
	NegFail              // nothing in common
)

// Negotiation is a client's choice of version, and a server's note of it (v2 draft §7, D-3…D-7): a pure value.
type Negotiation struct {
	State    NegState
	Version  uint32 // being probed, or settled
	Min, Max uint32 // ours
}

// Step takes one event. Pairs that are not listed change nothing: a late ERR_VERS after the version
// stands concerns its call only.
func (n Negotiation) Step(ev NegEvent) (Negotiation, NegAction) {
	switch {
	case n.State == NegIdle && ev.Kind == NegConnected:
		n.State, n.Version = NegProbing, n.Max
		return n, NegProbe
	case n.State == NegIdle && ev.Kind == NegCalled: // D-4
		n.State, n.Version = NegSettled, ev.Version
		return n, NegOpen
	case n.State == NegProbing && ev.Kind == NegReply && ev.Version == n.Version:
		n.State = NegSettled
		return n, NegOpen
	case n.State == NegProbing && ev.Kind == NegErrVers:
		v := n.common(ev.Low, ev.High)
		if v == 0 {
			n.State = NegFailed
			return n, NegFail
		}
		n.Version = v
		return n, NegProbe
	}
	return n, NegNothing
}

// common is the highest version of ours in low…high below the one just refused, or 0.
// A server that refuses a version and lists it gets no second try of it.
func (n Negotiation) common(low, high uint32) uint32 {
	v := min(high, n.Version-1, n.Max)
	if v < n.Min || v < low {
		return 0
	}
	return v
}

// VersionCache remembers for ten minutes that a server does not speak version 2
// (D-5): after its ERR_VERS, or after two losses in a row of connections that carried our probe
// and ended without an answer, if the server never confirmed version 2.
type VersionCache struct {
	mu    sync.Mutex
	peers map[string]*peerVersions
}

type peerVersions struct {
	max     uint32 // 0: unknown
	until   time.Time
	losses  int
	knowsV2 bool
}

const (
	versionMemory = 10 * time.Minute
	versionPeers  = 1024
)

func (v *VersionCache) peer(name string) *peerVersions {
	if v.peers == nil {
		v.peers = make(map[string]*peerVersions)
	}
	p := v.peers[name]
	if p == nil {
		if len(v.peers) >= versionPeers {
			clear(v.peers) // a cache: forgetting costs one probe
		}
		p = new(peerVersions)
		v.peers[name] = p
	}
	return p
}

// Max is the version to start with towards peer, at most limit.
func (v *VersionCache) Max(peer string, limit uint32) uint32 {
	if v == nil {
		return limit
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if p := v.peers[peer]; p != nil && p.max != 0 && time.Now().Before(p.until) {
		return min(p.max, limit)
	}
	return limit
}

func (v *VersionCache) settled(peer string, version, tried uint32) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.peer(peer)
	p.losses = 0
	switch {
	case version >= 2:
		p.knowsV2, p.max = true, 0
	case tried >= 2:
		p.max, p.until = version, time.Now().Add(versionMemory)
	}
}

// forget: what was remembered turned out wrong.
func (v *VersionCache) forget(peer string) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.peers, peer)
}

// lost: the connection ended after our version 2 probe, without an answer.
func (v *VersionCache) lost(peer string) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	p := v.peer(peer)
	if p.losses++; p.losses >= 2 && !p.knowsV2 {
		p.max, p.until, p.losses = 1, time.Now().Add(versionMemory), 0
	}
}
