// Package binding tells what an upper-layer binding (RFC 8166 §6) says of a
// procedure: which data items may be moved by RDMA, and how large a reply can be. The
// items themselves are marked by the types that encode them (xdr.Writer.BulkOpaque,
// xdr.Reader.Bulk); a binding allows or forbids moving them.
//
// No program's tables live here: they stand with their program. Imports: nothing.
package binding

// Binding is what a requester must know of one procedure to plan its call.
type Binding struct {
	// Args: bulk items of the arguments may travel as Read chunks.
	Args bool
	// Results: bulk items of the results may travel as Write chunks.
	Results bool
	// MaxReply is the bytes of the largest possible results, bulk items left out; 0:
	// the results are empty. Arguments that know better implement ReplySizer.
	MaxReply int
}

// ReplySizer is implemented by arguments that bound their own reply.
type ReplySizer interface {
	// MaxReply is the bytes of the largest results: reduced, without bulk items, and
	// whole, with them and their round-up.
	MaxReply() (reduced, whole int)
}

// None is the binding of a procedure that moves nothing and answers little.
var None = Binding{}
