// Package plugins holds the tests of extensions in processes of their own, with connections and calls around them: what
// they must not cost anybody else.
//
// What ten idle plugins cost a call, in CPU time of the process, beside none (with the plugins on another core):
//
//	go test -run '^$' -bench Call -count 10 ./test/plugins | tee /tmp/calls
//	benchstat -col /plugins /tmp/calls
//
// Imports: the module's public packages.
package plugins
