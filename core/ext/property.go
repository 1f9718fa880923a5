package ext

// Owner is a Session whose extension declares properties.
type Owner interface {
	// PeerValue tells the peer's value of a property: once it is known, and whenever it changes. def: the peer has not given
	// one, and value is the default.
	PeerValue(id uint32, value []byte, def bool)
	// Requested: the peer asks for a change of ours. It is answered by Conn.Settle; after a second it
	// is rejected. A change that is done, or done in part, is in force then, and needs no Offer.
	Requested(t Token, id uint32, value []byte)
}

// Carrier is the Session of the extension that exchanges properties with the peer. It gets a CarrierConn as its Conn.
type Carrier interface {
	Session
	// Offered tells a value of ours: before the first exchange those that extensions begin with, later their updates.
	Offered(id uint32, value []byte, fixed bool)
	// Asked: an extension wants the peer's value changed. It is answered by Conn.Settle.
	Asked(t Token, id uint32, value []byte)
	// Begin comes when every extension of the connection has begun, each Starter among them too or late, after what
	// they offered until then.
	Begin()
}

// CarrierConn is what a Carrier has beyond a Conn.
type CarrierConn interface {
	Conn
	// Declared are the properties of all extensions of the connection, its own included.
	Declared() []Prop
	// Peer tells what the peer's value of a property is; its owner hears it.
	Peer(id uint32, value []byte, def bool)
	// Requested asks a property's owner for a change that the peer wants. done gets its answer; one that nobody
	// owns, or that is not mutable, is rejected.
	Requested(id uint32, value []byte, done func(Change))
}

// Change is what became of a request to change a property (v2 draft §5.3.3).
type Change struct {
	Kind ChangeKind
	// Value is what is in force instead, with Other.
	Value []byte
}

// ChangeKind says how a request to change a property was dealt with.
type ChangeKind uint8

const (
	// Rejected: it stays as it was.
	Rejected ChangeKind = iota
	// Done: as requested.
	Done
	// Other: another value is in force, or the former one for now.
	Other
	// Unsupported: nobody to ask.
	Unsupported
)

func (k ChangeKind) String() string {
	switch k {
	case Rejected:
		return "rejected"
	case Done:
		return "done"
	case Other:
		return "another value"
	case Unsupported:
		return "not supported"
	}
	return "unknown"
}
