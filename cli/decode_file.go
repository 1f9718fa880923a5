package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/rpcrdma/rpcrdma/cli/capture"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

// frameReport is one line of decode FILE: one of its parts from SetUp on is there.
type frameReport struct {
	Packet int     `json:"packet"` // as Wireshark numbers them
	Time   float64 `json:"time"`   // seconds after the first packet
	Conn   int     `json:"connection"`
	From   string  `json:"from"`
	To     string  `json:"to"`

	SetUp       *setUpReport `json:"mpa,omitempty"`
	Op          string       `json:"op,omitempty"` // of RDMAP
	Length      int          `json:"length,omitempty"`
	Invalidates string       `json:"invalidates,omitempty"`
	Message     *message     `json:"message,omitempty"`
	Refused     string       `json:"refused,omitempty"` // why Message is none
	Source      string       `json:"source,omitempty"`  // handle of a Read Request
	Problem     string       `json:"problem,omitempty"`
	End         bool         `json:"end,omitempty"`
}

type setUpReport struct {
	Reply    bool   `json:"reply"`
	Revision uint8  `json:"revision"`
	CRC      bool   `json:"crc"`
	Rejected bool   `json:"rejected,omitempty"`
	IRD      uint16 `json:"ird"`
	ORD      uint16 `json:"ord"`
	Private  bool   `json:"private_data"` // RFC 8797's
	R        bool   `json:"remote_invalidate"`
	SendSize int    `json:"send_size"`
	RecvSize int    `json:"receive_size"`
}

// decodeFile prints what a capture shows of iWARP connections.
func decodeFile(name string, out io.Writer, asJSON bool) error {
	names := shippedNames()
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := capture.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	var start time.Time
	var werr error
	show := func(e capture.Event) {
		r := reportEvent(e, start)
		if asJSON {
			werr = errors.Join(werr, writeLine(out, r))
			return
		}
		_, err := fmt.Fprintln(out, r.text(names))
		werr = errors.Join(werr, err)
	}
	find := capture.NewFinder(show)
	for werr == nil {
		var p capture.Packet
		if p, err = r.Next(); err != nil {
			break
		}
		if start.IsZero() {
			start = p.Time
		}
		find.Packet(p)
	}
	if werr != nil {
		return werr
	}
	if !asJSON {
		printTotals(out, &find.Totals)
	}
	switch {
	case err != io.EOF:
		return fmt.Errorf("%s: %w", name, err)
	case find.Connections == 0 && find.Earlier > 0:
		return fmt.Errorf("%s: no iWARP connection begins in it; %d TCP connections were there before it began", name, find.Earlier)
	case find.Connections == 0:
		return fmt.Errorf("%s: no iWARP connection in it", name)
	}
	return nil
}

func printTotals(w io.Writer, t *capture.Totals) {
	fmt.Fprintf(w, "%d packets, %d iWARP connections; %d Sends, %d with Invalidate; %d RDMA Writes of %s, %d Read Responses of %s\n",
		t.Packets, t.Connections, t.Sends, t.Invalidates, t.Writes, size(t.WriteBytes), t.Reads, size(t.ReadBytes))
	fmt.Fprintf(w, "%d FPDUs, %d with a CRC, %d wrong; %d segments out of order, %d sent again\n", t.FPDUs, t.WithCRC, t.BadCRC, t.OutOfOrder, t.Retransmitted)
	if t.Cut > 0 {
		fmt.Fprintf(w, "%d packets were captured in part only\n", t.Cut)
	}
	if t.Earlier > 0 {
		fmt.Fprintf(w, "%d TCP connections began before the capture and were left out\n", t.Earlier)
	}
}

func reportEvent(e capture.Event, start time.Time) frameReport {
	r := frameReport{Packet: e.Packet, Time: e.Time.Sub(start).Seconds(), Conn: e.Conn, From: e.From.String(), To: e.To.String(), Problem: e.Problem, End: e.End}
	switch {
	case e.SetUp != nil:
		p, ok := wire.ParsePrivate(e.SetUp.Private)
		r.SetUp = &setUpReport{Reply: e.SetUp.Reply, Revision: e.SetUp.Revision, CRC: e.SetUp.CRC, Rejected: e.SetUp.Rejected,
			IRD: e.SetUp.Depths.IRD, ORD: e.SetUp.Depths.ORD, Private: ok, R: p.RemoteInvalidate, SendSize: p.SendSize, RecvSize: p.RecvSize}
	case e.Send != nil:
		r.Op, r.Length = e.Op.String(), len(e.Send)
		if e.Op.Invalidates() {
			r.Invalidates = fmt.Sprintf("0x%08x", e.STag)
		}
		var err error
		if r.Message, err = decode(e.Send); err != nil {
			r.Refused = oneLine(err)
		} else {
			r.Message.Payload = "" // files would be long
		}
	case e.Read != nil:
		r.Op, r.Length, r.Source = e.Op.String(), int(e.Read.Size), fmt.Sprintf("0x%08x", e.Read.SourceSTag)
	case e.Terminate != nil:
		r.Op, r.Problem = e.Op.String(), e.Terminate.Fault.Text()
	}
	return r
}

// text is the line that is printed.
func (r frameReport) text(names *wire.Names) string {
	s := fmt.Sprintf("%6d %10.6f  #%d %s > %s  ", r.Packet, r.Time, r.Conn, r.From, r.To)
	switch {
	case r.SetUp != nil:
		return s + r.SetUp.String()
	case r.Message != nil:
		s += fmt.Sprintf("%s, %d bytes", r.Op, r.Length)
		if r.Invalidates != "" {
			s += " of " + r.Invalidates
		}
		s += ": " + r.Message.Header.Text(names)
		if m := r.Message.RPC; m != nil {
			s += "; rpc " + m.Type
			if m.Type == "CALL" {
				s += fmt.Sprintf(" %d.%d.%d", m.Program, m.Version, m.Procedure)
			}
			if m.Status != "" {
				s += " " + m.Status
			}
		}
		return s
	case r.Refused != "":
		return s + r.Op + ": " + r.Refused
	case r.Source != "":
		return s + fmt.Sprintf("%s, %d bytes from %s", r.Op, r.Length, r.Source)
	case r.End:
		return s + "end"
	case r.Op != "":
		return s + r.Op + ": " + r.Problem
	}
	return s + "cannot go on: " + r.Problem
}

func (m *setUpReport) String() string {
	s := "MPA request"
	if m.Reply {
		s = "MPA reply"
	}
	if m.Rejected {
		s += ", rejected"
	}
	s += fmt.Sprintf(", revision %d, CRC %v, IRD %d, ORD %d", m.Revision, m.CRC, m.IRD, m.ORD)
	if !m.Private {
		return s + "; no private data of RFC 8797"
	}
	return s + fmt.Sprintf("; sends %d, receives %d, remote invalidation %v", m.SendSize, m.RecvSize, m.R)
}
