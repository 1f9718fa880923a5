// Package verbs is the contract between the protocol engine and a fabric: what
// a provider offers (Domain, Listener, Conn), what is posted (Work), what comes
// back (Completion) and what a peer may reach (Window). It follows the RDMA verbs
// as iWARP (RFC 5040, 5041, 5044), RoCEv2 (InfiniBand RC transport) and libibverbs
// know them, cut to what RPC-over-RDMA needs.
//
// The package holds interfaces, plain types and the register of providers. No RPC,
// no transport header and no fabric's wire format enters here. The comment on
// each method states ordering, blocking, ownership and what holds after Close;
// test/providertest checks these sentences against every provider.
//
// Imports: the standard library only.
package verbs
