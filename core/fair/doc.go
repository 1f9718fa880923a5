// Package fair is the rule by which peers share what is bounded: who counts as one peer (PeerKey), and how much one of them
// may hold so that others find some (Quota). It is arithmetic without locks, time and I/O; docs/limits.md lists what is shared by it.
//
// Imports: the standard library only.
package fair
