package engine

import (
	"fmt"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/core/watch"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// Config is what a connection is to do. The zero value of a field is its default.
type Config struct {
	// Profile says what version 2 is; MinVersion and MaxVersion cut it.
	// Defaults: version 2 as in draft -04 (ProfileV1 needs MaxVersion 1), 1, 2.
	Profile                wire.Profile
	MinVersion, MaxVersion uint32
	// Inline is the bytes of our receives and the most that we send inline, header
	// included: 1024…262144, a multiple of 1024 (RFC 8797 §4.2); where version 2 is allowed 4096
	// at least (v2 draft §2.3). Default 4096.
	Inline int
	// Credits: calls in flight that a requester asks for, and that a responder grants
	// (RFC 8166 §3.3.1). Default 64.
	Credits int
	// Backward is the calls in flight from a server to its client: a client grants so many, if it has
	// Serve, a server asks for so many. Each has receives of its own, beyond those of Credits (RFC 8167
	// §4). Default 8; negative: none, and a peer's backward calls are dropped.
	Backward int
	// BackwardLevel is how much of backward calls a client takes, and what a server takes its clients
	// for until SetBackward changes it (v2 draft §5.2.2). Default transport.BackwardInline (D-23).
	BackwardLevel transport.BackwardLevel
	// SegLen splits chunks into segments of so many bytes; 0: one segment a chunk.
	SegLen int
	// MoveAbove: bulk arguments up to so many bytes stay inline where they fit. Default:
	// whatever fits stays inline.
	MoveAbove int
	// ReadChunks is the most Read chunks in one call to a version 1 peer (D-29). Default 1.
	ReadChunks int
	// LongMore allows a Position-Zero Read chunk beside other Read chunks (D-29).
	LongMore bool
	// MaxCall bounds the chunk bytes of one call, MaxChunks its chunks per list and MaxSegs a chunk's
	// segments, as a responder. Defaults 16 MiB, 16, 512.
	MaxCall, MaxChunks, MaxSegs int
	// CallTimeout ends a call whose context has no deadline. Default 60 s.
	CallTimeout time.Duration
	// CancelWait is how long a cancelled call waits for its reply where memory cannot be
	// detached. Default 2 s.
	CancelWait time.Duration
	// Orphans and OrphanBytes bound cancelled calls that still wait for their replies. Beyond them
	// the connection ends. Defaults 64, 64 MiB.
	Orphans, OrphanBytes int
	// IdleTimeout ends, in order, a connection that has carried no call for so long; never while one is being
	// served or awaited. Negative: never. Default 6 minutes where we accepted it; 5 where we dialled,
	// but never if we take calls there (see also Conn.KeepOpen).
	IdleTimeout time.Duration
	// StallTimeout ends a connection on which posted Reads, or Sends and Writes, have not moved: none of them has
	// completed for so long, and a second more per 64 KiB of the largest. So does a frame that has begun to come and is
	// not whole after so long, as where bits of its length have changed. Negative: never. Default 60 s.
	StallTimeout time.Duration
	// KeepAlive, where we dialled: when calls wait and not a byte has come from the peer for so long, a NULL
	// call of their program is sent, if a credit is free; when nothing comes for as long again, the
	// connection ends. Negative: never. Default 20 s.
	KeepAlive time.Duration
	// Settle overrides the provider's pause before the first Post (D-39); negative: none.
	Settle time.Duration
	// NextXID makes transaction ids for calls of the engine's own. Default: random start, counting.
	NextXID func() uint32
	// GateTimeout is how long a connection on which version 2 stands may take to be opened where an extension gates
	// it (D-3); it ends then. Negative: for ever. Default 10 s.
	GateTimeout time.Duration
	// Versions remembers what servers support, under Peer. nil: nothing is remembered.
	Versions *VersionCache
	Peer     string
	// Extensions are the optional operations and properties of version 2 that the connection has. nil: none. Where one of
	// them gates connections, MinVersion is 2.
	Extensions *ext.Set
	// Panicked, if not nil, is told of a session that panicked: its extension is out of service for that connection.
	Panicked func(*PanicError)
	// Serve takes calls. It runs within Complete: it must not block. nil: calls are
	// dropped.
	Serve func(*transport.Request)
	// Busy, if not nil, tells that calls wait for long to be served: the connection then grants fewer
	// credits, as it does when memory is short, and more again later. Asked now and then; it must not block.
	Busy func() bool
	// Closed is called once when the connection has ended and nothing of it runs any
	// more but handlers; perhaps before Dial or Accept has returned it, and never where they return an error.
	Closed   func(*Conn, error)
	Recorder obs.Recorder
	// Tap, if not nil, gets the frames of the fabric.
	Tap verbs.Tap
}

// baseControl is the receives beyond the credits for messages without an RPC
// (D-8): three of the peer's own, three answers.
const baseControl = 6

// MaxSend is the largest Send, header included, of any connection: the bound of RFC 8797 §4.2, for version 2 as well.
const MaxSend = 256 << 10

// MaxCredits is the largest Config.Credits, and the largest Config.Backward.
const MaxCredits = 1 << 14

// ProbeSize is the most a client sends until the version is confirmed (v2 draft §7, D-6).
const ProbeSize = 1024

func (c Config) withDefaults() Config {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	if c.MaxVersion == 0 {
		c.MaxVersion = wire.Version2
	}
	if c.MaxVersion >= wire.Version2 {
		c.Profile = wire.ProfileCel04
	}
	if c.MinVersion == 0 {
		c.MinVersion = wire.Version1
	}
	c.gateConfig()
	def(&c.Inline, 4096)
	def(&c.Credits, 64)
	def(&c.Backward, 8)
	def(&c.ReadChunks, 1)
	def(&c.MoveAbove, 1<<30)
	def(&c.MaxCall, 16<<20)
	def(&c.MaxChunks, 16)
	def(&c.MaxSegs, 512)
	def(&c.Orphans, 64)
	def(&c.OrphanBytes, 64<<20)
	if c.BackwardLevel == transport.BackwardDefault {
		c.BackwardLevel = transport.BackwardInline
	}
	if c.CallTimeout == 0 {
		c.CallTimeout = transport.DefaultCallTimeout
	}
	if c.StallTimeout == 0 {
		c.StallTimeout = watch.DefaultStall
	}
	if c.KeepAlive == 0 {
		c.KeepAlive = watch.DefaultKeepAlive
	}
	if c.CancelWait == 0 {
		c.CancelWait = 2 * time.Second
	}
	if c.NextXID == nil {
		c.NextXID = transport.NewXIDs()
	}
	return c
}

// Check tells what is wrong with c: the *ConfigError of Dial and Accept, early.
func (c Config) Check() error {
	c = c.withDefaults()
	return c.check()
}

func (c *Config) check() error {
	switch {
	case c.MinVersion < 1 || c.MaxVersion > 2 || c.MinVersion > c.MaxVersion:
		return &ConfigError{"versions", "1 and 2 exist, and the lowest may not be above the highest"}
	case c.Extensions.Gated() && c.MinVersion < wire.Version2:
		return &ConfigError{"versions", fmt.Sprintf("extension %q gates connections, which takes version 2", gater(c.Extensions))}
	case c.Inline < 1024 || c.Inline > MaxSend || c.Inline%1024 != 0:
		return &ConfigError{"inline", "want a multiple of 1024 from 1024 to 262144 (RFC 8797 §4.2)"}
	case c.MaxVersion >= wire.Version2 && c.Inline < 4096:
		return &ConfigError{"inline", "version 2 needs at least 4096 (v2 draft §2.3); allow version 1 only, or raise it"}
	case c.Credits < 1 || c.Credits > MaxCredits:
		return &ConfigError{"credits", "want 1 to 16384"}
	case c.Backward > MaxCredits:
		return &ConfigError{"backward credits", "want at most 16384"}
	case c.BackwardLevel > transport.BackwardGeneral:
		return &ConfigError{"backward level", "want none, inline or general"}
	case c.SegLen < 0 || c.MoveAbove < 0 || c.MaxCall < 0 || c.MaxChunks < 0 || c.MaxSegs < 0 || c.Orphans < 0 || c.OrphanBytes < 0:
		return &ConfigError{"limits", "a number below zero bounds nothing"}
	case c.CallTimeout < time.Millisecond || c.CancelWait < 0:
		return &ConfigError{"timeouts", "want a millisecond at least"}
	}
	return nil
}
