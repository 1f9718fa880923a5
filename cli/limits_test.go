package cli

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestLimitFlags(t *testing.T) {
	good := limitFlags{conns: 10, idle: time.Minute}
	for _, tc := range []struct {
		name   string
		change func(*limitFlags)
		want   string // in the error; "": none
	}{
		{"good", func(*limitFlags) {}, ""},
		{"never idle", func(f *limitFlags) { f.idle = 0 }, ""},
		{"no connection", func(f *limitFlags) { f.conns = 0 }, "--max-conns 0"},
		{"fewer than none of an address", func(f *limitFlags) { f.perAddr = -1 }, "--max-conns-per-addr -1"},
		{"too short", func(f *limitFlags) { f.idle = time.Millisecond }, "--idle-timeout 1ms"},
		{"negative", func(f *limitFlags) { f.idle = -time.Second }, "--idle-timeout -1s"},
	} {
		f := good
		tc.change(&f)
		opts, err := f.limits()
		var usage usageError
		switch {
		case tc.want == "" && (err != nil || len(opts) != 3):
			t.Errorf("%s: %d options, %v", tc.name, len(opts), err)
		case tc.want != "" && (!errors.As(err, &usage) || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want a misuse that names %s", tc.name, err, tc.want)
		}
	}
}
