// Package hostile is a peer that knows verbs and bytes, and does everything wrong: as a client of a server of
// ours, and as a server of a client of ours, in both versions, over loopback and over iWARP on TCP. For
// each misdeed a table names what must follow, by the section that says so: silence, an error, an answer of
// RPC, or the end of this one connection. While it goes on bystanders make calls, each of which must succeed;
// afterwards no goroutine is left, and with -tags invariants no memory.
//
// The files: raw.go (the peer, of test/octets) · messages.go (good messages, to be spoilt) · host_test.go (who is attacked,
// and who stands by) · client_test.go and fields_test.go (as a client) · server_test.go (as a server) ·
// memory_test.go (keys) · extension_test.go (operations of extensions) · stream_test.go (below verbs: what a TCP connection may bring).
package hostile
