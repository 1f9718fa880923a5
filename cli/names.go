package cli

import (
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/extensions/x/continuation"
	"github.com/rpcrdma/rpcrdma/extensions/x/hostauth"
	"github.com/rpcrdma/rpcrdma/extensions/x/keepalive"
	"github.com/rpcrdma/rpcrdma/props"
)

// shippedNames are what the numbers of the extensions stand for that come with the program. Numbers for experiments may be another's, too:
// the number always stands beside the name.
func shippedNames() *wire.Names {
	n := &wire.Names{Options: map[uint32]string{}, Properties: map[uint32]string{}}
	for _, x := range []ext.Extension{new(props.Extension), new(keepalive.Extension), new(hostauth.Extension), new(continuation.Extension)} {
		d := x.Declare() // needs no options
		for _, op := range d.Ops {
			if op.Type != 0 {
				n.Options[op.Type] = d.Name + " " + op.Name
			}
		}
		for _, p := range d.Props {
			n.Properties[p.ID] = p.Name
		}
	}
	return n
}
