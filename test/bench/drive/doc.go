// Package drive measures stacks side by side. Each stack is a server and a client
// process; for every workload the driver goes round them, with the reference (raw TCP)
// right before each: A B A C A B A C. What counts is the ratio within a pair, its median
// and its spread over the pairs: absolute figures of a shared machine come and go.
//
// Imports: load (what a child says), x/sys for the processes' CPU clocks.
package drive
