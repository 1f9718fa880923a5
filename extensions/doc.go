// Package extensions loads the extensions that a program's configuration names: those compiled in (Register) and those in
// processes of their own (package host), behind one interface, core/ext. Their declarations are checked as one ext.Set: two that
// claim the same id are refused with both names.
//
// A Spec without a Path names one that is compiled in; with a Path it is a plugin, and needs the SHA-256 of its
// executable. Nothing is loaded that is not named. One that fails ends the program's start with one line that names it, its
// path, what is wrong and what it last wrote; unless it is not Required, then the line is a warning and Health tells of it.
//
// Payload extensions, which see RPC messages, are compiled in only: nothing synchronous per RPC crosses to another process.
//
// Under it: host runs plugins, sdk is the plugin's side, kit writes a first plugin for an author, x has the extensions that
// come with rpcrdma.
// Imports: core/ext.
package extensions
