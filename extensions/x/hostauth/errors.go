package hostauth

import (
	"fmt"
	"time"
)

// Reason is why a connection was not opened.
type Reason uint8

const (
	NoPeer     Reason = iota + 1 // the server does not authenticate hosts
	NoCarrier                    // nobody exchanges properties with the peer
	NoKey                        // the client has several keys, and none is chosen
	Malformed                    // what the peer sent is nothing of this protocol
	OtherBind                    // the two sides bind to different things
	Refused                      // the server refuses the client's proof
	WrongProof                   // the peer's proof is wrong
	UnknownKey                   // the client names a key that the server does not have
	Late                         // no proof in time
)

// Error ends a connection that was not authenticated.
type Error struct {
	Reason Reason
	Client bool          // it is the client's
	Key    string        // id of the key, as far as it is known
	Bind   Bind          // ours, with OtherBind
	After  time.Duration // with Late
}

func (e *Error) Error() string {
	switch e.Reason {
	case NoPeer:
		return "the server does not authenticate hosts: load hostauth there, too"
	case NoCarrier:
		return "nobody exchanges properties with the peer: the extension props is missing or down here"
	case NoKey:
		return "the key file has several keys: name this host's by the option key_id"
	case Malformed:
		return "what the peer sent is no message of hostauth"
	case OtherBind:
		return fmt.Sprintf("bind is %v here, and something else at the peer: give both the same", e.Bind)
	case Refused:
		text := ""
		if e.Bind == Addresses {
			text = ", or an address is translated between them (bind = addresses)"
		}
		return fmt.Sprintf("the server refuses the proof: the key %q is not in its key file, or another one here%s", e.Key, text)
	case WrongProof:
		if e.Client {
			return fmt.Sprintf("the server's proof is wrong: it does not have the key %q", e.Key)
		}
		return fmt.Sprintf("the client's proof is wrong: it does not have the key %q that it names", e.Key)
	case UnknownKey:
		return fmt.Sprintf("the client names the key %q, which is not in the key file", e.Key)
	case Late:
		if e.Client {
			return fmt.Sprintf("the server has not proved itself within %v", e.After)
		}
		return fmt.Sprintf("the client has not proved itself within %v", e.After)
	}
	return "not authenticated"
}
