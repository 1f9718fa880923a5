// Package peers holds the stacks that the benchmark compares: raw TCP, which is the
// limit; gRPC and net/rpc, which are what a Go programmer would use; go-nfs, which is ONC RPC as Go has
// it; channels and memory copies, which are the limit within one process; and ours over each
// provider, with options after its name: iwarp?inline=16384&conns=4.
//
// Each moves the payload as its own documentation would have it done. Imports: load, and
// the stacks.
package peers
