// Package wait is how tests wait for what goroutines and processes do without telling them: For until something holds, and
// Log for what is logged meanwhile. A test's patience is a minute, which only a failure takes.
//
// Imports: the standard library.
package wait
