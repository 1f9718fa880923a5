package main

import (
	"fmt"
	"strconv"
	"strings"
)

// stats is what the kernel's client counted on one mount (/proc/self/mountstats).
type stats struct {
	sends, recvs, badXIDs    int
	maxSlots                 int
	readChunks, writeChunks  int // calls that offered one
	replyChunks              int
	pullups, fixups, hardway int
	failedMarshal, badReply  int
	nomsgCalls               int
	recovered, orphaned      int
	localInv                 int
	ops                      map[string]op
}

// op is one procedure's line: calls, transmissions, timeouts, errors.
type op struct{ calls, sent, timeouts, errs int }

// parseStats reads the entry of a mount point. The fields of an xprt line for rdma are, from
// the transport's name on (net/sunrpc/xprtrdma/transport.c, xprt_rdma_print_stats): port, binds, connects, connect
// time, idle time, sends, receives, bad XIDs, requests and backlog added up; then the read, write and reply
// chunks, total request and reply bytes of RDMA, pull-ups, fix-ups, hard-way registrations, failed marshalling, bad
// replies, calls without a message, recovered, orphaned, allocated regions, local invalidations, empty send queues,
// repeated registrations.
func parseStats(text, mount string) (s *stats, err error) {
	_, text, ok := strings.Cut(text, " mounted on "+mount+" ")
	if !ok {
		return nil, fmt.Errorf("nothing is mounted on %s", mount)
	}
	text, _, _ = strings.Cut(text, "\ndevice ")
	s = &stats{ops: map[string]op{}}
	inOps, xprt := false, false
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) > 2 && f[0] == "xprt:" && f[1] == "rdma":
			n := make([]int, 0, 32)
			for _, v := range f[2:] {
				k, err := strconv.Atoi(v)
				if err != nil {
					return nil, fmt.Errorf("xprt line: %w: %s", err, line)
				}
				n = append(n, k)
			}
			if len(n) < 26 {
				return nil, fmt.Errorf("an xprt line of %d numbers", len(n))
			}
			xprt = true
			s.sends, s.recvs, s.badXIDs = n[5], n[6], n[7]
			s.readChunks, s.writeChunks, s.replyChunks = n[10], n[11], n[12]
			s.pullups, s.fixups, s.hardway, s.failedMarshal, s.badReply = n[15], n[16], n[17], n[18], n[19]
			s.nomsgCalls, s.recovered, s.orphaned, s.localInv = n[20], n[21], n[22], n[24]
			if s.sends > 0 {
				s.maxSlots = (n[8] + s.sends - 1) / s.sends
			}
		case strings.HasPrefix(strings.TrimSpace(line), "per-op"):
			inOps = true
		case inOps && len(f) > 8 && strings.HasSuffix(f[0], ":"):
			var o op
			for i, p := range []*int{&o.calls, &o.sent, &o.timeouts} {
				*p, _ = strconv.Atoi(f[i+1])
			}
			o.errs, _ = strconv.Atoi(f[len(f)-1])
			s.ops[strings.TrimSuffix(f[0], ":")] = o
		}
	}
	if !xprt {
		return nil, fmt.Errorf("no statistics of an rdma transport")
	}
	return s, nil
}

func (s *stats) String() string {
	return fmt.Sprintf("sent %d, received %d, bad XIDs %d; chunks: read %d, write %d, reply %d; bad replies %d, failed to marshal %d, "+
		"local invalidations %d, recovered %d, orphaned %d, calls without a message %d, outstanding %d on the average", s.sends, s.recvs, s.badXIDs, s.readChunks, s.writeChunks, s.replyChunks,
		s.badReply, s.failedMarshal, s.localInv, s.recovered, s.orphaned, s.nomsgCalls, s.maxSlots)
}

// verdict is an error if anything was counted that must not happen on a healthy connection. Failed marshalling is
// ordinary: the client ran out of registrations and made more.
func (s *stats) verdict() error {
	if s.badXIDs+s.badReply+s.orphaned > 0 {
		return fmt.Errorf("the kernel's client counted faults: %s", s)
	}
	for name, o := range s.ops {
		if o.timeouts > 0 || o.sent > o.calls {
			return fmt.Errorf("%s: %d calls, %d sent, %d timed out", name, o.calls, o.sent, o.timeouts)
		}
	}
	return nil
}
