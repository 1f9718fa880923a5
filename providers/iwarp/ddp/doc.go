// Package ddp is Direct Data Placement (RFC 5041) as RDMAP uses it: segment headers,
// tagged and untagged, as views with named offsets, and the order in which the
// segments of an untagged queue must arrive.
//
// Values and bytes only. Where a payload is placed is decided by package iwarp, which
// knows the memory; framing is package mpa's, opcodes are package rdmap's.
// Imports: the standard library.
package ddp
