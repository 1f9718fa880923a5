// Package peers holds the stacks that the benchmark compares: raw TCP, which is the
// limit; gRPC, which is what a Go programmer would use; channels and memory copies, which
// are the limit within one process; and ours over each provider.
//
// Each moves the payload as its own documentation would have it done. Imports: load, and
// the stacks.
package peers
