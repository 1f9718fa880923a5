// Package providertest is the conformance suite of core/verbs: the sentences of the
// contract as checks that every provider must pass.
//
//	func TestProvider(t *testing.T) {
//		providertest.Run(t, func(t *testing.T) verbs.Provider { return mine.Provider{} }, providertest.Options{})
//	}
//
// A check is named after the sentence it proves. It is skipped, with the reason printed, where
// the provider's Caps say that it cannot hold. What goes for every check is watched all the time
// by the recording Handler (end.go): each accepted work and receive completes exactly
// once, Complete is serial, nothing completes from within Post, PostRecv, Expose or Detach,
// Disconnected comes once and last, no goroutine outlives its domain.
//
// No check depends on how long something takes; whatever hangs is told after 10 s.
// That the checks can fail is shown by broken_test.go, which runs them against providers
// that each break one promise.
//
// Imports: core/verbs, goleak, the standard library.
package providertest
