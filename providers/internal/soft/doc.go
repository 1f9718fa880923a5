// Package soft is what an RDMA adapter keeps in its own tables and a provider made of
// software must keep itself, the same for every fabric: registrations and slabs (memory.go),
// shared receives (pool.go), remote keys and what each lets a peer reach (keys.go).
//
// What belongs here is what two providers would otherwise write alike, word for word. What
// may not enter: a wire format or a fabric's error code, a connection's state or its end, a
// goroutine, a clock, a socket; and no option, interface or callback by which a provider
// would bend what is here. A provider that needs another behaviour keeps its own.
//
// An error or panic text begins with the name of the provider, which it gives: users know
// providers, not this package.
//
// Imports: core/verbs, the standard library, golang.org/x/sys.
package soft
