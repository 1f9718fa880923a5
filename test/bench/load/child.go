package load

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"runtime"
	"runtime/debug"
)

// Request is a line from the driver.
type Request struct {
	Run  *Run `json:"run,omitempty"`
	Stat bool `json:"stat,omitempty"`
	Free bool `json:"free,omitempty"` // before the Stat
	Idle int  `json:"idle,omitempty"` // connections to open
}

// Ready is a child's first line.
type Ready struct {
	Addr  string `json:"ready"`
	Error string `json:"error,omitempty"`
}

// Serve is a server process: it announces addr and answers until in ends.
func Serve(in io.Reader, out io.Writer, addr string, err error) error {
	return child(in, out, nil, addr, err)
}

// Client is a client process: it connects p to addr and answers until in ends.
func Client(in io.Reader, out io.Writer, p Peer, addr string) error {
	err := p.Connect(context.Background(), addr)
	if err == nil {
		defer p.Close()
	}
	return child(in, out, p, addr, err)
}

func child(in io.Reader, out io.Writer, p Peer, addr string, err error) error {
	enc := json.NewEncoder(out)
	if err != nil {
		_ = enc.Encode(Ready{Error: err.Error()}) // the driver may be gone: err tells as much
		return err
	}
	if err := enc.Encode(Ready{Addr: addr}); err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var q Request
		var res Result
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return err
		}
		switch idler, _ := p.(Idler); {
		case q.Run != nil && p != nil:
			res = Drive(p, *q.Run)
		case q.Idle > 0 && idler == nil:
			res.Error = "it cannot keep idle connections"
		case q.Idle > 0:
			if err := idler.Idle(context.Background(), q.Idle); err != nil {
				res.Error = err.Error()
			}
		default:
			if q.Free {
				debug.FreeOSMemory()
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			res.Mallocs, res.Bytes = m.Mallocs, m.TotalAlloc
		}
		if err := enc.Encode(res); err != nil {
			return err
		}
	}
	return nil
}
