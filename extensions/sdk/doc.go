// Package sdk runs an extension in a process of its own. A plugin's main is one line:
//
//	func main() { sdk.Serve(acme.New) }
//
// where acme.New makes an ext.Extension, the same that a program could have compiled in, from the options that the
// configuration gives it. Executables are named rpcrdma-ext-NAME by custom and are run by the program alone, which starts those that its
// configuration names, checks their SHA-256, talks to them over hashicorp/go-plugin with mutual TLS, and ends them.
//
// What differs from being compiled in:
//   - Conn.Facts is what stood when the last event of the connection left the program.
//   - Conn's functions return at once and are carried out later, in order; a crossing takes 30 to 150 µs.
//   - At most 256 calls with a done function are open by connection; the next ends at once, as if not sent.
//   - What is offered within Spec.Timeout (200 ms) of a new connection, before Connect returns, is part of the first exchange.
//   - When the process ends, its connections live on without the extension, and new ones begin with its successor.
//   - Standard output belongs to the handshake: print nothing before Serve. What is written to standard error becomes
//     log lines of the program, 20 a second with bursts of 100.
//
// Files: serve.go the process; link.go the stream; conn.go a connection.
//
// Imports: core/ext.
package sdk
