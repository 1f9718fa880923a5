package cli

import (
	"encoding/json"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// output is where answers go. It remembers that one did not arrive, for commands that print
// without looking: what was asked for and not delivered is a failure.
type output struct {
	w   io.Writer
	err error // the first
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// writeJSON prints v as the answer of a --json command.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// terminal reports whether w is a terminal: progress is shown there and nowhere else.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// writeLine writes v as JSON on one line.
func writeLine(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = w.Write(append(b, '\n'))
	}
	return err
}
