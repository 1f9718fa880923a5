// Package properties tests transport properties (v2 draft §5) between a client and a server of ours, end to end: the
// extension of package props at one of them, whoever makes it and in whatever process it runs, and the one that is compiled in
// at the other.
//
//	properties.Run(t, func(t testing.TB, options map[string]string) ext.Extension { … })
//
// What the extension under test does is seen from outside: by its peer, by a second extension beside it (probe.go), which
// owns properties in the experimental range, by what the fabric carries, and by calls that go on meanwhile.
//
// Nothing here depends on how long something takes; what does not happen at all is told after 20 s.
// Imports: core/rpc, core/ext, core/wire, props, the providers, cli/capture.
package properties
