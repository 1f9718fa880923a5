package mpa

import (
	"errors"
	"reflect"
	"testing"
)

// TestStartUp plays both ends: what is offered, and what each then knows.
func TestStartUp(t *testing.T) {
	for _, c := range []struct {
		name         string
		dial, accept Offer
		dialled, got Agreed
	}{
		{
			"revision 2, CRC wanted by both", Offer{2, true, 16, 16}, Offer{0, true, 16, 16},
			Agreed{2, true, 16, 16, true, 0}, Agreed{2, true, 16, 16, true, 0},
		}, {
			"RFC 5044 §7.1.1: CRC wanted by the initiator", Offer{2, true, 4, 4}, Offer{0, false, 4, 4},
			Agreed{2, true, 4, 4, true, 0}, Agreed{2, true, 4, 4, true, 0},
		}, {
			"RFC 5044 §7.1.1: CRC wanted by the responder", Offer{2, false, 4, 4}, Offer{0, true, 4, 4},
			Agreed{2, true, 4, 4, true, 0}, Agreed{2, true, 4, 4, true, 0},
		}, {
			"no CRC", Offer{2, false, 4, 4}, Offer{0, false, 4, 4},
			Agreed{2, false, 4, 4, true, 0}, Agreed{2, false, 4, 4, true, 0},
		}, {
			"RFC 6581 §6: each direction's depth is the lower", Offer{2, false, 8, 2}, Offer{0, false, 4, 3},
			Agreed{2, false, 3, 2, true, 0}, Agreed{2, false, 2, 3, true, 0},
		}, {
			"an NFS client, which never reads", Offer{2, false, 0, 128}, Offer{0, false, 16, 16},
			Agreed{2, false, 0, 128, true, 0}, Agreed{2, false, 16, 0, true, 0},
		}, {
			"revision 1 says nothing about depths", Offer{1, true, 8, 8}, Offer{0, false, 4, 4},
			Agreed{1, true, 8, 8, false, 0}, Agreed{1, true, 4, 4, false, 0},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			request, err := Parse(c.dial.Request([]byte("hello")).Append(nil), false)
			if err != nil {
				t.Fatal(err)
			}
			if err := Check(request); err != nil {
				t.Fatal(err)
			}
			a := c.accept.Asked(request)
			if a.Agreed != c.got {
				t.Errorf("responder: %+v, want %+v", a.Agreed, c.got)
			}
			reply, err := Parse(a.Accept([]byte("hi")).Append(nil), true)
			if err != nil {
				t.Fatal(err)
			}
			dialled, err := c.dial.Replied(reply)
			if err != nil || dialled != c.dialled {
				t.Errorf("initiator: %+v, %v; want %+v", dialled, err, c.dialled)
			}
			if string(request.Private) != "hello" || string(reply.Private) != "hi" {
				t.Errorf("private data %q, %q", request.Private, reply.Private)
			}
		})
	}
}

func TestPeerToPeer(t *testing.T) {
	for _, c := range []struct {
		name  string
		asked Depths
		want  Depths
		rtr   RTR
	}{
		{"RFC 6581 §6: A with a Write and a Read offered", Depths{IRD: 4, ORD: 4, PeerToPeer: true, RTR: RTRWrite | RTRRead},
			Depths{IRD: 4, ORD: 4, PeerToPeer: true, RTR: RTRWrite | RTRRead}, RTRWrite | RTRRead},
		{"A with a Send", Depths{PeerToPeer: true, RTR: RTRSend}, Depths{PeerToPeer: true, RTR: RTRSend}, RTRSend},
		{"a Read makes ready whatever the depth", Depths{PeerToPeer: true, RTR: RTRRead}, Depths{IRD: 1, PeerToPeer: true, RTR: RTRRead}, RTRRead},
		{"A without anything offered is not taken up", Depths{IRD: 4, PeerToPeer: true}, Depths{ORD: 4}, 0},
		{"options without A mean nothing", Depths{IRD: 4, RTR: RTRSend}, Depths{ORD: 4}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := Offer{Reads: 16, Reading: 16}.Asked(Frame{Revision: 2, Enhanced: true, Depths: c.asked})
			got := a.Accept(nil).Depths
			if c.want.IRD == 1 {
				got.IRD = uint16(a.Agreed.Reading)
			}
			if got != c.want || a.Agreed.RTR != c.rtr {
				t.Errorf("replied %+v, RTR %v; want %+v, %v", got, a.Agreed.RTR, c.want, c.rtr)
			}
		})
	}
}

func TestReplied(t *testing.T) {
	offer := Offer{Revision: 2, Reads: 16, Reading: 16}
	reply := func(change func(*Frame)) Frame {
		f := Frame{Reply: true, Revision: 2, Enhanced: true, Depths: Depths{IRD: 16, ORD: 16}}
		change(&f)
		return f
	}
	t.Run("RFC 5044 §7.1.1: rejected, with private data", func(t *testing.T) {
		_, err := offer.Replied(reply(func(f *Frame) { f.Rejected, f.Private = true, []byte("no") }))
		var refused *RefusedError
		if !errors.As(err, &refused) || string(refused.Private) != "no" {
			t.Errorf("%v", err)
		}
	})
	t.Run("answered in another revision", func(t *testing.T) {
		if _, err := offer.Replied(reply(func(f *Frame) { f.Revision = 1 })); !errors.Is(err, ErrRevision) {
			t.Errorf("%v", err)
		}
	})
	t.Run("wants markers", func(t *testing.T) {
		if _, err := offer.Replied(reply(func(f *Frame) { f.Markers = true })); !errors.Is(err, ErrMarkers) {
			t.Errorf("%v", err)
		}
	})
	t.Run("RFC 6581 §9.1: reads deeper than we offered: the IRD is raised", func(t *testing.T) {
		a, err := offer.Replied(reply(func(f *Frame) { f.Depths.ORD = 64 }))
		if err != nil || a.Reading != 64 {
			t.Errorf("%+v, %v", a, err)
		}
	})
	t.Run("depths that are not negotiated", func(t *testing.T) {
		a, err := offer.Replied(reply(func(f *Frame) { f.Depths.IRD, f.Depths.ORD = NoDepth, NoDepth }))
		if err != nil || a.Reads != 16 || a.Reading != 16 {
			t.Errorf("%+v, %v", a, err)
		}
	})
}

func TestCheckAndRefusal(t *testing.T) {
	for _, c := range []struct {
		name  string
		f     Frame
		want  error
		reply Frame
	}{
		{"revision 0", Frame{}, ErrRevision, Frame{}},
		{"revision 3", Frame{Revision: 3}, ErrRevision, Frame{}},
		{"markers in revision 1", Frame{Revision: 1, Markers: true, CRC: true}, ErrMarkers, Frame{Reply: true, Rejected: true, Revision: 1}},
		{"markers in revision 2", Frame{Revision: 2, Enhanced: true, Markers: true}, ErrMarkers, Frame{Reply: true, Rejected: true, Revision: 2, Enhanced: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := Check(c.f); !errors.Is(err, c.want) {
				t.Errorf("Check: %v, want %v", err, c.want)
			}
			if c.want == ErrMarkers {
				if got := Refusal(c.f, nil); !reflect.DeepEqual(got, c.reply) {
					t.Errorf("Refusal: %+v, want %+v", got, c.reply)
				}
			}
		})
	}
}
