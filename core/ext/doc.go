// Package ext is the contract between the engine and extensions: version 2's optional operations and
// transport properties (v2 draft §4, §5). An extension is one feature, all of it or none (§4.3).
//
// It declares what it is (Declaration) and makes a Session for each version 2 connection, with which the
// engine talks to it; it talks back by Conn. Every answer is given later, from any goroutine, under a deadline and
// with a default: an extension compiled in and one in another process look the same from both sides.
//
// Two classes. A control extension has properties, operations without an RPC and bytes attached to calls; it
// runs compiled in or as a plugin. A payload extension wraps and cuts RPC messages (Wrapper); it is compiled in,
// as nothing synchronous per RPC crosses a process boundary.
//
// Files: declare.go what an extension says of itself; session.go, conn.go the two halves of a connection;
// property.go the property table and the carrier of it; request.go what may be asked of the engine; payload.go
// wrapping; set.go what a program has loaded, and the clashes in it.
//
// Types and their checks only: no I/O, no goroutine, no operation or property of any extension.
// Imports: nothing of ours.
package ext
