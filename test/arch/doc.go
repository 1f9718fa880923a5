// Package arch holds the tests that keep the house in order: which room may import
// which, and by which files (arrows_test.go), what the core may pull into a user's program
// (weight_test.go), and what every file owes its reader (files_test.go).
//
// A new arrow is a decision: it changes the table here, with its reason in the commit.
// Imports: the standard library only.
package arch
