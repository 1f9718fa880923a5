package wire

// Limits on what a header may hold. They are above anything that fits a Receive in
// practice: each list entry takes about as many bytes on the wire as in memory, so the memory
// a peer can make us hold is bounded by what it sends; these bound the rest (slice headers of
// empty chunks and of empty properties, which are larger in memory than on the wire).
const (
	// MaxSegments bounds the segments of one chunk: 16 MiB in pages of 4 KiB.
	// (1 MiB at any alignment takes 257.)
	MaxSegments = 4096
	// MaxReadChunks and MaxWriteChunks bound the chunks of each list. A Write chunk of no
	// segments is 8 bytes on the wire and 24 in memory: 6 KiB in all.
	MaxReadChunks  = 256
	MaxWriteChunks = 256
	// MaxProps bounds a set of properties: as many empty ones (8 bytes each) as a
	// Receive of the default 4096 bytes holds. 32 bytes each in memory: 16 KiB.
	MaxProps = 512
	// MaxSubset bounds the words of a property subset: a bit for each of MaxProps.
	MaxSubset = MaxProps / 32
	// MaxOpaque bounds rdma_optinfo and rdma_data: the largest inline message that RFC 8797
	// §4.1 can announce. They are views into the message and cost no memory.
	MaxOpaque = 262144
)
