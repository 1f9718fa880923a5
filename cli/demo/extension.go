package demo

import (
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/props"
)

// ExtensionName is that of the demo's own extension, which its server runs as a plugin.
const ExtensionName = "demo"

// Its properties, of the experimental range (v2 draft §5.4.2). A request to change one has a different answer of each.
var (
	colour = props.Uint32(0xffffff20, "colour", 1, props.Range(1, 8), props.Mutable)
	depth  = props.Uint32(0xffffff21, "depth", 1, props.Range(1, 1024), props.Mutable)
	pace   = props.Uint32(0xffffff22, "pace", 1, props.Mutable)
)

// mostDepth is what a greater depth is cut to.
const mostDepth = 16

// NewExtension makes it; it has no options.
func NewExtension(map[string]string) (ext.Extension, error) { return extension{}, nil }

type extension struct{}

func (extension) Declare() ext.Declaration {
	return ext.Declaration{Name: ExtensionName, Version: "1", Needs: []string{props.Name}, Props: demoProps()}
}

func demoProps() []ext.Prop { return []ext.Prop{colour.Prop(), depth.Prop(), pace.Prop()} }

// Connect has something to offer at a server only.
func (extension) Connect(c ext.Conn) ext.Session {
	if c.Facts().Client {
		return nil
	}
	colour.Offer(c, 1)
	depth.Offer(c, 4)
	pace.Offer(c, 100)
	return session{c}
}

type session struct{ conn ext.Conn }

func (session) Message(ext.Message) {}
func (session) Closed(error)        {}

func (session) PeerValue(uint32, []byte, bool) {}

// Requested takes any colour, a depth up to 16, and does not change its pace.
func (s session) Requested(t ext.Token, id uint32, value []byte) {
	c := ext.Change{Kind: ext.Rejected}
	switch id {
	case colour.ID():
		c.Kind = ext.Done
	case depth.ID():
		if n, err := depth.Decode(value); err == nil {
			if c.Kind = ext.Done; n > mostDepth {
				c = depth.Instead(mostDepth)
			}
		}
	}
	s.conn.Settle(t, c)
}
