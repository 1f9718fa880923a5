package props

import "github.com/rpcrdma/rpcrdma/core/ext"

// Ids of the basic properties (v2 draft §5.2, Table 1).
const (
	RBSIZ uint32 = 1 // Receive Buffer Size
	BRS   uint32 = 2 // Backward Request Support
)

// ExperimentalFirst to ExperimentalLast are the ids for experiments (v2 draft §5.4.2).
const (
	ExperimentalFirst uint32 = ext.ExperimentalFirst
	ExperimentalLast  uint32 = 1<<32 - 1
)

// document assigns the ids of this package.
const document = "draft-cel-nfsv4-rpcrdma-version-two-04"

// Sizes of receive buffers.
const (
	// DefaultReceiveSize is in force where no RBSIZ was given. Nobody advertises less (v2 draft §2.3, D-22).
	DefaultReceiveSize = 4096
	// minSendLimit is the least RBSIZ of a peer that is honoured: what every version takes (D-6, D-22).
	minSendLimit = 1024
	maxSendLimit = 262144
)

// The basic properties. RBSIZ is lenient: a peer's small values are no malformed ones (D-22).
var (
	ReceiveSize = Uint32(RBSIZ, "rbsiz", DefaultReceiveSize, Mutable)
	Backward    = Enum(BRS, "brs", ext.BackwardInline, Range(0, uint32(ext.BackwardGeneral)), Mutable)
)
