package verbs

// Note is something that happens on a connection besides its works, which a provider reports to observers. What a
// note means for the connection comes by completions and Disconnected, as ever.
type Note uint8

const (
	NoteRetry         Note = iota + 1 // sent again, as it was not acknowledged; n: packets
	NoteTerminateSent                 // we end the connection with a Terminate message; n: layer<<16 | type<<8 | code (RFC 5040 §4.8)
	NoteTerminateRecv                 // the peer does; n as above
	NoteCorrupt                       // received what its CRC shows to be corrupt; n: its bytes, 0 where not known
)
