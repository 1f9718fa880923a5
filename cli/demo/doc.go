// Package demo is the main job as a program that checks itself: a server and a client,
// processes of their own, with an NFS tree between them over software iWARP.
//
//	tree.go    files of every size that matters, made from a seed
//	digest.go  what a tree holds, as SHA-256
//	echo.go    a program beside NFS whose messages are too long to be inline
//	server.go  the server's process
//	client.go  the client's process: list, read, write back, echo
//	extension.go  an extension of the demo's own, which the server runs as a plugin
//	exchange.go   the process of a client that exchanges properties and calls on
//	extended.go   starts it, kills the plugin, and judges
//	run.go     starts both, looks at what they left on disk, and judges
//	report.go  the outcome for people and for machines
//
// The parent believes nobody: it compares three digests of every file: of the source, of what the
// client received, and of what the server stored again.
//
// Imports: core/rpc, core/ext, extensions, props, ulp/nfs, no provider.
package demo
