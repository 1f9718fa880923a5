package rpcmsg

import (
	"encoding/binary"
	"errors"
)

// Record marking (RFC 5531 §11): a record is a run of fragments, each behind a word whose highest bit
// says that it is the last one and whose other 31 bits are its length.
const (
	// MarkLen is the size of a fragment header.
	MarkLen = 4
	// MaxFragment is the longest fragment.
	MaxFragment = 1<<31 - 1

	lastFragment = 1 << 31
)

var (
	// ErrRecordSize: a record above the reader's limit.
	ErrRecordSize = errors.New("rpcmsg: record above the limit")
	// ErrFragments: a record in so many small fragments that it is an attack.
	ErrFragments = errors.New("rpcmsg: record in too many fragments")
)

// AppendMark appends the header of a fragment of n bytes, at most MaxFragment.
func AppendMark(b []byte, n int, last bool) []byte {
	if n < 0 || n > MaxFragment {
		panic("rpcmsg: fragment of a length that its header cannot say")
	}
	v := uint32(n)
	if last {
		v |= lastFragment
	}
	return binary.BigEndian.AppendUint32(b, v)
}

// ParseMark splits a fragment header.
func ParseMark(v uint32) (n int, last bool) {
	return int(v &^ lastFragment), v&lastFragment != 0
}

const (
	// A record may have freeFragments of any size, and one more for every fragmentBytes that
	// came. Real senders use fragments of 4000 bytes (the classic Sun library) and more.
	freeFragments = 64
	fragmentBytes = 256
	// firstBuffer is what is allocated on the word of a fragment header alone; from there on the
	// buffer doubles with what really came.
	firstBuffer = 64 << 10
)

// Records cuts a TCP stream into records. It reads no socket: bytes are given to Feed. A fault
// is the end of the stream, because nothing tells where the next record begins.
//
//	              4 bytes of header
//	   ┌────────────────────────────────────┐
//	   │                                    ▼
//	header ◄── fragment ends, not last ── fragment ── last one ends ──► record, header
type Records struct {
	max   int
	buf   []byte // the record so far, unless it could be cut out of what was fed
	mark  [MarkLen]byte
	have  int // bytes of mark
	left  int // bytes of the fragment to come
	frags int // of this record
	body  bool
	last  bool
	ended bool // the last call completed a record: buf starts anew
	err   error
}

// NewRecords cuts records of at most limit bytes.
func NewRecords(limit int) *Records { return &Records{max: limit} }

// SetBuffer gives the memory that the next record is put together in, if it is large
// enough and the record has to be. It is the caller's again when the record is complete. Only
// between records.
func (s *Records) SetBuffer(b []byte) { s.buf, s.ended = b[:0], false }

// Pending tells whether the stream is within a record: an end there is unexpected.
func (s *Records) Pending() bool { return s.body || s.have > 0 || s.frags > 0 }

// Feed takes bytes from the front of p up to the end of a record; n is how many. rec is
// the record, not nil, when it is complete: a view into p when it came in one piece, else memory of
// Records, or of SetBuffer, valid until the next call. Call again with p[n:] until it is empty.
func (s *Records) Feed(p []byte) (rec []byte, n int, err error) {
	for s.err == nil {
		if !s.body {
			k := copy(s.mark[s.have:], p[n:])
			s.have += k
			n += k
			if s.have < MarkLen {
				return nil, n, nil
			}
			if !s.begin() {
				break
			}
		}
		rest := p[n:]
		if len(s.buf) == 0 && s.last && s.left <= len(rest) {
			n += s.left
			rec = rest[:s.left:s.left]
			s.end()
			return rec, n, nil
		}
		for s.left > 0 && len(rest) > 0 {
			k := copy(s.space(), rest)
			s.buf = s.buf[:len(s.buf)+k]
			s.left -= k
			n += k
			rest = rest[k:]
		}
		if s.left > 0 {
			return nil, n, nil
		}
		if rec := s.endFragment(); rec != nil {
			return rec, n, nil
		}
	}
	return nil, n, s.err
}

// begin reads the fragment header that is complete now.
func (s *Records) begin() bool {
	if s.ended {
		s.buf, s.ended = s.buf[:0], false
	}
	s.left, s.last = ParseMark(binary.BigEndian.Uint32(s.mark[:]))
	s.have = 0
	s.frags++
	switch {
	case s.left > s.max-len(s.buf):
		s.err = ErrRecordSize
	case s.frags > freeFragments+len(s.buf)/fragmentBytes:
		s.err = ErrFragments
	}
	s.body = true
	return s.err == nil
}

// space is the free part of buf, cut at the end of the fragment. The buffer grows when it is full:
// it doubles, so that many fragments cost no more copying than one, up to the limit, or to the
// record's end where that is known.
func (s *Records) space() []byte {
	n := len(s.buf)
	if n == cap(s.buf) {
		size := min(max(2*n, firstBuffer), s.max)
		if s.last {
			size = min(size, n+s.left)
		}
		grown := make([]byte, n, size)
		copy(grown, s.buf)
		s.buf = grown
	}
	return s.buf[n:min(cap(s.buf), n+s.left)]
}

// endFragment returns the record if the fragment was the last one.
func (s *Records) endFragment() []byte {
	s.body = false
	if !s.last {
		return nil
	}
	rec := s.buf
	if rec == nil {
		rec = []byte{} // a record of no bytes
	}
	s.end()
	return rec[:len(rec):len(rec)]
}

func (s *Records) end() {
	s.body, s.last, s.ended = false, false, true
	s.left, s.frags = 0, 0
}
