// Package bench measures a connection as perftest does one of RDMA hardware: a small RPC program
// to be served anywhere, and callers that keep it busy.
//
//	program.go  the program: ECHO, READ and WRITE
//	caller.go   one caller of it, and how payloads are checked
//	hist.go     durations: extremes, mean, percentiles
//	run.go      callers, warm-up, counting, interruption
//	columns.go  the outcome in perftest's columns
//	sizes.go    sizes as the command line writes them
//
// It opens no connection and serves no address of its own: both are its user's.
//
// Imports: core/rpc, core/binding, core/xdr.
package bench
