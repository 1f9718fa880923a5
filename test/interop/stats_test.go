package main

import (
	"strings"
	"testing"
)

// sample is what a 6.1 kernel printed.
const sample = `device 10.78.0.1:/ mounted on /mnt with fstype nfs statvers=1.1
	opts:	rw,vers=3,rsize=1048576,wsize=1048576,proto=rdma
	xprt:	rdma 0 0 1 0 0 89 89 0 142 0 6 50 11 6435316 6291462 16 1628 0 2 0 0 0 0 12 9 0 0
	per-op statistics
	        NULL: 1 1 0 40 24 2 0 4 0
	     GETATTR: 5 5 0 520 560 4 11 16 0
`

func TestStats(t *testing.T) {
	s, err := parseStats("device x mounted on /proc with fstype proc\n"+sample, "/mnt")
	if err != nil {
		t.Fatal(err)
	}
	if s.sends != 89 || s.recvs != 89 || s.readChunks != 6 || s.writeChunks != 50 || s.replyChunks != 11 || s.failedMarshal != 2 ||
		s.localInv != 9 || s.maxSlots != 2 || s.ops["GETATTR"] != (op{5, 5, 0, 0}) {
		t.Errorf("%+v", s)
	}
	if err := s.verdict(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{
		strings.Replace(sample, "89 89 0 142", "89 89 3 142", 1), // bad XIDs
		strings.Replace(sample, "0 2 0 0 0 0 12", "0 2 1 0 0 0 12", 1),
		strings.Replace(sample, "GETATTR: 5 5", "GETATTR: 5 6", 1), // sent again
	} {
		if s, err := parseStats(bad, "/mnt"); err != nil || s.verdict() == nil {
			t.Errorf("nothing wrong with %s (%v)", bad, err)
		}
	}
	if _, err := parseStats(sample, "/else"); err == nil {
		t.Error("statistics of a mount that is not there")
	}
}
