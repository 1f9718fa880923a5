package mpa

import "fmt"

// Start-up takes one frame each way. The initiator sends the first FPDU in any case;
// until it came the responder must not send (RFC 5044 §7.1.3).
//
//	initiator:  Offer.Request ──► sent ──Reply──► Offer.Replied ──► Agreed, refused or an error
//	responder:  asked ──Request──► Offer.Asked ──► Answer ──► Accept or Reject ──► sent
//
// RefusedError is the end of the initiator's way when the peer set R.

// Offer is what one end brings.
type Offer struct {
	Revision uint8 // the initiator's; the responder answers in the one it was asked in
	CRC      bool  // wanted; it is used when either side wants it (RFC 5044 §7.1.1)
	Reads    int   // ORD: RDMA Reads that we make
	Reading  int   // IRD: RDMA Reads that we serve
}

// Agreed is what both ends know after start-up.
type Agreed struct {
	Revision   uint8
	CRC        bool
	Reads      int // that we may have in flight
	Reading    int // that the peer may have in flight
	Negotiated bool
	RTR        RTR // the responder's: the first FPDU may be one of these, and is not for the ULP
}

// RefusedError is a reply with the reject flag.
type RefusedError struct {
	Revision uint8
	Private  []byte
}

func (e *RefusedError) Error() string { return "mpa: refused by the peer" }

// Request is the frame that the initiator sends.
func (o Offer) Request(private []byte) Frame {
	f := Frame{Revision: o.Revision, CRC: o.CRC, Private: private}
	if o.Revision >= 2 {
		f.Enhanced = true
		f.Depths = Depths{IRD: depth(o.Reading), ORD: depth(o.Reads)}
	}
	return f
}

// Replied is what the initiator makes of the answer.
func (o Offer) Replied(f Frame) (Agreed, error) {
	if f.Rejected {
		return Agreed{}, &RefusedError{Revision: f.Revision, Private: f.Private}
	}
	// A peer that knows only revision 1 should close (RFC 5044 §7.1.1); whoever answers
	// in another revision has not understood the depths.
	if f.Revision != o.Revision {
		return Agreed{}, fmt.Errorf("%w: asked in %d, answered in %d", ErrRevision, o.Revision, f.Revision)
	}
	if f.Markers {
		return Agreed{}, ErrMarkers
	}
	a := Agreed{Revision: f.Revision, CRC: o.CRC || f.CRC, Reads: o.Reads, Reading: o.Reading}
	if f.Enhanced {
		a.Negotiated = true
		a.Reads = lower(o.Reads, f.Depths.IRD)
		// More than we offered costs us a few words each: RFC 6581 §9.1 lets the
		// initiator raise its IRD instead of ending the connection.
		if f.Depths.ORD != NoDepth {
			a.Reading = max(o.Reading, int(f.Depths.ORD))
		}
	}
	return a, nil
}

// Answer is the responder's side of a request.
type Answer struct {
	Agreed Agreed
	reply  Frame
}

// Check says whether a request can be answered at all: an error means to close without
// a word when it is ErrRevision, and else to send Refusal.
func Check(f Frame) error {
	switch {
	case f.Revision != 1 && f.Revision != 2:
		return fmt.Errorf("%w: asked in %d", ErrRevision, f.Revision)
	case f.Markers:
		return ErrMarkers
	}
	return nil
}

// Asked is what the responder makes of a request that passed Check.
func (o Offer) Asked(f Frame) Answer {
	a := Answer{
		Agreed: Agreed{Revision: f.Revision, CRC: o.CRC || f.CRC, Reads: o.Reads, Reading: o.Reading},
		reply:  Frame{Reply: true, Revision: f.Revision, CRC: o.CRC || f.CRC, Enhanced: f.Enhanced},
	}
	if !f.Enhanced {
		return a
	}
	a.Agreed.Negotiated = true
	a.Agreed.Reads = lower(o.Reads, f.Depths.IRD)
	a.Agreed.Reading = lower(o.Reading, f.Depths.ORD)
	a.reply.Depths = Depths{IRD: depth(a.Agreed.Reading), ORD: depth(a.Agreed.Reads)}
	if f.Depths.PeerToPeer && f.Depths.RTR != 0 {
		a.reply.Depths.PeerToPeer = true
		a.reply.Depths.RTR = f.Depths.RTR
		a.Agreed.RTR = f.Depths.RTR
		// The Read that makes us ready must be served, whatever the depth.
		if f.Depths.RTR&RTRRead != 0 {
			a.Agreed.Reading = max(a.Agreed.Reading, 1)
		}
	}
	return a
}

// Accept is the reply that accepts.
func (a Answer) Accept(private []byte) Frame {
	f := a.reply
	f.Private = private
	return f
}

// Refusal is the reply that refuses the request f. Its depths are zero, as Linux sends them.
func Refusal(f Frame, private []byte) Frame {
	return Frame{Reply: true, Rejected: true, Revision: f.Revision, Enhanced: f.Enhanced, Private: private}
}

func depth(n int) uint16 { return uint16(min(max(n, 0), MaxDepth)) }

// lower is the depth in one direction: what we want and what the peer offers.
func lower(ours int, peers uint16) int {
	if peers == NoDepth {
		return ours
	}
	return min(ours, int(peers))
}
