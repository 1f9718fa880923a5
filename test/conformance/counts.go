package main

import (
	"fmt"
	"maps"
	"slices"
)

// sentences are how many sentences of a section have a key word of RFC 2119, and how many of these bind no
// implementation, with the reason. Each of the others has a row, or more than one.
type sentences struct {
	n, none int
	why     string
}

// texts are the documents whose text we have, by section. Those of documents that are
// second hand are not counted.
var texts = map[string]map[string]sentences{
	rfc8166: {
		"2.1":     {n: 1, none: 1, why: "says what the key words mean"},
		"2.3.2":   {n: 1},
		"3.3.1":   {n: 4},
		"3.3.3":   {n: 3},
		"3.4.2":   {n: 1},
		"3.4.4.1": {n: 1},
		"3.4.4.2": {n: 1},
		"3.4.4.3": {n: 1},
		"3.4.4.4": {n: 2},
		"3.4.5":   {n: 2},
		"3.4.5.2": {n: 3},
		"3.4.6":   {n: 2},
		"3.4.6.2": {n: 3},
		"3.5.3":   {n: 4},
		"4":       {n: 1},
		"4.1.1":   {n: 1, none: 1, why: "the licence of the XDR"},
		"4.2.1":   {n: 1},
		"4.2.2":   {n: 1},
		"4.2.4":   {n: 3},
		"4.3.1":   {n: 1},
		"4.3.2":   {n: 1},
		"4.3.2.2": {n: 4},
		"4.3.2.3": {n: 1},
		"4.3.3":   {n: 2},
		"4.5":     {n: 7},
		"4.5.1":   {n: 1},
		"4.5.2":   {n: 2},
		"4.5.4":   {n: 2},
		"4.6.1":   {n: 3},
		"4.6.2":   {n: 2},
		"5":       {n: 1},
		"6.1":     {n: 4},
		"8.1":     {n: 2},
		"8.2.1":   {n: 1},
		"8.2.2":   {n: 1},
		"8.2.2.1": {n: 1},
		"8.2.2.3": {n: 1},
	},
	draft: {
		"2.3":   {n: 2},
		"4.1":   {n: 1},
		"5.1.1": {n: 2},
		"5.3":   {n: 1},
		"5.3.3": {n: 4},
		"6.1":   {n: 1, none: 1, why: "the licence of the XDR"},
		"6.2.1": {n: 1},
		"6.2.2": {n: 2},
		"6.2.3": {n: 4},
		"6.2.4": {n: 13},
		"7":     {n: 1},
		"7.2":   {n: 1},
		"7.3":   {n: 1},
	},
	rfc8797: {
		"4":   {n: 2},
		"4.1": {n: 2},
		"5.1": {n: 1},
		"5.2": {n: 1},
	},
}

// checkCounts compares the ledger with the sentences that were counted.
func checkCounts(rows []Row) (faults []error) {
	have := make(map[string]int)
	for _, r := range rows {
		have[r.Doc+" "+r.Sec]++
	}
	for _, doc := range slices.Sorted(maps.Keys(texts)) {
		for _, sec := range slices.Sorted(maps.Keys(texts[doc])) {
			s := texts[doc][sec]
			if s.none > 0 && s.why == "" {
				faults = append(faults, fmt.Errorf("%s §%s: sentences are left out without a reason", doc, sec))
			}
			if n := have[doc+" "+sec]; n < s.n-s.none {
				faults = append(faults, fmt.Errorf("%s §%s: %d rows for %d sentences", doc, sec, n, s.n-s.none))
			}
		}
	}
	return faults
}
