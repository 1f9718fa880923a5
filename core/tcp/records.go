package tcp

import (
	"errors"
	"io"
	"net"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// keepBuffer is the largest buffer for writing that an idle connection keeps.
const keepBuffer = 64 << 10

// appendRecord appends msg as a record of one fragment.
func appendRecord(b []byte, msg *xdr.Writer) []byte {
	return msg.AppendUnreduced(rpcmsg.AppendMark(b, msg.Len(), true))
}

// kept is b for use again, unless a large message has made it large.
func kept(b []byte) []byte {
	if cap(b) > keepBuffer {
		return nil
	}
	return b[:0]
}

// readRecords calls f with each record, which f keeps, until the stream ends or f fails.
func readRecords(r io.Reader, limit int, t *ticker, f func([]byte) error) error {
	records := rpcmsg.NewRecords(limit)
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		for p := buf[:n]; len(p) > 0; {
			rec, used, ferr := records.Feed(p)
			p = p[used:]
			if ferr != nil {
				return ferr
			}
			if rec != nil {
				t.partial(false)
				if len(rec) <= len(buf) {
					rec = append(make([]byte, 0, len(rec)), rec...) // it may be a view into buf
				} else {
					records.SetBuffer(nil) // the record keeps its memory
				}
				if ferr := f(rec); ferr != nil {
					return ferr
				}
			}
		}
		t.partial(records.Pending())
		switch {
		case err == io.EOF && records.Pending():
			return io.ErrUnexpectedEOF
		case err == io.EOF || errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		}
	}
}
