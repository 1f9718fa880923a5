package engine

import (
	"errors"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/transport"
)

// TestCharge: what extensions hold for a peer's messages counts in the peer's share of the memory, and is refused beyond.
func TestCharge(t *testing.T) {
	e := endpoint(t, EndpointConfig{Memory: 1 << 20})
	var held, other int
	mem, err := e.memoryFor(256<<10, &held)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.charge(256<<10, &held); err != nil {
		t.Fatal(err)
	}
	if err := e.charge(64<<10, &held); !errors.Is(err, transport.ErrNoMemory) {
		t.Errorf("as much as it leaves free, and more: %v", err)
	}
	if _, err := e.memoryFor(64<<10, &held); !errors.Is(err, transport.ErrNoMemory) {
		t.Errorf("chunk memory beside it: %v", err)
	}
	if err := e.charge(64<<10, &other); err != nil {
		t.Errorf("another peer: %v", err)
	}
	e.discharge(64<<10, &other)
	mem.Free()
	if err := e.charge(128<<10, &held); err != nil {
		t.Errorf("when some came back: %v", err)
	}
	e.discharge(256<<10, &held)
	e.discharge(128<<10, &held)
	if held != 0 || other != 0 || e.MemoryInUse() != 0 {
		t.Errorf("%d and %d are held, %d in use", held, other, e.MemoryInUse())
	}
	gone := false
	c := &Conn{ep: e, share: new(share)}
	if _, ok := c.charged(2<<20, loan{free: func() { gone = true }}); ok || !gone {
		t.Error("more than there is")
	}
	l, _ := c.charged(1000, loan{free: func() { gone = false }})
	if e.MemoryInUse() != 1000 {
		t.Error("not counted")
	}
	l.giveBack()
	if gone || e.MemoryInUse() != 0 {
		t.Error("not released")
	}
}
