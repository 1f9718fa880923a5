//go:build !linux

package stream

import (
	"errors"
	"time"
)

// Threads tells whether TCP.Thread can be had on this system.
const Threads = false

type thread struct{ err error }

func newThread() (*thread, error) { return nil, errors.ErrUnsupported }

func (*thread) over() error              { return nil }
func (*thread) until(time.Time)          {}
func (*thread) end()                     {}
func (*thread) close()                   {}
func (*thread) run(uintptr, func() bool) {}
