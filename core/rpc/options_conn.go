package rpc

import (
	"fmt"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// WithVersions allows the RPC-over-RDMA versions min to max, each 1 or 2. Default 1 to 2: a client
// starts with the highest (v2 draft §7).
func WithVersions(minVersion, maxVersion uint32) ConnOption {
	return connOption(func(o *connOptions) error {
		if minVersion < 1 || maxVersion > 2 || minVersion > maxVersion {
			return &OptionError{Option: "WithVersions", Value: fmt.Sprintf("%d, %d", minVersion, maxVersion), Want: "1, 1 or 1, 2 or 2, 2"}
		}
		o.engine.MinVersion, o.engine.MaxVersion = minVersion, maxVersion
		return nil
	})
}

// WithInline sets the bytes of receives and of the largest inline message: 1024 to 262144, a
// multiple of 1024 (RFC 8797 §4.2); 4096 or more unless version 2 is excluded (v2 draft §2.3). Default 4096.
func WithInline(n int) ConnOption {
	return connOption(func(o *connOptions) error {
		o.engine.Inline = n
		if n < 1024 || n > maxSend || n%1024 != 0 {
			return &OptionError{Option: "WithInline", Value: fmt.Sprint(n), Want: fmt.Sprintf("a multiple of 1024 from 1024 to %d", maxSend)}
		}
		return nil
	})
}

// WithMaxInline bounds how long extensions may have receives grow, to n bytes: 0 to 262144, which is the
// default. Where n is no more than what WithInline sets, receives keep that length.
func WithMaxInline(n int) ConnOption {
	return connOption(func(o *connOptions) error {
		o.memory.MaxInline = max(n, 1)
		return between("WithMaxInline", n, 0, maxSend)
	})
}

// WithCredits sets the calls in flight per connection that a client requests and a listener grants: 1 to 16384.
// Default 64.
func WithCredits(n int) ConnOption {
	return connOption(func(o *connOptions) error {
		o.engine.Credits = n
		return between("WithCredits", n, 1, maxCredits)
	})
}

// WithSegmentLength splits the chunks of calls into segments of n bytes; at a listener, those of backward calls. Default:
// one segment a chunk.
func WithSegmentLength(n int) ConnOption {
	return connOption(func(o *connOptions) error {
		o.engine.SegLen = n
		return atLeast("WithSegmentLength", n, 1)
	})
}

// WithMoveAbove moves bulk arguments of more than n bytes by RDMA even where they would fit inline; at a listener, those of
// backward calls. Default: what fits inline stays there.
func WithMoveAbove(n int) ConnOption {
	return connOption(func(o *connOptions) error {
		o.engine.MoveAbove = max(n, 1)
		return atLeast("WithMoveAbove", n, 0)
	})
}

// WithMaxCall bounds the chunk bytes of one call that a listener's connections accept; at a client, of one backward call.
// Default 16 MiB.
func WithMaxCall(n int) ConnOption {
	return connOption(func(o *connOptions) error {
		o.engine.MaxCall = n
		return atLeast("WithMaxCall", n, 1)
	})
}

// WithTCPRecord bounds the bytes of one RPC message on tcp://. Default 8 MiB.
func WithTCPRecord(n int) ConnOption {
	return connOption(func(o *connOptions) error {
		o.tcpMax = n
		return atLeast("WithTCPRecord", n, 1)
	})
}

// WithCallTimeout ends calls whose context has no deadline; at a listener, backward calls. A millisecond or more.
// Default 60 s.
func WithCallTimeout(d time.Duration) ConnOption {
	return connOption(func(o *connOptions) error {
		o.engine.CallTimeout = d
		if d < time.Millisecond {
			return &OptionError{Option: "WithCallTimeout", Value: d.String(), Want: "1ms or more"}
		}
		return nil
	})
}

// WithCancelWait sets how long a cancelled call waits for its reply before it returns, where the fabric
// cannot revoke the peer's access to memory at once. Default 2 s.
func WithCancelWait(d time.Duration) ConnOption {
	return connOption(func(o *connOptions) error {
		o.engine.CancelWait = d
		if d <= 0 {
			return &OptionError{Option: "WithCancelWait", Value: d.String(), Want: "a time above 0"}
		}
		return nil
	})
}

// WithGateTimeout ends a connection that an extension gates and has not opened for d since version 2 was agreed;
// the calls that wait for it end with an *engine.GateError. Negative: never. Default 10 s.
func WithGateTimeout(d time.Duration) ConnOption {
	return connOption(func(o *connOptions) error {
		o.engine.GateTimeout = d
		return orNever("WithGateTimeout", d)
	})
}

// WithExtensions gives connections the optional operations and properties of version 2 that s has; nil: none. They are not
// used with a peer that has none of them, or that speaks version 1.
func WithExtensions(s *ext.Set) ConnOption {
	return connOption(func(o *connOptions) error {
		o.engine.Extensions = s
		return nil
	})
}

// WithRecorder sends events to r. Given several times, events go to each recorder, in that order.
func WithRecorder(r obs.Recorder) ConnOption {
	return connOption(func(o *connOptions) error {
		o.engine.Recorder = obs.Tee(o.engine.Recorder, r)
		if r == nil {
			return isNil("WithRecorder", "a recorder")
		}
		return nil
	})
}

// WithTap copies the fabric's frames to t.
func WithTap(t verbs.Tap) ConnOption {
	return connOption(func(o *connOptions) error {
		o.engine.Tap = t
		if t == nil {
			return isNil("WithTap", "a tap")
		}
		return nil
	})
}
