package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rpcrdma/rpcrdma/test/bench/drive"
)

// Result is one tool's figure.
type Result struct {
	Name    string
	Unit    string       // us: of a round trip; GB/s
	Value   float64      // the median
	X       drive.Spread // ratio to raw TCP: of latencies below 1 is better, of rates above
	Error   string       `json:",omitempty"`
	Missing string       `json:",omitempty"` // Debian's package that would have it
}

// tool is a program with a server's and a client's side.
type tool struct {
	name           string
	env            []string
	server, client []string
	latency        bool
	column         int     // of the last line that begins with a number, from 0
	scale          float64 // to microseconds a round trip, or GB/s
}

var packages = map[string]string{"ucx_perftest": "ucx-utils", "fi_pingpong": "libfabric-bin"}

const (
	ucxPort = "20061"
	fiPort  = "20062"
)

// all are the tools' runs: the operations nearest to echo, read and write.
func all() (list []tool) {
	const line = 1.048576 / 1000 // MiB/s to GB/s
	ucx := func(name, test string, size, count, column int, latency bool, scale float64) {
		list = append(list, tool{name: "UCX tcp, " + name, env: []string{"UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo"},
			server:  []string{"ucx_perftest", "-p", ucxPort},
			client:  []string{"ucx_perftest", "127.0.0.1", "-p", ucxPort, "-f", "-t", test, "-s", strconv.Itoa(size), "-n", strconv.Itoa(count), "-w", "200"},
			latency: latency, column: column, scale: scale})
	}
	// Columns of its last line: iterations; latency typical, average, overall in us; bandwidth average, overall in MB/s.
	ucx("active message, 64 B, latency", "ucp_am_lat", 64, 5000, 1, true, 2) // it shows half of a round trip
	ucx("get, 1 MiB", "ucp_get", 1<<20, 300, 5, false, line)
	ucx("put, 1 MiB", "ucp_put_bw", 1<<20, 300, 5, false, line)
	fi := func(provider, endpoint string) {
		for _, x := range []struct {
			what    string
			size, n int
			latency bool
			column  int
			scale   float64
		}{{"64 B, latency", 64, 2000, true, 6, 2}, {"1 MiB", 1 << 20, 100, false, 5, 1e-3}} {
			side := func(port string, more ...string) []string {
				return append([]string{"fi_pingpong", "-p", provider, "-e", endpoint, "-S", strconv.Itoa(x.size), "-I", strconv.Itoa(x.n), port, fiPort}, more...)
			}
			// Columns: bytes, sent, acknowledged, total, time, MB/s, us a transfer.
			list = append(list, tool{name: "libfabric " + provider + ", " + x.what, server: side("-B"), client: side("-P", "127.0.0.1"),
				latency: x.latency, column: x.column, scale: x.scale})
		}
	}
	fi("tcp", "msg")
	fi("tcp;ofi_rxm", "rdm")
	return list
}

// numbers is a line of results: its first word is a number, perhaps with a unit behind it.
var numbers = regexp.MustCompile(`(?m)^\s*(?:Final:\s+)?\d+[kKmM]?\s.*$`)

// parse is the figure in the tool's output.
func (t tool) parse(out []byte) (float64, error) {
	lines := numbers.FindAll(out, -1)
	if len(lines) == 0 {
		return 0, fmt.Errorf("no result in %.200q", out)
	}
	f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(string(lines[len(lines)-1])), "Final:"))
	if t.column >= len(f) {
		return 0, fmt.Errorf("no column %d in %q", t.column, f)
	}
	v, err := strconv.ParseFloat(strings.TrimRight(f[t.column], "kKmM"), 64)
	return v * t.scale, err
}

// started is how long a server may take until it listens.
const started = 300 * time.Millisecond

func (t tool) run(ctx context.Context) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	server := exec.CommandContext(ctx, t.server[0], t.server[1:]...)
	server.Env = append(os.Environ(), t.env...)
	if err := server.Start(); err != nil {
		return 0, err
	}
	defer func() {
		server.Process.Kill()
		_ = server.Wait() // it was told to end
	}()
	time.Sleep(started)
	client := exec.CommandContext(ctx, t.client[0], t.client[1:]...)
	client.Env = server.Env
	var out bytes.Buffer
	client.Stdout, client.Stderr = &out, &out
	err := client.Run()
	v, perr := t.parse(out.Bytes())
	if perr != nil {
		return 0, errors.Join(err, perr)
	}
	return v, nil
}

// Run measures every tool that is installed, pairs times.
func Run(ctx context.Context, pairs int, note func(string)) (results []Result, err error) {
	for _, t := range all() {
		r := Result{Name: t.name, Unit: "GB/s"}
		if t.latency {
			r.Unit = "us"
		}
		if _, err := exec.LookPath(t.server[0]); err != nil {
			r.Missing = packages[t.server[0]]
			results = append(results, r)
			continue
		}
		load := "read:1m:1"
		if t.latency {
			load = "echo:64:1"
		}
		w, err := drive.ParseWorkload(load)
		if err != nil {
			return nil, err
		}
		var values []float64
		r.X, err = drive.Beside("tcp", w, pairs, 250, func(ref drive.Sample) (float64, error) {
			note(t.name)
			v, err := t.run(ctx)
			if err != nil {
				return 0, err
			}
			values = append(values, v)
			if t.latency {
				return v / ref.P50, nil
			}
			return v / (ref.Rate * float64(w.N) / 1e9), nil
		})
		if err != nil {
			r.Error = err.Error()
		}
		r.Value = drive.Median(values)
		results = append(results, r)
	}
	return results, ctx.Err()
}
