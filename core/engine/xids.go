package engine

// xidTable finds calls by XID. Rows hold chains through Call.sameRow, a call per row on average. A map does the
// same at twice the cost; its hash guards against keys that an adversary chooses, and XIDs are ours. The zero
// value is ready.
type xidTable struct {
	rows []*call // a power of two
	n    int
}

// row is Fibonacci hashing: a client deals its XIDs out to its connections in turn, and neighbours far apart in
// the sequence must not meet in one row.
func (t *xidTable) row(xid uint32) **call {
	return &t.rows[uint64(xid*0x9e3779b1)*uint64(len(t.rows))>>32]
}

func (t *xidTable) at(xid uint32) *call {
	if t.n == 0 {
		return nil
	}
	call := *t.row(xid)
	for call != nil && call.XID != xid {
		call = call.sameRow
	}
	return call
}

// add takes in a call whose XID is not there.
func (t *xidTable) add(call *call) {
	if t.n == len(t.rows) {
		t.grow()
	}
	t.n++
	t.link(call)
}

func (t *xidTable) link(call *call) {
	row := t.row(call.XID)
	call.sameRow, *row = *row, call
}

func (t *xidTable) grow() {
	old := t.rows
	t.rows = make([]*call, max(2*len(old), 4))
	for _, call := range old {
		for call != nil {
			next := call.sameRow
			t.link(call)
			call = next
		}
	}
}

// remove takes call out if it is there.
func (t *xidTable) remove(call *call) {
	if t.n == 0 {
		return
	}
	for at := t.row(call.XID); *at != nil; at = &(*at).sameRow {
		if *at == call {
			*at, call.sameRow = call.sameRow, nil
			t.n--
			return
		}
	}
}
