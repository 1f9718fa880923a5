package cli

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

// message is a Send taken apart: what decode prints and encode reads.
type message struct {
	Header      *wire.Header `json:"header"`
	HeaderBytes int          `json:"header_bytes,omitempty"`
	Payload     string       `json:"payload,omitempty"` // hex
	RPC         *rpcReport   `json:"rpc,omitempty"`     // what the payload begins with
}

type rpcReport struct {
	XID       string `json:"xid"`
	Type      string `json:"type"`
	Program   uint32 `json:"program,omitempty"`
	Version   uint32 `json:"version,omitempty"`
	Procedure uint32 `json:"procedure,omitempty"`
	Status    string `json:"status,omitempty"`
}

func newDecode() *cobra.Command {
	var text string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "decode FILE | --hex HEX",
		Short: "show a capture, or a transport header, version 1 or 2",
		Long: `decode FILE shows the iWARP connections in a capture, pcap or pcapng: how each was
set up, every Send with its RPC-over-RDMA transport header and the RPC header behind it,
Read Requests and Terminates, one a line. A connection must begin in the capture.
With --json each line is an object.

decode --hex shows the one transport header that a Send begins with. HEX may have blanks,
line ends, colons and 0x; - reads it from standard input.`,
		Example: `  rpcrdma decode bridge.pcap
  rpcrdma decode --hex '11223344 00000001 00000020 00000000 00000000 00000000 00000000'
  rpcrdma decode --json --hex - <header.hex | rpcrdma encode --json -`,
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("hex") {
				return noArgs(cmd, args)
			}
			if len(args) == 0 {
				return fmt.Errorf("FILE or --hex is missing")
			}
			return wantArgs("FILE")(cmd, args)
		},
		RunE: work(func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				w := bufio.NewWriter(cmd.OutOrStdout())
				return errors.Join(decodeFile(args[0], w, asJSON), w.Flush())
			}
			if text == "-" {
				b, err := io.ReadAll(cmd.InOrStdin())
				if err != nil {
					return err
				}
				text = string(b)
			}
			b, err := parseHex(text)
			if err != nil {
				return usageError{err}
			}
			m, err := decode(b)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), m)
			}
			m.print(cmd.OutOrStdout())
			return nil
		}),
	}
	cmd.Flags().StringVar(&text, "hex", "", "the bytes of a Send, from the XID on; - for standard input")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, which encode reads")
	return cmd
}

// parseHex takes what people paste.
func parseHex(s string) ([]byte, error) {
	var clean strings.Builder
	for f := range strings.FieldsFuncSeq(s, func(r rune) bool { return strings.ContainsRune(" \t\r\n:,", r) }) {
		clean.WriteString(strings.TrimPrefix(f, "0x"))
	}
	b, err := hex.DecodeString(clean.String())
	var bad hex.InvalidByteError
	switch {
	case errors.As(err, &bad):
		return nil, fmt.Errorf("--hex: %q is no hexadecimal digit", rune(bad))
	case err != nil:
		return nil, fmt.Errorf("--hex: an odd number of digits (%d)", clean.Len())
	case len(b) == 0:
		return nil, fmt.Errorf("--hex: no bytes given")
	}
	return b, nil
}

func decode(b []byte) (*message, error) {
	m := &message{Header: new(wire.Header)}
	n, err := m.Header.Parse(b, wire.ProfileCel04)
	if err == nil && n < len(b) { // a header by itself is fine here
		err = m.Header.CheckRest(len(b) - n)
	}
	if err != nil {
		return nil, explain(err, len(b))
	}
	m.HeaderBytes, m.Payload = n, hex.EncodeToString(b[n:])
	m.RPC = peekRPC(b[n:])
	return m, nil
}

// explain adds to a refusal what a receiver would do about it.
func explain(err error, length int) error {
	var refused *wire.HeaderError
	if !errors.As(err, &refused) {
		return err
	}
	body, told := refused.Answer(wire.Call, wire.Version1, wire.Version2)
	if !told {
		return fmt.Errorf("%d bytes: %w; a receiver discards it and answers nothing", length, err)
	}
	return fmt.Errorf("%d bytes: %w; a responder answers %s", length, err, body.Text(refused.Version))
}

// peekRPC tells what RPC message b begins with, nil if none.
func peekRPC(b []byte) *rpcReport {
	xid, isReply, ok := rpcmsg.PeekType(b)
	if !ok {
		return nil
	}
	r := &rpcReport{XID: fmt.Sprintf("0x%08x", xid)}
	if isReply {
		var h rpcmsg.ReplyHeader
		r.Type = "REPLY"
		switch err := h.Parse(xdr.NewReader(b)); {
		case err != nil:
			r.Status = "malformed: " + oneLine(err)
		case h.Err() != nil:
			r.Status = oneLine(h.Err())
		default:
			r.Status = "success"
		}
		return r
	}
	var h rpcmsg.CallHeader
	r.Type = "CALL"
	if err := h.Parse(xdr.NewReader(b)); err != nil {
		r.Status = "malformed: " + oneLine(err)
	}
	r.Program, r.Version, r.Procedure = h.Program, h.Version, h.Proc
	return r
}

func (m *message) print(w io.Writer) {
	fmt.Fprintln(w, m.Header.Text(shippedNames()))
	fmt.Fprintf(w, "header %d bytes, payload %d bytes\n", m.HeaderBytes, len(m.Payload)/2)
	if r := m.RPC; r != nil {
		fmt.Fprintf(w, "rpc xid %s %s", r.XID, r.Type)
		if r.Type == "CALL" {
			fmt.Fprintf(w, " program %d version %d procedure %d", r.Program, r.Version, r.Procedure)
		}
		if r.Status != "" {
			fmt.Fprintf(w, " %s", r.Status)
		}
		fmt.Fprintln(w)
	}
}
