//go:build !unix

package stream

import (
	"context"
	"errors"
	"time"
)

// TCP is not to be had on this system: its sockets cannot be read and written without
// waiting.
type TCP struct {
	NoDelay          bool
	SendBuf, RecvBuf int
	Thread           bool
	Spin             time.Duration
}

func (TCP) Dial(context.Context, string, string) (Stream, error) { return nil, errors.ErrUnsupported }
func (TCP) Listen(context.Context, string) (Listener, error)     { return nil, errors.ErrUnsupported }
