package cli

import (
	"context"
	"strings"
	"testing"
)

// lines fails on a write that does not end a line.
type lines struct {
	t *testing.T
	n int
}

func (w *lines) Write(b []byte) (int, error) {
	if w.n++; !strings.HasSuffix(string(b), "\n") {
		w.t.Errorf("%q is written, and no end of a line", b)
	}
	return len(b), nil
}

// TestBenchWritesLines: who reads the output, through a pipe or beside what is told on the way, sees whole lines.
func TestBenchWritesLines(t *testing.T) {
	out := &lines{t: t}
	cmd := newBenchRun()
	cmd.SetArgs([]string{"-n", "10", "loopback://"})
	cmd.SetOut(out)
	if err := cmd.ExecuteContext(context.Background()); err != nil || out.n < 3 {
		t.Errorf("%d lines, %v", out.n, err)
	}
}
