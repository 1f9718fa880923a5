//go:build !invariants

package engine

const invariants = false

func (m *memory) poison() {}

// received is the memory of a receive, with -tags invariants.
type received struct{}

func receivedIn([]byte) (r received) { return r }

func (received) poison() {}

func (e *Endpoint) mustBeEmpty() {}

func (c *Conn) mustBeEmpty() {}
