// Package soft is the part of an RDMA adapter that a provider made of software must supply
// itself, the same for every fabric: registered memory (memory.go), shared receives (pool.go),
// and remote keys with what each lets a peer reach (keys.go). A domain has one Memory and one
// Keys; each of its connections has one Windows.
//
// The package is public, so that a provider outside this module need not write it again: docs/providers.md.
//
// What belongs here is what two providers would otherwise write alike, word for word. What
// may not enter: a wire format or a fabric's error code, a connection's state or its end, a
// goroutine, a clock, a socket; and no option, interface or callback by which a provider
// would change what is here. A provider that needs another behaviour implements its own.
//
// The text of an error or panic begins with the name that the provider gives in the field
// Provider: users know providers, not this package.
//
// Imports: core/pages, core/verbs, the standard library.
package soft
