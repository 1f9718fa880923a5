package wire

import "fmt"

// Check says what is wrong with a header that was put together, by a person or by a
// program: Append panics or writes what nobody parses when it is not nil. A header that Parse
// accepted passes.
func (h *Header) Check() error {
	if h.Proc == ErrorMsg && h.Err.Code == ErrVers {
		return nil // in any version (D-5)
	}
	switch h.Version {
	case Version1:
		switch {
		case h.Proc > ErrorMsg:
			return fmt.Errorf("wire: version 1 has no procedure %v", h.Proc)
		case h.Proc == ErrorMsg && h.Err.Code != ErrChunk:
			return fmt.Errorf("wire: version 1 has no error code %d", h.Err.Code)
		}
	case Version2:
		switch {
		case h.Proc == MsgP || h.Proc == Done || h.Proc > UpdProp:
			return fmt.Errorf("wire: version 2 has no procedure %v", h.Proc)
		case h.Proc == ErrorMsg && (h.Err.Code == 0 || h.Err.Code > ErrSystem):
			return fmt.Errorf("wire: version 2 has no error code %d", h.Err.Code)
		case (h.Proc == Msg || h.Proc == NoMsg || h.Proc == Optional) && h.Direction > Reply:
			return fmt.Errorf("wire: %v", h.Direction)
		case len(h.OptInfo) > MaxOpaque:
			return fmt.Errorf("wire: rdma_optinfo of %d bytes is above %d", len(h.OptInfo), MaxOpaque)
		}
		return h.checkProps()
	default:
		return fmt.Errorf("wire: version %d is not known", h.Version)
	}
	return h.checkLists()
}

func (h *Header) checkProps() error {
	switch h.Proc {
	case Msg, NoMsg:
		return h.checkLists()
	case ConnProp, ReqProp, RespProp, UpdProp:
	default:
		return nil
	}
	if len(h.Props) > MaxProps {
		return fmt.Errorf("wire: %d properties are above %d", len(h.Props), MaxProps)
	}
	for _, p := range h.Props {
		if len(p.Data) > MaxOpaque {
			return fmt.Errorf("wire: property %d of %d bytes is above %d", p.ID, len(p.Data), MaxOpaque)
		}
	}
	for _, s := range []Subset{h.NoChange, h.DoneSet, h.Rejected} {
		if len(s) > MaxSubset {
			return fmt.Errorf("wire: property subset of %d words is above %d", len(s), MaxSubset)
		}
	}
	return nil
}

func (h *Header) checkLists() error {
	switch h.Proc {
	case Msg, NoMsg, MsgP:
	default:
		return nil
	}
	chunks, run := 0, 0
	for i, s := range h.Reads {
		if s.Position&3 != 0 {
			return fmt.Errorf("wire: read position %d is no multiple of four", s.Position)
		}
		if i > 0 && h.Reads[i-1].Position == s.Position {
			run++
		} else {
			chunks, run = chunks+1, 1
		}
		if chunks > MaxReadChunks || run > MaxSegments {
			return fmt.Errorf("wire: above %d Read chunks or %d segments in one", MaxReadChunks, MaxSegments)
		}
	}
	if len(h.Writes) > MaxWriteChunks {
		return fmt.Errorf("wire: %d Write chunks are above %d", len(h.Writes), MaxWriteChunks)
	}
	for _, c := range append(h.Writes[:len(h.Writes):len(h.Writes)], h.Reply) {
		if len(c) > MaxSegments {
			return fmt.Errorf("wire: chunk of %d segments is above %d", len(c), MaxSegments)
		}
	}
	if h.Proc == NoMsg && h.Lists.Empty() {
		return fmt.Errorf("wire: %v without a chunk", h.Proc)
	}
	return nil
}
