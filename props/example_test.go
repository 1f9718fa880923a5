package props_test

import (
	"fmt"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/props"
)

// Depth is how many requests a side is ready to work on at once.
var Depth = props.Uint32(0xffffff10, "depth", 1, props.Range(1, 64), props.Mutable)

// depths is an extension that has one property and nothing else.
type depths struct{}

func (depths) Declare() ext.Declaration {
	return ext.Declaration{Name: "depths", Version: "1", Props: []ext.Prop{Depth.Prop()}}
}

func (depths) Connect(c ext.Conn) ext.Session {
	Depth.Offer(c, 16)
	return &session{conn: c}
}

// session is the extension on one connection.
type session struct {
	conn ext.Conn
	peer uint32
}

// PeerValue hears how many the peer takes; if those are few, more are asked for.
func (s *session) PeerValue(_ uint32, value []byte, _ bool) {
	s.peer, _ = Depth.Decode(value) // checked by whoever carries properties
	if s.peer < 4 {
		Depth.Ask(s.conn, 4, func(kind ext.ChangeKind, now uint32) { fmt.Println(kind, now) })
	}
}

// Requested answers a peer that asks for more than there is with what there is.
func (s *session) Requested(t ext.Token, _ uint32, value []byte) {
	if want, _ := Depth.Decode(value); want > 32 {
		s.conn.Settle(t, Depth.Instead(32))
		return
	}
	s.conn.Settle(t, ext.Change{Kind: ext.Done})
}

func (s *session) Message(ext.Message) {}
func (s *session) Closed(error)        {}

// A property of one's own: define it, declare it, offer a value, hear the peer's. Package props carries it.
func Example() {
	set, err := ext.NewSet(props.New(props.Options{}), depths{}) // for rpc.WithExtensions
	fmt.Println(set.Len(), err)
	id, value, err := props.NamesOf(set).Parse("depth=40")
	fmt.Println(id, value, err)
	_, _, err = props.NamesOf(set).Parse("depth=65")
	fmt.Println(err)
	// Output:
	// 2 <nil>
	// 4294967056 [0 0 0 40] <nil>
	// property depth: 65 is outside 1 to 64
}
