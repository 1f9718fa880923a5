// Package tcp carries ONC RPC over TCP with record marking (RFC 5531 §11): Dial makes a transport.Link, Listen a
// transport.Listener.
//
// A Link has one goroutine, which reads; callers write, one record at a time. A server's connection has one that reads, and
// one that writes while there are replies to write: no handler waits for a peer that does not read. Close of a Listener
// waits for all of them.
//
// What a peer can make a server hold: maxCalls records of Config.MaxRecord bytes per connection, beyond which nothing
// is read, and maxUnsent bytes of replies, of all connections together, beyond which a connection that has some waiting ends.
// A record that has begun must be whole within Config.StallTimeout and a second per 64 KiB of MaxRecord; a reply must be taken
// within writeWait.
//
// Records are plain messages: nothing is placed, nothing registered, and no call goes from the server to the client.
// No meaning of a program enters here.
// Imports: transport, watch, rpcmsg, xdr, obs, verbs (for its Stats).
package tcp
