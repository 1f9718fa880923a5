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
// # Providers over a device
//
// What a device and its library do differs from what the contract promises; docs/verbs-proof.md has what was seen. The
// provider makes up the difference:
//
//   - It decides by itself whether a work or receive is accepted: none before the connection stands (receives excepted) and
//     none from the first sign of its end, and otherwise by its own count of slots. A library's return code is
//     an errno, a negative errno, -1 or a false 0, and a work that it refused may exist.
//   - It keeps a list of what it accepted, and completes the rest as flushed once the queue pair is destroyed: a device may
//     complete nothing.
//   - On the connection manager's event, or any completion with an error, it disconnects (a device may flush nothing before),
//     drains the completion queue, completes the rest, ends what is exposed, and calls Disconnected. It does not wait for an
//     event after its own disconnect. Close disconnects only after what was posted has completed: a disconnect
//     flushes the send queue.
//   - Works may be left unsignalled if the last one of each Flush is signalled; they complete with the next that is.
//   - Keys are those of memory regions, unless the device's windows pass a test of their bounds, of use by another connection,
//     and of the flag of a remote invalidation. A window is freed before its queue pair is destroyed.
//   - A dial that the library cannot interrupt has a thread and an event channel of its own, which outlive Dial when its
//     context ends; their number is bounded.
//   - It announces an RNR retry count of 7, which rules what the peer sends, and does not rely on the peer's: the user keeps receives
//     posted.
//
// Imports: the standard library only.
package verbs
