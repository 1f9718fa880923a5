package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// excerpt is a block of code in a document that stands below a comment with the file that it is taken from.
var excerpt = regexp.MustCompile("(?ms)^<!-- (\\S+) -->\n```go\n(.*?)^```$")

// TestExcerpts: code in documents is as it stands in its file.
func TestExcerpts(t *testing.T) {
	total := 0
	walk(t, func(path string, _ bool) {
		if !under(path, "docs") || !strings.HasSuffix(path, ".md") {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range excerpt.FindAllSubmatch(text, -1) {
			total++
			source, err := os.ReadFile(filepath.Join(root, string(m[1])))
			if err != nil {
				t.Errorf("%s: %v", path, err)
			} else if !strings.Contains("\n"+string(source), "\n"+string(m[2])) {
				t.Errorf("%s: this is not in %s:\n%s", path, m[1], m[2])
			}
		}
		if filepath.Base(path) == "providers.md" && strings.Count(string(text), "```go") != len(excerpt.FindAll(text, -1)) {
			t.Errorf("%s: a block of code without its file", path)
		}
	})
	if total == 0 {
		t.Error("no document has an excerpt")
	}
}
