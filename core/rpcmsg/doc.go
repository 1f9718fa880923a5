// Package rpcmsg reads and writes ONC RPC version 2 messages up to their arguments or
// results (RFC 5531 §9): call and reply headers, authentication (§8, §10, Appendix A), and record
// marking for TCP (§11).
//
//	call.go     CallHeader, PeekType
//	reply.go    ReplyHeader: every accept and reject state
//	errs.go     what a reply says when it is no success, as errors
//	auth.go     opaque_auth and the interface of an authentication mechanism
//	sys.go      AUTH_NONE and AUTH_SYS
//	recmark.go  record marking, as a state machine over bytes
//
// Bodies of credentials and verifiers are views into the message. Parsing and appending calls
// with AUTH_NONE or AUTH_SYS and successful replies allocates nothing.
//
// No connection, no XID generator, no program enters here; sockets are package rpc's and
// procedures are the programs'. Imports: core/xdr.
package rpcmsg
