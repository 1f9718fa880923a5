// Package cli is the command line: one file per verb, which turns flags into a package
// call and what comes back into lines or JSON.
//
// It links no provider: the program that calls Main does, by importing them. cmd/rpcrdma has all of ours. A program of your
// own can have fewer, or others, and everything else stays as it is:
//
//	package main
//
//	import (
//		"os"
//
//		"github.com/rpcrdma/rpcrdma/cli"
//		_ "github.com/rpcrdma/rpcrdma/providers/loopback"
//	)
//
//	func main() { os.Exit(cli.Main()) }
//
// A provider's init calls verbs.Register; its scheme is then one of addresses, and the command providers lists it. rdma://
// stands for iwarp://, where that is linked. Extensions are added in the same way, by extensions.Register, beside those
// that are compiled in.
//
// Exit status: 0 done, 1 failed, 2 not understood. Errors are one line that
// begins with "rpcrdma: " and says what to do; a configuration file gets one for each thing that is
// wrong with it. Long work shows its progress on a terminal and none in a pipe. Verbs, flags and the
// fields of --json are stable: scripts depend on them.
//
// No protocol rule lives here. Imports: everything below but providers; cobra and Prometheus stop here.
package cli
