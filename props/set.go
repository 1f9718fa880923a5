package props

import (
	"bytes"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// table finds declared properties by id.
type table map[uint32]ext.Prop

// check tells whether each known property of a set has a value of its own: one that has not spoils the whole
// message (D-13). Unknown ids are let through (D-14).
func (t table) check(set []wire.Property) error {
	for _, v := range set {
		if p, ok := t[v.ID]; ok {
			if err := Check(p, v.Data); err != nil {
				return err
			}
		}
	}
	return nil
}

// last gives the set without all but the last value of each id, and the number of those left out (D-15), the data
// cloned. nochg is of the position that was kept.
func last(set []wire.Property, nochg wire.Subset) (kept []given, doubles int) {
	at := make(map[uint32]int, len(set))
	for i, v := range set {
		g := given{v.ID, bytes.Clone(v.Data), nochg.Has(i)}
		if j, ok := at[v.ID]; ok {
			kept[j] = g
			doubles++
			continue
		}
		at[v.ID] = len(kept)
		kept = append(kept, g)
	}
	return kept, doubles
}

// given is a property as a message gave it.
type given struct {
	id    uint32
	data  []byte // empty: the default
	fixed bool
}
