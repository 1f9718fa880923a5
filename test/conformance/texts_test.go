package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTexts counts the sentences with key words in the texts themselves, section by section, and compares
// with what counts.go says. The texts are not ours to ship: CONFORMANCE_TEXTS names a folder with them,
// as the RFC editor has them ("rfc8166.txt") and the draft under its name ("….txt").
func TestTexts(t *testing.T) {
	dir := os.Getenv("CONFORMANCE_TEXTS")
	if dir == "" {
		t.Skip("CONFORMANCE_TEXTS is not set: the counts of sentences are not compared with the texts")
	}
	for doc, file := range map[string]string{
		rfc8166: "rfc8166.txt", draft: "draft-cel-nfsv4-rpcrdma-version-two-04.txt",
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Error(err)
			continue
		}
		got := countSentences(string(text))
		delete(got, "0") // the front matter's "requirements language"
		for sec := range texts[doc] {
			got[sec] += 0
		}
		for _, sec := range slices.Sorted(maps.Keys(got)) {
			if want := texts[doc][sec].n; got[sec] != want {
				t.Errorf("%s §%s has %d sentences, counts.go says %d", doc, sec, got[sec], want)
			}
		}
	}
}

var (
	pageBreak = regexp.MustCompile(`\n*[^\n]*\[Page \d+\]\n\f?\n?[^\n]*\n*`)
	heading   = regexp.MustCompile(`^(\d+(?:\.\d+)*)\.\s+\S`)
	keyWord   = regexp.MustCompile(`\b(MUST|REQUIRED|SHALL|SHOULD|RECOMMENDED)\b`)
)

// countSentences counts, by section, the sentences that have a key word.
func countSentences(text string) map[string]int {
	text = strings.ReplaceAll(pageBreak.ReplaceAllString(text, "\n\n"), "\f", "")
	type paragraph struct{ sec, text string }
	var all []paragraph
	sec, lines := "0", []string(nil)
	flush := func() {
		if len(lines) > 0 {
			all = append(all, paragraph{sec, strings.Join(lines, " ")})
			lines = nil
		}
	}
	for _, line := range strings.Split(text, "\n") {
		m := heading.FindStringSubmatch(line)
		switch {
		case m != nil:
			flush()
			sec = m[1]
		case strings.TrimSpace(line) == "":
			flush()
		default:
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	flush()
	counts := make(map[string]int)
	for i := 0; i < len(all); i++ {
		p := all[i]
		// A page break cuts paragraphs: the rest begins in lower case.
		for i+1 < len(all) && all[i+1].sec == p.sec && !strings.ContainsAny(p.text[len(p.text)-1:], ".:;)|") && startsLower(all[i+1].text) {
			i++
			p.text += " " + all[i].text
		}
		for _, s := range sentencesOf(p.text) {
			if keyWord.MatchString(s) {
				counts[p.sec]++
			}
		}
	}
	return counts
}

func startsLower(s string) bool { return s != "" && s[0] >= 'a' && s[0] <= 'z' }

// sentencesOf cuts behind ".", ";" and ":" where a capital letter, a quote, a bracket or an item follows.
func sentencesOf(p string) (out []string) {
	for i := 0; i+2 < len(p); i++ {
		next := p[i+2]
		if strings.IndexByte(".;:", p[i]) >= 0 && p[i+1] == ' ' && (next >= 'A' && next <= 'Z' || next == '"' || next == '(' || next == 'o' || next == ' ') {
			out, p, i = append(out, p[:i+1]), strings.TrimSpace(p[i+1:]), -1
		}
	}
	return append(out, p)
}
