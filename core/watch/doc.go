// Package watch decides, once a tick, whether a connection is idle, stalled, mute or kept shut: times and counts go in, a
// verdict comes out. It reads no clock, starts no timer and holds no lock: each transport's connection has a Watch, steps it
// by a timer of its own, and carries out the verdict.
//
// Imports: nothing of ours.
package watch
