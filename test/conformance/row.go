package main

import (
	"fmt"
	"strings"
)

// Level is how strongly a sentence binds (RFC 2119); decisions and traps are our own.
type Level string

const (
	Must      Level = "MUST"
	MustNot   Level = "MUST NOT"
	Should    Level = "SHOULD"
	ShouldNot Level = "SHOULD NOT"
	Required  Level = "REQUIRED"
	Says      Level = "says" // a sentence without a key word that binds all the same
	Decision  Level = "decision"
	Trap      Level = "trap"
	Fact      Level = "fact" // what peers do, that ours must meet
)

// Status is where a row stands.
type Status string

const (
	// Tested: we do as asked, and tests show it.
	Tested Status = "tested"
	// Departs: we do otherwise, on purpose; the tests show what.
	Departs Status = "departs"
	// Planned: the code comes later, in package Row.Until. A build where that exists fails.
	Planned Status = "planned"
	// NotOurs: the sentence binds, but nobody here; Do says who or why.
	NotOurs Status = "not-applicable"
)

// Row is one sentence that binds an implementation.
type Row struct {
	ID     string // unique: document/section/number, or D-n, T-n
	Doc    string
	Sec    string
	Level  Level
	Text   string // what is asked, in our words
	Wire   string // the octets that show it
	Do     string // what we do, where that is more than as asked
	Status Status // "": Tested
	Tests  []string
	Until  string // Planned: the folder whose coming ends the plan
	// SecondHand: taken from what others wrote about the text, not from the text.
	SecondHand bool
}

// status is the row's, with its default.
func (r Row) status() Status {
	if r.Status == "" {
		return Tested
	}
	return r.Status
}

// responder and requester name scripts of this package.
func responder(scripts ...string) []string { return named("TestResponder/", scripts) }
func requester(scripts ...string) []string { return named("TestRequester/", scripts) }

// The scripts of TestProperties and TestOperations.
func propServer(scripts ...string) []string { return named("TestProperties/server/", scripts) }
func propClient(scripts ...string) []string { return named("TestProperties/client/", scripts) }
func opServer(scripts ...string) []string   { return named("TestOperations/server/", scripts) }
func opClient(scripts ...string) []string   { return named("TestOperations/client/", scripts) }

func named(test string, scripts []string) (tests []string) {
	for _, s := range scripts {
		tests = append(tests, "test/conformance "+test+strings.ReplaceAll(s, " ", "_"))
	}
	return tests
}

// in names tests of another package.
func in(dir string, names ...string) (tests []string) {
	for _, n := range names {
		tests = append(tests, dir+" "+n)
	}
	return tests
}

func tests(lists ...[]string) (all []string) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// section makes rows of one section, numbered from 1.
func section(doc, sec string, rows ...Row) []Row {
	for i := range rows {
		r := &rows[i]
		r.Doc, r.Sec = doc, sec
		r.ID = fmt.Sprintf("%s/%s/%d", doc, sec, i+1)
	}
	return rows
}

// secondHand marks rows.
func secondHand(rows []Row) []Row {
	for i := range rows {
		rows[i].SecondHand = true
	}
	return rows
}

// The documents, in the order of the report.
const (
	rfc8166   = "RFC8166"
	rfc8167   = "RFC8167"
	rfc8797   = "RFC8797"
	draft     = "draft-04"
	rfc5040   = "RFC5040"
	rfc5041   = "RFC5041"
	rfc5044   = "RFC5044"
	rfc6581   = "RFC6581"
	rfc8267   = "RFC8267"
	decisions = "decisions"
	traps     = "traps"
)

var documents = []string{rfc8166, rfc8167, rfc8797, draft, rfc5040, rfc5041, rfc5044, rfc6581, rfc8267, decisions, traps}

// ledger is all rows.
func ledger() []Row {
	var all []Row
	for _, rows := range [][]Row{
		rowsRFC8166(), rowsRFC8166Headers(), rowsRFC8166Rest(),
		rowsRFC8167(), rowsRFC8797(), rowsDraft(), rowsDraftExtensions(), rowsDraftProperties(), rowsDraftErrors(),
		rowsFabric(), rowsRFC8267(), rowsDecisions(), rowsTraps(),
	} {
		all = append(all, rows...)
	}
	return all
}
