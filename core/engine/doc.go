// Package engine runs RPC-over-RDMA on one connection: version negotiation, credits,
// message forms, chunk transfers, fencing, cancelling and transport errors, in both
// versions (RFC 8166, RFC 8797; draft-cel-nfsv4-rpcrdma-version-two-04).
//
// An Endpoint is a protection domain with its memory and its receives; a Conn is one
// connection of it. It implements package transport: a Call goes out through Conn.Do; a Request comes in through
// Config.Serve and leaves through Request.Reply. Both carry RPC messages as encoded
// streams with bulk items: no program, procedure or binding table enters here, no
// meaning of a property, no NFS, no sockets. Config.Extensions are package ext's, of which it knows declarations only.
//
// Pure parts, which take events and return values: negotiate.go (version), credits.go, control.go (windows of
// operations without an RPC, and what proves them consumed). The shell
// around them: endpoint.go, group.go, users.go and memory.go (what connections share); conn.go (life and
// completions), recv.go (which message is this), receives.go (shared and own), post.go (send buffers and the send
// queue); requester.go, expose.go (chunks), replan.go (what a refusal asks for), fence.go and cancel.go (a call's ways
// out); watch.go (idle, stalled, mute); responder.go, blame.go. A server calls its client back by requester and
// responder too: backward.go has what differs. Extensions: extend.go (their life on a connection), session.go (the goroutine that
// they are called on), extconn.go (what they have of the connection), operation.go (what comes), outbound.go (what they
// send), proptable.go, await.go (what they wait for), change.go (what they ask for: sizes, credits), gate.go; wrap.go and pieces.go (RPC messages in operations). With -tags
// invariants memory that comes back is overwritten, and an endpoint that ends panics unless everything has come back
// (invariants_on.go).
//
// Ownership. One mutex per Conn guards its state and covers every Post, so the order of
// steps is the order on the wire. Expose, memory from the provider, Flush, wake-ups and
// users' code run without it. A Call belongs to its caller until Do returns, but for a
// cancelled one, which then belongs to the Conn; a Request belongs to whoever
// serves it until Reply or Drop. Complete runs on one goroutine at a time; what only
// it uses is marked so.
//
// Imports: transport, watch, fair, chunk, ext, wire, xdr, rpcmsg, verbs, obs.
package engine
