// Package tools runs the benchmarks that come with UCX and libfabric: C stacks under MPI and storage,
// on the same loopback interface, each right after a run of raw TCP in Go. What is not installed is
// named with the package that has it.
//
// Imports: drive, for the run of raw TCP.
package tools
