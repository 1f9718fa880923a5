// Package octets is a peer of tests that knows verbs and octets only, so that it can send what no end of ours would: as a
// client of a server of ours (Dial), or as the server of clients of ours (Listen).
//
// The files: peer.go (one end of a connection) · listen.go (many) · messages.go (good messages, as octets).
//
// Imports: core/verbs; core/wire, core/rpcmsg and core/xdr to write good messages.
package octets
