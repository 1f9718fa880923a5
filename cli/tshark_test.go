package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/cli/capture"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/wire"
	"github.com/rpcrdma/rpcrdma/ulp/nfs"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/server3"
)

// headerLog is a tap that decodes every Send as we do.
type headerLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *headerLog) Frame(_, _ netip.AddrPort, _ bool, parts ...[]byte) {
	msg, ok := sendOf(parts)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var h wire.Header
	if _, err := h.Parse(msg, wire.ProfileV1); err != nil {
		l.lines = append(l.lines, err.Error())
		return
	}
	l.lines = append(l.lines, asTshark(&h))
}

// asTshark writes a header as tshark does with the fields asked for below.
func asTshark(h *wire.Header) string {
	var handles, lengths, offsets []string
	add := func(s wire.Segment) {
		handles = append(handles, fmt.Sprintf("0x%08x", s.Handle))
		lengths = append(lengths, fmt.Sprint(s.Length))
		offsets = append(offsets, fmt.Sprintf("0x%016x", s.Offset))
	}
	for _, r := range h.Reads {
		add(r.Segment)
	}
	for _, w := range h.Writes {
		for _, s := range w {
			add(s)
		}
	}
	replies := 0
	if h.HasReply {
		replies = 1
		for _, s := range h.Reply {
			add(s)
		}
	}
	return fmt.Sprintf("0x%08x;%d;%d;%d;%d;%d;%d;%s;%s;%s", h.XID, h.Version, h.Credit, h.Proc, len(h.Reads), len(h.Writes), replies,
		strings.Join(handles, ","), strings.Join(lengths, ","), strings.Join(offsets, ","))
}

// TestTsharkAgrees captures an NFS session over iWARP, version 1, and compares what Wireshark's
// dissectors make of each transport header with what we do; CRCs and the layers above
// and below are theirs to judge as well.
func TestTsharkAgrees(t *testing.T) {
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("tshark is not installed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	name := filepath.Join(t.TempDir(), "x.pcapng")
	file, err := capture.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	ours := new(headerLog)
	session(t, ctx, rpc.WithTap(tee{file, ours}), rpc.WithVersions(1, 1), rpc.WithMoveAbove(1))
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}

	theirs := tshark(t, ctx, name, "rpcordma", "rpcordma.xid", "rpcordma.version", "rpcordma.flow_control", "rpcordma.msg_type", "rpcordma.reads_count",
		"rpcordma.writes_count", "rpcordma.reply_count", "rpcordma.rdma_handle", "rpcordma.rdma_length", "rpcordma.rdma_offset")
	if got, want := strings.Join(ours.lines, "\n"), strings.Join(theirs, "\n"); got != want || len(theirs) < 20 {
		t.Errorf("we decode\n%s\ntshark decodes\n%s", got, want)
	}
	// tshark 4.0 puts back what Read chunks moved, but not what iWARP Writes placed: it then finds
	// the data missing from a READ's reply.
	if bad := tshark(t, ctx, name, "_ws.malformed && !(nfs.procedure_v3 == 6 && rpc.msgtyp == 1) || iwarp_mpa.bad_length || iwarp_mpa.crc_check == 0 || tcp.analysis.flags", "frame.number"); len(bad) > 0 {
		t.Errorf("tshark finds fault with frames %v", bad)
	}
	if calls := tshark(t, ctx, name, "nfs.procedure_v3 == 7 && rpc.msgtyp == 0", "rpc.xid"); len(calls) == 0 {
		t.Error("tshark sees no WRITE call")
	}
	if calls := tshark(t, ctx, name, "nfs.procedure_v3 == 6 && rpc.msgtyp == 0", "rpc.xid"); len(calls) == 0 {
		t.Error("tshark sees no READ call")
	}
}

// session puts and gets a file.
func session(t *testing.T, ctx context.Context, opts ...rpc.Option) {
	t.Helper()
	export, err := server3.New(t.TempDir(), server3.Options{Squash: server3.SquashNone, Async: true})
	if err != nil {
		t.Fatal(err)
	}
	defer export.Close()
	l, err := rpc.Listen(ctx, "iwarp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := rpc.NewServer()
	export.Register(srv)
	go srv.Serve(context.WithoutCancel(ctx), l)
	defer srv.Close()
	client, err := rpc.NewClient(l.URL(), append(opts, rpc.WithAuthSys(rpcmsg.Sys{Machine: "test"}))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	fs, _, err := nfs.Mount(ctx, client, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int64{0, 1, 700, 5000, 200_000} {
		data := bytes.Repeat([]byte("0123456789abcdef"), int(n/16)+1)[:n]
		path := fmt.Sprintf("/file%d", n)
		if err := fs.Put(ctx, bytes.NewReader(data), n, path, nfs.Transfer{Chunk: 64 << 10}); err != nil {
			t.Fatal(err)
		}
		got := make(memory, n)
		if _, err := fs.Get(ctx, path, got, nfs.Transfer{Chunk: 64 << 10}); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("get: %v", err)
		}
	}
}

type memory []byte

func (m memory) WriteAt(b []byte, off int64) (int, error) { return copy(m[off:], b), nil }

// tshark prints fields of the frames that a filter takes, with semicolons between.
func tshark(t *testing.T, ctx context.Context, file, filter string, fields ...string) (lines []string) {
	t.Helper()
	args := []string{"-r", file, "-Y", filter, "-T", "fields", "-E", "separator=;", "-E", "occurrence=a", "-E", "aggregator=,"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	cmd := exec.CommandContext(ctx, "tshark", args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark %s: %v\n%s", filter, err, &errs)
	}
	for line := range strings.Lines(string(out)) {
		lines = append(lines, strings.TrimRight(line, "\n"))
	}
	return lines
}
