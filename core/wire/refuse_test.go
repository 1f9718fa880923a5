package wire

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/rpcrdma/rpcrdma/test/unhex"
)

// TestRefuse: readable and well-formed, each with its refusals, and what a responder and a
// requester answer. "" is silence.
func TestRefuse(t *testing.T) {
	const (
		v1 = "00000007 00000001 00000020 "
		v2 = "00000007 00000002 00000020 "
		no = "00000000 00000000 00000000 "
	)
	for _, tc := range []struct {
		name   string
		hex    string
		reason Reason
		call   string // the answer when the receiver takes it for a call
		reply  string // and for a reply
	}{
		// D-36, RFC 8166 §4.5: minimum lengths
		{"no bytes", "", TooShort, "", ""},
		{"15 bytes", "00000007 00000001 00000020 000000", TooShort, "", ""},
		{"§4.5 version 1 MSG of 27 bytes", v1 + "00000000 00000000 00000000 000000", TooShort, "", ""},
		{"§4.5 version 1 NOMSG of 16 bytes", v1 + "00000001", TooShort, "", ""},
		{"§4.5 version 1 unknown procedure of 16 bytes", v1 + "00000009", TooShort, "", ""},
		{"version 1 ERROR of 16 bytes", v1 + "00000004", Truncated, "", ""},
		{"version 1 ERR_VERS of 24 bytes", v1 + "00000004 00000001 00000001", Truncated, "", ""},
		{"version 2 MSG of 16 bytes", v2 + "00000000", Truncated, "RDMA2_ERR_BAD_XDR", ""},
		{"version 2 MSG of 32 bytes", v2 + "00000000 00000000 00000000 00000000 00000000", Truncated, "RDMA2_ERR_BAD_XDR", "RDMA2_ERR_BAD_XDR"},
		{"version 2 OPTIONAL of 24 bytes", v2 + "00000005 00000000 00000001", Truncated, "RDMA2_ERR_BAD_XDR", "RDMA2_ERR_BAD_XDR"},
		{"version 2 CONNPROP of 20 bytes", v2 + "00000006 00000000", Truncated, "RDMA2_ERR_BAD_XDR", "RDMA2_ERR_BAD_XDR"},
		{"version 2 REQPROP of 16 bytes", v2 + "00000007", Truncated, "RDMA2_ERR_BAD_XDR", "RDMA2_ERR_BAD_XDR"},
		{"version 2 RESPROP of 24 bytes", v2 + "00000008 00000000 00000000", Truncated, "", ""},
		{"version 2 UPDPROP of 16 bytes", v2 + "00000009", Truncated, "RDMA2_ERR_BAD_XDR", "RDMA2_ERR_BAD_XDR"},
		{"version 2 SEGMENTS of 20 bytes", v2 + "00000004 00000006", Truncated, "", ""},
		{"version 2 WRITE_RESOURCE of 24 bytes", v2 + "00000004 00000007 00000001", Truncated, "", ""},

		// RFC 8166 §4.5.1
		{"§4.5.1 version 3", "00000007 00000003 00000020 00000000" + no, BadVersion, "ERR_VERS", ""},
		{"§4.5.1 version 0", "00000007 00000000 00000020 00000000" + no, BadVersion, "ERR_VERS", ""},
		{"§4.5.1 version 3, four words", "00000007 00000003 00000020 00000012", BadVersion, "ERR_VERS", ""},
		{"version 3, RDMA_ERROR that is not ERR_VERS: never answered", "00000007 00000003 00000020 00000004 00000002", BadVersion, "", ""},

		// RFC 8166 §4.5.2, v2 §6.2.4: procedures
		{"§4.5.2 version 1 procedure 5", v1 + "00000005" + no, BadProc, "ERR_CHUNK", ""},
		{"§4.5.2 version 1 procedure 9", v1 + "00000009" + no, BadProc, "ERR_CHUNK", ""},
		{"v2 §6.2.4 procedure 10", v2 + "0000000a", BadProc, "RDMA2_ERR_INVALID_PROC", ""},
		{"D-40 version 2 MSGP", v2 + "00000002" + no, BadProc, "RDMA2_ERR_INVALID_PROC", ""},
		{"D-40 version 2 DONE", v2 + "00000003" + no, BadProc, "RDMA2_ERR_INVALID_PROC", ""},

		// RFC 8166 §4.5.2: lists. The header of version 1 does not tell the direction, version 2's does.
		{"§4.5.2 version 1 NOMSG without a list", v1 + "00000001" + no, NoChunks, "ERR_CHUNK", ""},
		{"§4.5.2 version 2 NOMSG call without a list", v2 + "00000001 00000000 00000000" + no, NoChunks, "RDMA2_ERR_BAD_XDR", "RDMA2_ERR_BAD_XDR"},
		{"§4.5 version 2 NOMSG reply without a list", v2 + "00000001 00000001 00000000" + no, NoChunks, "", ""},
		{"version 1 Read list marked with a 2", v1 + "00000000 00000002 00000000 00000000", BadXDR, "ERR_CHUNK", ""},
		{"version 1 Write list cut", v1 + "00000000 00000000 00000001 00000001", Truncated, "ERR_CHUNK", ""},
		{"version 1 Write chunk of 2^32-1 segments", v1 + "00000000 00000000 00000001 ffffffff 00000000 00000000", Truncated, "ERR_CHUNK", ""},
		{"version 1 Reply chunk cut", v1 + "00000000 00000000 00000000 00000001", Truncated, "ERR_CHUNK", ""},
		{"§3.4.5 position 6", v1 + "00000000 00000001 00000006 00000001 00000001 00000000 00000000 00000000 00000000 00000000", Misaligned, "ERR_CHUNK", ""},
		{"§3.4.5 position 6, version 2", v2 + "00000000 00000000 00000000 00000001 00000006 00000001 00000001 00000000 00000000" + no, Misaligned, "RDMA2_ERR_BAD_XDR", "RDMA2_ERR_BAD_XDR"},
		{"version 1 MSGP without room for its lists", v1 + "00000002 00000000 00000000 00000000", Truncated, "ERR_CHUNK", ""},

		// v2 §6.2
		{"direction 2", v2 + "00000000 00000002 00000000" + no, BadXDR, "RDMA2_ERR_BAD_XDR", ""},
		{"broken reply, D-12", v2 + "00000000 00000001 00000000 00000002 00000000 00000000", BadXDR, "", ""},
		{"OPTIONAL reply cut, D-12", v2 + "00000005 00000001 00000001 00000008 00000000", Truncated, "", ""},
		{"OPTIONAL call with 2^32-1 bytes", v2 + "00000005 00000000 00000001 ffffffff 00000000", BadXDR, "RDMA2_ERR_BAD_XDR", "RDMA2_ERR_BAD_XDR"},
		{"§5.1.1 rdma_data beyond the message", v2 + "00000006 00000001 00000001 00000008 00000000 00000000", Truncated, "RDMA2_ERR_BAD_XDR", "RDMA2_ERR_BAD_XDR"},
		{"2^32-1 properties", v2 + "00000006 ffffffff 00000000", BadXDR, "RDMA2_ERR_BAD_XDR", "RDMA2_ERR_BAD_XDR"},
		{"RESPROP cut, D-12", v2 + "00000008 00000001 00000000 00000000", Truncated, "", ""},

		// D-35
		{"§4.5 version 1 error code 3", v1 + "00000004 00000003", UnknownCode, "", ""},
		{"version 1 error code 0", v1 + "00000004 00000000", UnknownCode, "", ""},
		{"version 2 error code 11", v2 + "00000004 0000000b", UnknownCode, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := unhex.Octets(t, tc.hex)
			var h Header
			n, err := h.Parse(b, ProfileCel04)
			var e *HeaderError
			if !errors.As(err, &e) || e.Reason != tc.reason {
				t.Fatalf("got %v, want %v", err, tc.reason)
			}
			if len(b) >= FixedLen && (h.XID != 7 || e.XID != 7 || e.Version != h.Version || e.Proc != h.Proc) {
				t.Errorf("fixed words %v", e)
			}
			if (n != 0) != (tc.reason == UnknownCode) {
				t.Errorf("n = %d", n)
			}
			if h.Direction > 2 {
				t.Errorf("direction %v", h.Direction)
			}
			for as, want := range map[Direction]string{Call: tc.call, Reply: tc.reply} {
				body, ok := e.Answer(as, 1, 2)
				got := ""
				if ok {
					got = body.Code.Name(e.Version)
					checkAnswer(t, e, body)
				}
				if got != want {
					t.Errorf("taken for a %v: answer %q, want %q", as, got, want)
				}
			}
		})
	}
}

// checkAnswer: the answer is a header that the peer can read, with its XID and version
// (RFC 8166 §4.5).
func checkAnswer(t *testing.T, e *HeaderError, body ErrorBody) {
	t.Helper()
	var h, back Header
	h.SetError(e, body, 32)
	if _, err := back.Parse(h.Append(nil), ProfileCel04); err != nil || !same(&h, &back) ||
		back.XID != e.XID || back.Version != e.Version || back.Proc != ErrorMsg {
		t.Errorf("answer %v, read %v: %v", &h, &back, err)
	}
	if body.Code == ErrVers && (back.Err.Low != 1 || back.Err.High != 2) {
		t.Errorf("offers %v", back.Err)
	}
}

// TestRefuseBeyond: refusals that the receiver finds by looking beyond the header.
func TestRefuseBeyond(t *testing.T) {
	msg1 := Header{XID: 7, Version: 1, Proc: Msg}
	msg2 := Header{XID: 7, Version: 2, Proc: Msg}
	rep2 := Header{XID: 7, Version: 2, Proc: Msg, Direction: Reply}
	opt := Header{XID: 7, Version: 2, Proc: Optional, OptType: 99}
	optRep := Header{XID: 7, Version: 2, Proc: Optional, OptType: 99, Direction: Reply}
	msgp := Header{XID: 7, Version: 1, Proc: MsgP}
	done := Header{XID: 7, Version: 1, Proc: Done}
	for _, tc := range []struct {
		name   string
		h      *Header
		reason Reason
		as     Direction
		want   string
	}{
		{"§4.5.2 XID mismatch", &msg1, XIDMismatch, Call, "ERR_CHUNK"},
		{"§4.5.2 XID mismatch of a reply", &msg1, XIDMismatch, Reply, ""},
		{"§4.5.2 XID mismatch, version 2", &msg2, XIDMismatch, Call, "RDMA2_ERR_BAD_XDR"},
		{"D-27 a call whose payload is a reply", &msg2, DirMismatch, Call, "RDMA2_ERR_BAD_XDR"},
		{"D-27 a reply whose payload is a call", &rep2, DirMismatch, Call, ""},
		{"D-40 MSGP at a responder", &msgp, Obsolete, Call, "ERR_CHUNK"},
		{"D-40 MSGP at a requester", &msgp, Obsolete, Reply, ""},
		{"D-40 DONE at a responder", &done, Obsolete, Call, ""},
		{"D-40 DONE at a requester", &done, Obsolete, Reply, ""},
		{"v2 §4.1 unknown option", &opt, UnknownOption, Call, "RDMA2_ERR_INVALID_OPTION"},
		{"D-12 unknown option, a reply", &optRep, UnknownOption, Call, ""},
		{"D-26 surplus", &opt, Surplus, Call, "RDMA2_ERR_BAD_XDR"},
		{"D-4 version 1 on a connection latched to 2", &msg1, BadVersion, Call, "ERR_VERS"},
		{"no RPC message, version 1", &msg1, NoPayload, Call, ""},
		{"v2 §6.2.1 no RPC message", &msg2, NoPayload, Call, "RDMA2_ERR_BAD_XDR"},
	} {
		body, ok := tc.h.Refuse(tc.reason).Answer(tc.as, 2, 2)
		got := ""
		if ok {
			got = body.Code.Name(tc.h.Version)
			if body.Code == ErrVers && tc.h.Version == 2 {
				t.Errorf("%s: %v", tc.name, body)
			}
		}
		if got == "RDMA2_ERR_VERS" {
			got = "ERR_VERS"
		}
		if got != tc.want {
			t.Errorf("%s: answer %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestNoLoop: whoever made the refusal, an RDMA_ERROR is not answered with another one (RFC 8166 §4.2.4).
func TestNoLoop(t *testing.T) {
	for v := range uint32(4) {
		for why := TooShort; why <= UnknownOption; why++ {
			if body, ok := (&HeaderError{Version: v, Proc: ErrorMsg, Reason: why}).Answer(Call, 1, 2); ok {
				t.Errorf("version %d, %v: %v", v, why, body)
			}
		}
	}
}

// TestRest: what may follow a header (v2 §6.2.1, D-26).
func TestRest(t *testing.T) {
	reply := Lists{HasReply: true}
	for _, tc := range []struct {
		name   string
		h      Header
		rest   int
		reason Reason
	}{
		{"MSG with a message", Header{Version: 1, Proc: Msg}, 40, 0},
		{"MSG without one", Header{Version: 1, Proc: Msg}, 0, NoPayload},
		{"version 2 MSG without one", Header{Version: 2, Proc: Msg}, 0, NoPayload},
		{"version 1 NOMSG, surplus ignored", Header{Version: 1, Proc: NoMsg, Lists: reply}, 4, 0},
		{"version 2 NOMSG, surplus", Header{Version: 2, Proc: NoMsg, Lists: reply}, 4, Surplus},
		{"version 2 NOMSG", Header{Version: 2, Proc: NoMsg, Lists: reply}, 0, 0},
		{"CONNPROP, surplus", Header{Version: 2, Proc: ConnProp}, 1, Surplus},
		{"RESPROP, surplus", Header{Version: 2, Proc: RespProp}, 1, Surplus},
		{"OPTIONAL with anything", Header{Version: 2, Proc: Optional}, 9, 0},
		{"OPTIONAL with nothing", Header{Version: 2, Proc: Optional}, 0, 0},
		{"version 1 ERROR, surplus ignored", Header{Version: 1, Proc: ErrorMsg, Err: ErrorBody{Code: ErrChunk}}, 8, 0},
		{"ERR_VERS that echoes a 2, surplus ignored", Header{Version: 2, Proc: ErrorMsg, Err: ErrorBody{Code: ErrVers}}, 8, 0},
		{"version 2 ERROR, surplus", Header{Version: 2, Proc: ErrorMsg, Err: ErrorBody{Code: ErrSystem}}, 8, Surplus},
	} {
		err := tc.h.CheckRest(tc.rest)
		var e *HeaderError
		if errors.As(err, &e); (tc.reason == 0) != (err == nil) || e != nil && e.Reason != tc.reason {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.reason)
		}
	}
}

// TestLimits: lists at their limit are read, above it they are refused, version 2 with the
// number (v2 §6.2.4).
func TestLimits(t *testing.T) {
	word := func(b []byte, v ...uint32) []byte {
		for _, v := range v {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		return b
	}
	fixed := func(p Proc) []byte { return word(nil, 7, 2, 32, uint32(p)) }
	lists := func(reads, positions, writes, segs int) []byte {
		b := word(fixed(Msg), 0, 0)
		for i := range reads {
			b = word(b, 1, uint32(4*min(i, positions-1)), 1, 1, 0, 0)
		}
		b = word(b, 0)
		for range writes {
			b = word(b, 1, 0)
		}
		b = word(b, 0, 1, uint32(segs))
		return append(b, make([]byte, 16*segs)...)
	}
	for _, tc := range []struct {
		name   string
		b      []byte
		reason Reason
		answer ErrorBody
	}{
		{"all at their limits", lists(MaxReadChunks+MaxSegments-1, MaxReadChunks, MaxWriteChunks, MaxSegments), 0, ErrorBody{}},
		{"one Read chunk more", lists(MaxReadChunks+1, MaxReadChunks+1, 0, 0), TooManyReads, ErrorBody{Code: ErrReadChunks, Max: MaxReadChunks}},
		{"one segment more in a Read chunk", lists(MaxSegments+1, 1, 0, 0), TooManySegments, ErrorBody{Code: ErrSegments, Max: MaxSegments}},
		{"one Write chunk more", lists(0, 0, MaxWriteChunks+1, 0), TooManyWrites, ErrorBody{Code: ErrWriteChunks, Max: MaxWriteChunks}},
		{"one segment more in a Reply chunk", lists(0, 0, 0, MaxSegments+1), TooManySegments, ErrorBody{Code: ErrSegments, Max: MaxSegments}},
		{"one property more", append(word(fixed(UpdProp), MaxProps+1), make([]byte, 8*MaxProps+8)...), BadXDR, ErrorBody{Code: ErrBadXDR}},
		{"as many properties as allowed", append(word(fixed(UpdProp), MaxProps), make([]byte, 8*MaxProps)...), 0, ErrorBody{}},
		{"one word more in a subset", append(word(fixed(ConnProp), 0, MaxSubset+1), make([]byte, 4*MaxSubset+4)...), BadXDR, ErrorBody{Code: ErrBadXDR}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var h Header
			_, err := h.Parse(tc.b, ProfileCel04)
			if tc.reason == 0 {
				if err != nil || h.Check() != nil {
					t.Fatal(err, h.Check())
				}
				return
			}
			var e *HeaderError
			if !errors.As(err, &e) || e.Reason != tc.reason {
				t.Fatalf("got %v, want %v", err, tc.reason)
			}
			if body, ok := e.Answer(Call, 1, 2); !ok || body != tc.answer {
				t.Errorf("answer %v", body)
			}
		})
	}
}

func TestNames(t *testing.T) {
	e := &HeaderError{XID: 7, Version: 1, Proc: Msg, Reason: Misaligned}
	if got := e.Error(); got != "wire: xid 0x00000007 version 1 MSG: read position is no multiple of four" {
		t.Error(got)
	}
	for r := TooShort; r <= UnknownOption; r++ {
		if r.String() == "" || r.String()[0] == 'r' && r != Misaligned {
			t.Errorf("reason %d has no words: %q", r, r)
		}
	}
	for c, want := range map[Code]bool{ErrVers: false, ErrBadXDR: false, ErrInvalidProc: false, ErrReadChunks: true,
		ErrWriteChunks: true, ErrSegments: true, ErrWriteResource: true, ErrReplyResource: true, ErrInvalidOption: false, ErrSystem: false} {
		if c.Retryable(Version2) != want || c.Retryable(Version1) {
			t.Errorf("%s: retryable %v", c.Name(Version2), c.Retryable(Version2))
		}
	}
	if got := ErrSegments.Name(1); got != "error code 6" {
		t.Error(got)
	}
}
