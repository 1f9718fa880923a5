package continuation

import (
	"encoding/binary"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// deaf is a connection that sends nothing while it is asked not to.
type deaf struct {
	ext.Conn // nothing else of it is called

	mu     sync.Mutex
	unsent int
	sent   []uint32
}

func (*deaf) Facts() ext.Facts { return ext.Facts{SendLimit: 4096, RecvSize: 4096} }

func (*deaf) Consumed(string, int) {}

func (c *deaf) Send(m ext.Outgoing, done func(ext.Outcome)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unsent > 0 {
		c.unsent--
		go done(ext.Outcome{Kind: ext.NotSent})
		return
	}
	c.sent = append(c.sent, binary.BigEndian.Uint32(m.Info))
}

func (c *deaf) refuse(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unsent = n
}

func (c *deaf) all() []uint32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sent)
}

// TestUnsentAcknowledgements: one that could not be sent is repeated though no piece comes, with what has come until then, and not once a
// later one stands for it.
func TestUnsentAcknowledgements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &deaf{unsent: 3}
		s := &session{conn: c, max: DefaultMax}
		pieces := func(n int) {
			for range n {
				s.Unwrap(ext.Piece{Op: opPart, Info: piece{4, 4}.append(nil)}, 1, false, []byte("abcd"))
			}
			synctest.Wait()
		}
		want := func(sent ...uint32) {
			t.Helper()
			if got := c.all(); !slices.Equal(got, sent) {
				t.Fatalf("%d were sent, want %d", got, sent)
			}
		}
		s.PeerValue(MaxMsgID, []byte{0, 1, 0, 0}, false)
		want()
		time.Sleep(4 * ackPause)
		want(0)
		c.refuse(1)
		pieces(AckEvery + 3)
		want(0)
		time.Sleep(2 * ackPause)
		want(0, AckEvery+3)
		c.refuse(1)
		pieces(2 * AckEvery) // the second one is sent
		want(0, AckEvery+3, 3*AckEvery+3)
		time.Sleep(2 * ackPause)
		want(0, AckEvery+3, 3*AckEvery+3)
		if len(s.acks) != 3 {
			t.Errorf("%d are on their way", s.acks)
		}
		c.refuse(1)
		pieces(AckEvery)
		s.Closed(nil)
		time.Sleep(2 * ackPause)
		want(0, AckEvery+3, 3*AckEvery+3)
	})
}
