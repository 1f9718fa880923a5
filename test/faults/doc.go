// Package faults wraps a provider so that what may go wrong does: completions and departures
// come late, completions overtake each other as far as the contract lets them, works
// fail with an error completion, connections are cut, diallers are turned away.
//
// Everything stays within the contract of core/verbs, so whatever breaks above is wrong above:
// each accepted work still completes exactly once, receives stay in order, a message is
// neither lost nor doubled on a connection that lives (that does not exist on a reliable
// connection), and nothing reaches a peer after a work that failed. The suite of
// test/providertest passes through the wrapper.
//
// Chance comes from a seed, which a failing test prints and RPCRDMA_FAULT_SEED sets. Time is only
// package time's, so inside a testing/synctest bubble delays cost nothing.
//
// The files: plan.go (what may happen, and the dice) · provider.go (the wrapping) · conn.go (what
// is posted) · courier.go (what is reported).
//
// Imports: core/verbs, the standard library.
package faults
