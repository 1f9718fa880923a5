package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// What happens to a Linux client when things end in the middle.

// noise is what the guest's kernel says of a server that went away and came back.
const noise = `not responding|not responding, timed out|server .* OK|rpcrdma: connection to|siw: .*(llp|tcp|close|mpa|connect)`

// disturb calls fault when the guest's long write of total bytes has passed n, and sees to it that it has not ended by then.
func (t *T) disturb(g *guest, n, total int, fault func()) {
	at := func() int {
		b, _ := os.ReadFile(filepath.Join(g.share, "stream.at"))
		at, _ := strconv.Atoi(string(b))
		return at
	}
	t.check(until(120*time.Second, func() bool { return at() >= n }))
	fault()
	if got := at(); got >= total {
		t.fatal("the write of %d bytes was through before it was disturbed", total)
	}
}

var _ = add(&testCase{name: "server-killed", faulty: true, alarm: noise,
	what: "our server killed with -9 in mid-write and started again: the client goes on, data right, handles still valid",
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve()
		t.script(g, 60*time.Second, "rm -f /host/stream.at; %s && echo held >/mnt/held", s.line)
		j, err := g.start("exec 3</mnt/held; /host/work stream /mnt/big 16777216 || exit 1; cat <&3; exec 3<&-; echo again >>/mnt/held && cat /mnt/held && umount /mnt")
		t.check(err)
		t.disturb(g, 5<<20, 16<<20, s.kill9)
		time.Sleep(2 * time.Second)
		s.start()
		out, err := j.wait(240 * time.Second)
		if err != nil || !strings.Contains(out, "held\nheld\nagain\n") {
			t.fatal("%v\n%s", err, out)
		}
		sum, _, _ := strings.Cut(out, "\n")
		t.sameFile(filepath.Join(s.export, "big"), sum)
	}})

var _ = add(&testCase{name: "link-down", faulty: true, alarm: noise,
	what: "the guest's cable is out for 10 s in mid-write: the client goes on, data right",
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve()
		t.script(g, 60*time.Second, "rm -f /host/stream.at; %s", s.line)
		j, err := g.start("/host/work stream /mnt/big 12582912 && umount /mnt")
		t.check(err)
		t.disturb(g, 3<<20, 12<<20, func() { t.check(g.link(false)) })
		time.Sleep(10 * time.Second)
		t.check(g.link(true))
		out, err := j.wait(240 * time.Second)
		if err != nil {
			t.fatal("%v\n%s", err, out)
		}
		sum, _, _ := strings.Cut(out, "\n")
		t.sameFile(filepath.Join(s.export, "big"), sum)
	}})

var _ = add(&testCase{name: "interface-down", faulty: true, alarm: noise,
	what: "the guest's interface is taken down for 10 s in mid-write, which ends siw's connections: the client makes a new one",
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve()
		t.script(g, 60*time.Second, "rm -f /host/stream.at; %s", s.line)
		j, err := g.start("/host/work stream /mnt/big 12582912 && umount /mnt")
		t.check(err)
		t.disturb(g, 3<<20, 12<<20, func() { t.script(g, 60*time.Second, "ip link set eth0 down") })
		t.script(g, 60*time.Second, "sleep 10; ip link set eth0 up; ip addr add %s/64 dev eth0 nodad; true", g.six)
		out, err := j.wait(240 * time.Second)
		if err != nil {
			t.fatal("%v\n%s", err, out)
		}
		sum, _, _ := strings.Cut(out, "\n")
		t.sameFile(filepath.Join(s.export, "big"), sum)
	}})

var _ = add(&testCase{name: "commit-verifier", faulty: true, alarm: noise,
	what: "unstable writes, a server that starts anew with another verifier, COMMIT: the client sends again what it had not on disk",
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve()
		t.script(g, 60*time.Second, "%s", s.line)
		const size = 24 << 20
		j, err := g.start(fmt.Sprintf(`/host/work unstable /mnt/f %d && grep -A40 ' /mnt ' /proc/self/mountstats | grep -E '^ *(WRITE|COMMIT):'; umount /mnt`, size))
		t.check(err)
		file := filepath.Join(s.export, "f")
		t.check(until(60*time.Second, func() bool { st, err := os.Stat(file); return err == nil && st.Size() >= size/4 }))
		s.kill9()
		if st, err := os.Stat(file); err != nil || st.Size() == size {
			t.fatal("all writes were through before the server was killed")
		}
		// What a crash would lose: all that the server had not promised yet.
		t.check(os.Truncate(file, 0))
		s.start()
		out, err := j.wait(120 * time.Second)
		if err != nil {
			t.fatal("%v\n%s", err, out)
		}
		t.note("%s", out)
		sum, _, _ := strings.Cut(out, "\n")
		t.sameFile(filepath.Join(s.export, "f"), sum)
	}})

var _ = add(&testCase{name: "many-mounts", what: "mounted and unmounted 20 times: every connection ends, none is left at the server",
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve()
		t.script(g, 200*time.Second, "for i in $(seq 20); do %s && ls /mnt >/dev/null && umount /mnt || fail round $i; done", s.line)
		// A connection that nobody closed would still have its socket.
		var out string
		err := until(10*time.Second, func() bool {
			b, _ := t.command(t.ctx, "ss", "-Htn", "state", "established", "( sport = :20049 )").Output()
			out = string(b)
			return strings.TrimSpace(out) == ""
		})
		if err != nil {
			t.fatal("connections are left: %s", out)
		}
	}})

var _ = add(&testCase{name: "ipv6-mount", what: "the same over IPv6 (proto=rdma6)",
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve("--listen", fmt.Sprintf("iwarp://[%s]:20049", host6))
		if want := "proto=rdma6,port=20049,mountproto=tcp6"; !strings.Contains(s.line, want) {
			t.fatal("the line %s lacks %s", s.line, want)
		}
		out := t.script(g, 120*time.Second, `%s || fail mount
grep ' /mnt nfs ' /proc/mounts | grep 'proto=rdma6' || fail "not rdma6"
head -c 300000 /dev/urandom >/mnt/b && drop_caches && sha256sum </mnt/b && ls -l /mnt && umount /mnt`, s.line)
		sum, _, _ := strings.Cut(lineWith(out, "  -"), " ")
		t.sameFile(filepath.Join(s.export, "b"), sum)
	}})
