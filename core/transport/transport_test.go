package transport

import (
	"errors"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// keeper is a transport that keeps memory registered, and notes what becomes of that.
type keeper struct {
	known    map[*Memory]bool
	released int
	fault    error
}

func (k *keeper) Register(m *Memory) (Registration, error) {
	if k.fault != nil {
		return nil, k.fault
	}
	if k.known == nil {
		k.known = make(map[*Memory]bool)
	}
	k.known[m] = true
	return kept{k}, nil
}

func (k *keeper) Forget(m *Memory) bool {
	known := k.known[m]
	delete(k.known, m)
	return known
}

type kept struct{ k *keeper }

func (r kept) Release() { r.k.released++ }

// TestUsersMemory: it is registered once with each that asks, until it is freed or that one ends.
func TestUsersMemory(t *testing.T) {
	freed := 0
	m := NewMemory(make([]byte, 10), func() { freed++ })
	a, b, c := new(keeper), new(keeper), new(keeper)
	for range 3 {
		for _, k := range []*keeper{a, b, c} {
			reg, err := m.Registered(k)
			if err != nil || reg != (kept{k}) {
				t.Fatalf("%v, %v", reg, err)
			}
		}
	}
	if len(m.regs) != 3 {
		t.Errorf("%d registrations", len(m.regs))
	}
	m.Unregister(b)
	m.Unregister(b)
	if b.released != 1 || a.released+c.released != 0 {
		t.Errorf("released %d, %d and %d times", a.released, b.released, c.released)
	}
	c.known = nil // it has ended meanwhile, and releases what it knew by itself
	m.Free()
	if a.released != 1 || b.released != 1 || c.released != 0 || freed != 1 {
		t.Errorf("released %d, %d and %d times, freed %d times", a.released, b.released, c.released, freed)
	}
	bad := &keeper{fault: io.ErrClosedPipe}
	if _, err := m.Registered(bad); err != io.ErrClosedPipe || len(m.regs) != 0 {
		t.Errorf("%v, %d registrations", err, len(m.regs))
	}
	NewMemory(nil, nil).Free()
}

// pooled is memory of a pool.
type pooled struct {
	Memory
	back int
}

func (p *pooled) Recycle() { p.back++ }

func TestPooledMemory(t *testing.T) {
	p := new(pooled)
	p.Init(p)
	p.SetBytes(make([]byte, 8))
	b := p.Bulk(5)
	if len(b.Data) != 5 || b.Mem != &p.Memory || p.Owner() != p {
		t.Errorf("%d bytes of %p, owner %v", len(b.Data), b.Mem, p.Owner())
	}
	b.Release()
	if p.Free(); p.back != 2 {
		t.Errorf("it came back %d times", p.back)
	}
}

// state notes the order in which a call is taken apart.
type state struct {
	did  *[]string
	keep bool
}

func (s *state) Release() { *s.did = append(*s.did, "release") }
func (s *state) Reset() bool {
	*s.did = append(*s.did, "reset")
	return s.keep
}

// TestFree: the transport lets go of a call's memory before the owner of its bulk items does, and is done with the call
// after that.
func TestFree(t *testing.T) {
	for _, keep := range []bool{false, true} {
		var did []string
		var pool CallPool
		call := pool.Get()
		call.State = &state{&did, keep}
		call.XID, call.Grow, call.Stream, call.Attach = 7, 8, []byte("x"), Attachment{1, []byte("y")}
		call.Into = append(call.Into, Dest{Buf: make([]byte, 4)})
		call.Moved = append(call.Moved, xdr.Moved{Into: call.Into[0].Buf})
		call.Msg.BulkItem(xdr.Bulk{Data: make([]byte, 4), Release: func() { did = append(did, "bulk") }})
		call.Free()
		if want := []string{"release", "bulk", "reset"}; !slices.Equal(did, want) {
			t.Errorf("%v, want %v", did, want)
		}
		if call.XID != 0 || call.Grow != 0 || call.Stream != nil || len(call.Into)+len(call.Moved)+call.Msg.Len() != 0 || call.Attach.Info != nil {
			t.Errorf("left over: %+v", call)
		}
		if call.Into[:1][0].Buf != nil || call.Moved[:1][0].Into != nil {
			t.Error("it still refers to the caller's memory")
		}
	}
	new(Call).Free() // of no pool
}

func TestXIDs(t *testing.T) {
	next := NewXIDs()
	if a, b := next(), next(); b != a+1 {
		t.Errorf("%d then %d", a, b)
	}
	if NewXIDs()() == next() {
		t.Error("two generators start alike") // once in 2^32
	}
}

func TestLostError(t *testing.T) {
	for _, cause := range []error{nil, ErrStalled} {
		err := error(&LostError{Sent: true, Err: cause})
		if !errors.Is(err, net.ErrClosed) || cause != nil && !errors.Is(err, cause) {
			t.Errorf("%v", err)
		}
	}
	if err := error(&OrphanError{ErrTimeout}); !errors.Is(err, ErrTimeout) {
		t.Errorf("%v", err)
	}
}
