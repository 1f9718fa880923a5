package fair

import "net/netip"

// Quota divides a bounded number of things among peers that are distinguished by address: connections, set-ups,
// bytes. A peer may hold as many as it leaves free, so one peer alone gets half, k of them
// k parts of k+1, and some are always left for another. The owner of a Quota guards it with its own lock.
type Quota struct {
	Limit   int // of all peers together
	PerPeer int // of one; 0: as many as it leaves free
	used    int
	held    map[netip.Addr]int
}

// PeerKey is the address by which peers are distinguished: the IPv4 address, or the /64 network of an IPv6 address,
// because a host can choose any address of that network.
func PeerKey(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		p, _ := a.Prefix(64)
		return p.Addr()
	}
	return a
}

// Used is how many are taken, Held how many of them peer has.
func (q *Quota) Used() int                { return q.used }
func (q *Quota) Held(peer netip.Addr) int { return q.held[PeerKey(peer)] }

// Take takes n for peer. It returns false, and takes none, where fewer are left or peer may not hold as many. A peer that
// holds none always gets one while any is left.
func (q *Quota) Take(peer netip.Addr, n int) bool {
	free := q.Limit - q.used - n
	if free < 0 {
		return false
	}
	k := PeerKey(peer)
	most := q.PerPeer
	if most == 0 {
		most = max(free, 1)
	}
	if q.held[k]+n > most {
		return false
	}
	if q.held == nil {
		q.held = make(map[netip.Addr]int)
	}
	q.held[k] += n
	q.used += n
	return true
}

// Give returns n of those that peer holds. It panics if peer holds fewer.
func (q *Quota) Give(peer netip.Addr, n int) {
	k := PeerKey(peer)
	left := q.held[k] - n
	if left < 0 {
		panic("fair: a peer gives back more than it was given")
	}
	q.used -= n
	if left == 0 {
		delete(q.held, k)
		return
	}
	q.held[k] = left
}
