package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// The JSON form of a header has the names of the XDR files; handles, offsets and XIDs are hex
// strings, because they are looked for in hex dumps and 64 bits are more than a JSON number
// holds everywhere. Reading takes numbers and strings alike, procedures, codes and directions by
// name or number, and refuses fields that the procedure does not have.

type (
	hex32   uint32
	hex64   uint64
	hexData []byte
	dirName Direction
)

type jsonFixed struct {
	XID     hex32    `json:"rdma_xid"`
	Version uint32   `json:"rdma_vers"`
	Credit  uint32   `json:"rdma_credit"`
	Proc    procName `json:"rdma_proc"`
}

type procName string

type jsonSegment struct {
	Handle hex32  `json:"handle"`
	Length uint32 `json:"length"`
	Offset hex64  `json:"offset"`
}

type jsonRead struct {
	Position uint32 `json:"position"`
	jsonSegment
}

type jsonChunk []jsonSegment

type jsonLists struct {
	Reads  []jsonRead  `json:"rdma_reads"`
	Writes []jsonChunk `json:"rdma_writes"`
	Reply  *jsonChunk  `json:"rdma_reply"` // null: not present
}

type jsonMsg1 struct {
	jsonFixed
	jsonLists
}

type jsonMsgP struct {
	jsonFixed
	Align  uint32 `json:"rdma_align"`
	Thresh uint32 `json:"rdma_thresh"`
	jsonLists
}

type jsonMsg2 struct {
	jsonFixed
	Direction dirName `json:"rdma_direction"`
	InvHandle hex32   `json:"rdma_inv_handle"`
	jsonLists
}

type jsonError struct {
	jsonFixed
	Code   codeName `json:"rdma_err"`
	Low    *uint32  `json:"rdma_vers_low,omitempty"`
	High   *uint32  `json:"rdma_vers_high,omitempty"`
	Chunks *uint32  `json:"rdma_max_chunks,omitempty"`
	Segs   *uint32  `json:"rdma_max_segments,omitempty"`
	Index  *uint32  `json:"rdma_chunk_index,omitempty"`
	Needed *uint32  `json:"rdma_length_needed,omitempty"`
}

type codeName string

type jsonOptional struct {
	jsonFixed
	Direction dirName `json:"rdma_optdir"`
	Type      uint32  `json:"rdma_opttype"`
	Info      hexData `json:"rdma_optinfo"`
}

type jsonProp struct {
	Which uint32  `json:"rdma_which"`
	Data  hexData `json:"rdma_data"`
}

type jsonConnProp struct {
	jsonFixed
	Start  []jsonProp `json:"rdma_start"`
	NoChng []hex32    `json:"rdma_nochg"`
}

type jsonReqProp struct {
	jsonFixed
	Want []jsonProp `json:"rdma_want"`
}

type jsonRespProp struct {
	jsonFixed
	Done     []hex32    `json:"rdma_done"`
	Rejected []hex32    `json:"rdma_rejected"`
	Other    []jsonProp `json:"rdma_other"`
}

type jsonUpdProp struct {
	jsonFixed
	Now []jsonProp `json:"rdma_now"`
}

// MarshalJSON writes the header; what Append would write is all in it.
func (h Header) MarshalJSON() ([]byte, error) {
	if err := h.Check(); err != nil {
		return nil, err
	}
	f := jsonFixed{hex32(h.XID), h.Version, h.Credit, procName(h.Proc.Name(h.Version))}
	switch h.Proc {
	case Msg, NoMsg:
		if h.Version == Version1 {
			return json.Marshal(jsonMsg1{f, h.Lists.toJSON()})
		}
		return json.Marshal(jsonMsg2{f, dirName(h.Direction), hex32(h.InvHandle), h.Lists.toJSON()})
	case MsgP:
		return json.Marshal(jsonMsgP{f, h.Align, h.Thresh, h.Lists.toJSON()})
	case ErrorMsg:
		return json.Marshal(h.Err.toJSON(f))
	case Optional:
		return json.Marshal(jsonOptional{f, dirName(h.Direction), h.OptType, h.OptInfo})
	case ConnProp:
		return json.Marshal(jsonConnProp{f, propsToJSON(h.Props), h.NoChange.toJSON()})
	case ReqProp:
		return json.Marshal(jsonReqProp{f, propsToJSON(h.Props)})
	case RespProp:
		return json.Marshal(jsonRespProp{f, h.DoneSet.toJSON(), h.Rejected.toJSON(), propsToJSON(h.Props)})
	case UpdProp:
		return json.Marshal(jsonUpdProp{f, propsToJSON(h.Props)})
	}
	return json.Marshal(f) // DONE
}

// UnmarshalJSON reads a header that Append can write.
func (h *Header) UnmarshalJSON(b []byte) error {
	var f jsonFixed
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	p, err := parseProc(string(f.Proc))
	if err != nil {
		return err
	}
	h.Reset()
	h.XID, h.Version, h.Credit, h.Proc = uint32(f.XID), f.Version, f.Credit, p
	if err := h.bodyFromJSON(b); err != nil {
		return fmt.Errorf("%s: %w", p.Name(h.Version), err)
	}
	return h.Check()
}

func (h *Header) bodyFromJSON(b []byte) (err error) {
	switch h.Proc {
	case Msg, NoMsg:
		if h.Version != Version2 {
			var j jsonMsg1
			err = strict(b, &j)
			h.Lists.fromJSON(&j.jsonLists)
			return err
		}
		var j jsonMsg2
		err = strict(b, &j)
		h.Direction, h.InvHandle = Direction(j.Direction), uint32(j.InvHandle)
		h.Lists.fromJSON(&j.jsonLists)
	case MsgP:
		var j jsonMsgP
		err = strict(b, &j)
		h.Align, h.Thresh = j.Align, j.Thresh
		h.Lists.fromJSON(&j.jsonLists)
	case ErrorMsg:
		var j jsonError
		if err = strict(b, &j); err == nil {
			err = h.Err.fromJSON(&j)
		}
	case Optional:
		var j jsonOptional
		err = strict(b, &j)
		h.Direction, h.OptType, h.OptInfo = Direction(j.Direction), j.Type, j.Info
	case ConnProp:
		var j jsonConnProp
		err = strict(b, &j)
		h.Props, h.NoChange = propsFromJSON(j.Start), subsetFromJSON(j.NoChng)
	case ReqProp:
		var j jsonReqProp
		err = strict(b, &j)
		h.Props = propsFromJSON(j.Want)
	case RespProp:
		var j jsonRespProp
		err = strict(b, &j)
		h.DoneSet, h.Rejected = subsetFromJSON(j.Done), subsetFromJSON(j.Rejected)
		h.Props = propsFromJSON(j.Other)
	case UpdProp:
		var j jsonUpdProp
		err = strict(b, &j)
		h.Props = propsFromJSON(j.Now)
	default:
		err = strict(b, &jsonFixed{})
	}
	return err
}

// strict decodes b and refuses fields that v does not have: a misspelt rdma_reply must not
// become a header without one.
func strict(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

func (s Segment) toJSON() jsonSegment {
	return jsonSegment{hex32(s.Handle), s.Length, hex64(s.Offset)}
}

func (j jsonSegment) segment() Segment {
	return Segment{uint32(j.Handle), j.Length, uint64(j.Offset)}
}

func (c Chunk) toJSON() jsonChunk {
	j := jsonChunk{}
	for _, s := range c {
		j = append(j, s.toJSON())
	}
	return j
}

func (j jsonChunk) chunk() Chunk {
	c := Chunk{}
	for _, s := range j {
		c = append(c, s.segment())
	}
	return c
}

func (l *Lists) toJSON() jsonLists {
	j := jsonLists{Reads: []jsonRead{}, Writes: []jsonChunk{}}
	for _, s := range l.Reads {
		j.Reads = append(j.Reads, jsonRead{s.Position, s.Segment.toJSON()})
	}
	for _, c := range l.Writes {
		j.Writes = append(j.Writes, c.toJSON())
	}
	if l.HasReply {
		c := l.Reply.toJSON()
		j.Reply = &c
	}
	return j
}

func (l *Lists) fromJSON(j *jsonLists) {
	for _, s := range j.Reads {
		l.Reads = append(l.Reads, ReadSegment{s.Position, s.segment()})
	}
	for _, c := range j.Writes {
		l.Writes = append(l.Writes, c.chunk())
	}
	if j.Reply != nil {
		l.Reply, l.HasReply = j.Reply.chunk(), true
	}
}

func (e *ErrorBody) toJSON(f jsonFixed) jsonError {
	j := jsonError{jsonFixed: f, Code: codeName(e.Code.Name(f.Version))}
	if e.Code == ErrVers {
		j.Low, j.High = &e.Low, &e.High
	}
	if f.Version != Version2 {
		return j
	}
	switch e.Code {
	case ErrReadChunks, ErrWriteChunks:
		j.Chunks = &e.Max
	case ErrSegments:
		j.Segs = &e.Max
	case ErrWriteResource:
		j.Index, j.Needed = &e.Index, &e.Needed
	case ErrReplyResource:
		j.Needed = &e.Needed
	}
	return j
}

func (e *ErrorBody) fromJSON(j *jsonError) error {
	c, err := parseCode(string(j.Code), j.Version)
	if err != nil {
		return err
	}
	*e = ErrorBody{Code: c}
	for _, f := range []struct {
		from  *uint32
		to    *uint32
		name  string
		codes []Code
	}{
		{j.Low, &e.Low, "rdma_vers_low", []Code{ErrVers}},
		{j.High, &e.High, "rdma_vers_high", []Code{ErrVers}},
		{j.Chunks, &e.Max, "rdma_max_chunks", []Code{ErrReadChunks, ErrWriteChunks}},
		{j.Segs, &e.Max, "rdma_max_segments", []Code{ErrSegments}},
		{j.Index, &e.Index, "rdma_chunk_index", []Code{ErrWriteResource}},
		{j.Needed, &e.Needed, "rdma_length_needed", []Code{ErrWriteResource, ErrReplyResource}},
	} {
		if f.from == nil {
			continue
		}
		fits := false
		for _, has := range f.codes {
			fits = fits || has == c
		}
		if !fits {
			return fmt.Errorf("%s has no %s", j.Code, f.name)
		}
		*f.to = *f.from
	}
	return nil
}

func propsToJSON(ps []Property) []jsonProp {
	j := []jsonProp{}
	for _, p := range ps {
		j = append(j, jsonProp{p.ID, p.Data})
	}
	return j
}

func propsFromJSON(j []jsonProp) (ps []Property) {
	for _, p := range j {
		ps = append(ps, Property{p.Which, p.Data})
	}
	return ps
}

func (s Subset) toJSON() []hex32 {
	j := []hex32{}
	for _, w := range s {
		j = append(j, hex32(w))
	}
	return j
}

func subsetFromJSON(j []hex32) (s Subset) {
	for _, w := range j {
		s = append(s, uint32(w))
	}
	return s
}

func (v hex32) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "0x%08x", uint32(v)), nil }
func (v hex64) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "0x%x", uint64(v)), nil }

func (v *hex32) UnmarshalJSON(b []byte) error {
	n, err := number(b, 32)
	*v = hex32(n)
	return err
}

func (v *hex64) UnmarshalJSON(b []byte) error {
	n, err := number(b, 64)
	*v = hex64(n)
	return err
}

// number reads 17, "17" or "0x11".
func number(b []byte, bits int) (uint64, error) {
	s := strings.Trim(string(b), `"`)
	n, err := strconv.ParseUint(s, 0, bits)
	if err != nil {
		return 0, fmt.Errorf("%s is no number of %d bits, such as 17 or \"0x11\"", b, bits)
	}
	return n, nil
}

func (d hexData) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d), nil }

func (d *hexData) UnmarshalText(b []byte) error {
	out, err := hex.AppendDecode([]byte{}, b)
	*d = out
	return err
}

func (d dirName) MarshalText() ([]byte, error) { return []byte(Direction(d).String()), nil }

func (d *dirName) UnmarshalJSON(b []byte) error {
	switch s := strings.Trim(string(b), `"`); s {
	case "CALL", "0":
		*d = dirName(Call)
	case "REPLY", "1":
		*d = dirName(Reply)
	default:
		return fmt.Errorf("direction %s is neither CALL nor REPLY", b)
	}
	return nil
}

func (p *procName) UnmarshalJSON(b []byte) error {
	*p = procName(strings.Trim(string(b), `"`))
	return nil
}

func (c *codeName) UnmarshalJSON(b []byte) error {
	*c = codeName(strings.Trim(string(b), `"`))
	return nil
}
