// Command conformance is the ledger of what the specifications ask of an implementation: RFC 8166,
// RFC 8797 and draft-cel-nfsv4-rpcrdma-version-two-04, and what RFC 8167, 5040, 5041, 5044, 6581 and 8267
// ask of the parts that we have (marked second hand: we go by drafts, and what others wrote). The protocol
// decisions (docs/protocol.md) and the traps that other implementations fell into have rows as well. A row
// says what is asked, in our words, which octets show it, what we do, and names the tests.
//
// The rows are in the files rows_*.go. The checks of this package are scripts (*_test.go): octets that a
// peer without any of our code sends, and octets that must come back, over loopback and over iWARP. Rows
// point at tests of other packages as well.
//
//	go test ./test/conformance               the scripts; every row has a test, and the test exists
//	go test -tags defects ./test/conformance breaks the program on purpose, one defect at a time: each
//	                                         must turn a test of the ledger red; -run '^TestDefects$/grant_0'
//	                                         selects some
//	go run ./test/conformance                runs every test that a row names, wherever it is, and the
//	                                         defects, and prints the table ("make conformance")
//	go run ./test/conformance -places        checks in a second that each defect has its place
//
// counts.go says how many sentences with a key word each section of the texts has, so that none is missed;
// TestTexts compares with the texts where CONFORMANCE_TEXTS names a folder that has them.
//
// A defect finds its place by structure: a declaration by its name, wherever in the module it is, and a fragment of
// Go that occurs in it once, with variables for its locals (package rewrite). Code may thus move and be renamed and
// formatted anew. Where a declaration has another name or a rule is written in another way, the defect has to be
// changed with it, or moved to what holds the rule now. A defect without a place fails "make conformance" by its
// name; it does not fail "go test", because a change that keeps the behaviour breaks no test.
//
// Imports: anything of the module.
package main
