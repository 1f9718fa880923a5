// Package unhex is how tests write octets.
//
// Imports: the standard library.
package unhex

import (
	"encoding/hex"
	"strings"
	"testing"
)

// Octets are those of a text: hexadecimal, blanks and line ends left out.
func Octets(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}
