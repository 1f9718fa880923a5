package host

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"
)

// TestPipeReadLate: what is in a pipe when its time is over is read; whoever keeps writing is not waited for.
func TestPipeReadLate(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close() // open all the time: there is no end of file
	if err := r.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	said := bytes.Repeat([]byte("its last words\n"), 1000)
	if _, err := w.Write(said); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(&pipe{r, maxLeft}); err != nil || !bytes.Equal(b, said) {
		t.Errorf("%d bytes of %d, %v", len(b), len(said), err)
	}
	if _, err := w.Write(said); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(&pipe{r, 100}); err != nil || len(b) != 100 {
		t.Errorf("%d bytes of at most 100, %v", len(b), err)
	}
}
