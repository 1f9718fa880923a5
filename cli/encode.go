package cli

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/rpcrdma/rpcrdma/core/wire"
)

func newEncode() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:     "encode --json FILE",
		Short:   "make a transport header, as hex, from the JSON that decode prints",
		Example: `  echo '{"rdma_xid":"0x11223344","rdma_vers":1,"rdma_credit":32,"rdma_proc":"RDMA_MSG"}' | rpcrdma encode --json -`,
		Args:    noArgs,
		RunE: work(func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usagef("--json is missing")
			}
			b, err := readInput(cmd.InOrStdin(), file)
			if err != nil {
				return err
			}
			out, err := encode(b)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%x\n", out)
			return err
		}),
	}
	cmd.Flags().StringVar(&file, "json", "", "file to read; - for standard input")
	return cmd
}

func readInput(in io.Reader, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(in)
	}
	return os.ReadFile(file)
}

// encode takes a header alone, or decode's whole answer with the payload.
func encode(b []byte) ([]byte, error) {
	var m message
	var probe struct {
		Header json.RawMessage `json:"header"`
	}
	if err := json.Unmarshal(b, &probe); err != nil {
		return nil, whereJSON(b, err)
	}
	var err error
	if probe.Header == nil {
		m.Header = new(wire.Header)
		err = json.Unmarshal(b, m.Header)
	} else {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		return nil, whereJSON(b, err)
	}
	payload, err := hex.DecodeString(m.Payload)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	return append(m.Header.Append(nil), payload...), nil
}

// whereJSON names the line of a syntax error.
func whereJSON(b []byte, err error) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	line := 1
	for _, c := range b[:min(int(syntax.Offset), len(b))] {
		if c == '\n' {
			line++
		}
	}
	return fmt.Errorf("line %d: %w", line, err)
}
