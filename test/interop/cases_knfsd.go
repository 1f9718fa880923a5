package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Our client on the kernel's server.

const (
	srv4       = "10.78.0.2"
	knfsd      = "iwarp://" + srv4 + ":20049"
	knfsdMount = srv4 + ":20048"
	mountFlag  = "--mountport=20048"
)

var knfsdSizes = []int{0, 1, 3, 4, 1000, 1021, 4096, 5000, 65539, 1 << 20, 8<<20 + 1}

// knfsd is a guest with the kernel's server and files f.SIZE; sums are their digests.
func (t *T) knfsd() (g *guest, sums map[string]string) {
	g = t.guest("srv")
	list := strings.Trim(fmt.Sprint(knfsdSizes), "[]")
	out := t.script(g, 90*time.Second, `cd /export
[ -e sums ] || { for n in %s; do head -c $n /dev/urandom >f.$n; done; sha256sum f.* >sums; sync; }
cat sums`, list)
	sums = map[string]string{}
	for line := range strings.Lines(out) {
		if sum, name, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			sums[name] = sum
		}
	}
	return g, sums
}

// fromServer are the Sends that came from port 20049.
func (d *decoded) fromServer(yes bool) (l []send) {
	for _, s := range d.sends {
		if strings.HasSuffix(s.from, ":20049") == yes {
			l = append(l, s)
		}
	}
	return l
}

// healthy checks the R flags of connections of ours to the kernel's server: it does not set its own.
func healthy(t *T, d *decoded) {
	for _, u := range d.setUps {
		if ours := !u.Reply; u.Rejected || ours != u.R {
			t.fatal("rejected %v, R flag %v of %s", u.Rejected, u.R, u.From)
		}
	}
}

// fallsBack checks that a connection begins with version 2, is answered ERR_VERS, and goes on with version 1.
func fallsBack(t *T, d *decoded) {
	healthy(t, d)
	state := map[int]int{}
	for _, s := range d.sends {
		ours := !strings.HasSuffix(s.from, ":20049")
		switch n := state[s.conn]; {
		case n == 0 && ours && s.header.Vers == 2:
			state[s.conn] = 1
		case n == 1 && !ours && strings.HasSuffix(s.header.Proc, "_ERROR") && strings.Contains(s.header.Err, "ERR_VERS"):
			state[s.conn] = 2
		case n >= 2 && s.header.Vers == 1:
			state[s.conn] = 3
		default:
			t.fatal("connection %d, step %d: %+v", s.conn, n, s.header)
		}
	}
	for c, n := range state {
		if n != 3 {
			t.fatal("connection %d did not get to version 1: step %d", c, n)
		}
	}
}

var _ = add(&testCase{name: "knfsd-fallback", smoke: true, after: fallsBack,
	what: "version 2 offered, ERR_VERS understood, version 1 on the same connection",
	run: func(t *T) {
		t.knfsd()
		out := t.ours(true, "ping", knfsd, "-c", "3")
		if !strings.Contains(out, "rpcrdma_version=1") {
			t.fatal("ping says: %s", out)
		}
	}})

var _ = add(&testCase{name: "knfsd-transfer", smoke: true, after: func(t *T, d *decoded) {
	fallsBack(t, d)
	inv := 0
	for _, s := range d.fromServer(true) {
		if strings.Contains(s.op, "Invalidate") {
			inv++
		}
	}
	if inv == 0 || d.reads == 0 {
		t.fatal("%d Sends with Invalidate, %d RDMA Reads", inv, d.reads)
	}
	t.note("%d Sends with Invalidate received, %d Read Requests", inv, d.reads)
}, what: "put and get of 0 bytes to 8 MiB+1; Send With Invalidate received",
	run: func(t *T) {
		g, sums := t.knfsd()
		for _, n := range knfsdSizes {
			name := fmt.Sprint("f.", n)
			local := filepath.Join(t.dir, name)
			t.ours(true, "nfs", "get", knfsd+"/export/"+name, local, mountFlag)
			t.sameFile(local, sums[name])
			t.ours(true, "nfs", "put", knfsd+"/export/p."+strconv.Itoa(n), local, mountFlag)
			t.check(os.Remove(local))
		}
		out := t.script(g, 60*time.Second, "cd /export && sha256sum p.* && rm p.*")
		for line := range strings.Lines(out) {
			sum, name, _ := strings.Cut(strings.TrimSpace(line), "  p.")
			if sums["f."+name] != sum {
				t.fatal("p.%s has another digest in the guest", name)
			}
		}
	}})

var _ = add(&testCase{name: "knfsd-version-1", after: healthy, what: "version 1 from the start; without a CRC; version 2 alone is refused with a word",
	run: func(t *T) {
		t.knfsd()
		t.ours(true, "ping", knfsd, "-c", "2", "--protocol", "1")
		t.ours(true, "ping", knfsd+"?crc=false", "-c", "2")
		t.note("%s", strings.TrimSpace(t.ours(false, "ping", knfsd, "-c", "1", "--protocol", "2")))
	}})

var _ = add(&testCase{name: "knfsd-names", after: func(t *T, d *decoded) {
	fallsBack(t, d)
	chunks := 0
	for _, s := range d.fromServer(true) {
		if s.header.Reply != nil && s.header.Proc == "RDMA_NOMSG" {
			chunks++
		}
	}
	if chunks == 0 {
		t.fatal("no reply came by Reply chunk")
	}
	t.note("%d replies by Reply chunk", chunks)
}, what: "ls of 700 entries, long links, stat, mkdir, rm: no reply overruns our receives though knfsd ignores their size",
	run: func(t *T) {
		g, _ := t.knfsd()
		t.script(g, 90*time.Second, `mkdir -p /export/names && cd /export/names && seq 700 | sed 's,^,an-entry-with-a-name-of-some-length-,' | xargs touch
ln -sf $(head -c 1000 /dev/zero | tr '\0' l) long`)
		out := t.ours(true, "nfs", "ls", knfsd+"/export/names", mountFlag)
		if n := strings.Count(out, "an-entry"); n != 700 {
			t.fatal("%d entries of 700", n)
		}
		t.ours(true, "nfs", "stat", knfsd+"/export/f.5000", mountFlag)
		t.ours(true, "nfs", "mkdir", knfsd+"/export/made", mountFlag)
		t.ours(true, "nfs", "rm", knfsd+"/export/names/an-entry-with-a-name-of-some-length-7", mountFlag)
		t.script(g, 60*time.Second, "[ -d /export/made ] && [ ! -e /export/names/an-entry-with-a-name-of-some-length-7 ] && rm -r /export/made /export/names")
	}})

var _ = add(&testCase{name: "knfsd-64-in-flight", after: func(t *T, d *decoded) {
	fallsBack(t, d)
	// On the wire: calls that have no reply yet.
	open, most := 0, 0
	for _, s := range d.sends {
		if strings.HasSuffix(s.from, ":20049") {
			open--
		} else {
			open++
		}
		most = max(most, open)
	}
	if most != 64 || open != 0 {
		t.fatal("%d calls were in flight, %d are left without a reply", most, open)
	}
}, what: "100 callers on one connection: 64 calls in flight, as granted, and never more",
	run: func(t *T) {
		t.knfsd()
		out := t.self("inflight", knfsd+"/export", knfsdMount, "100")
		if !strings.Contains(out, "granted 64") {
			t.fatal("%s", out)
		}
	}})

var _ = add(&testCase{name: "knfsd-100-connects", after: func(t *T, d *decoded) {
	fallsBack(t, d)
	if n := len(d.setUps) / 2; n != 100 {
		t.fatal("%d connections of 100", n)
	}
}, what: "100 connections one after the other, none hangs (siw loses wake-ups right after its MPA reply)",
	run: func(t *T) {
		t.knfsd()
		for i := range 100 {
			start := time.Now()
			t.ours(true, "ping", knfsd, "-c", "1")
			if d := time.Since(start); d > 5*time.Second {
				t.fatal("connection %d took %v", i+1, d)
			}
		}
	}})

var _ = add(&testCase{name: "knfsd-rebooted", faulty: true, what: "the server's machine is switched off and boots again in the middle: reconnect, retransmit, finish",
	run: func(t *T) {
		g, _ := t.knfsd()
		done := make(chan func())
		go func() {
			// self may end the case, which is for this goroutine's caller to do.
			var out string
			var fail any
			func() {
				defer func() { fail = recover() }()
				out = t.self("steady", knfsd+"/export", knfsdMount, "30")
			}()
			done <- func() {
				if fail != nil {
					panic(fail)
				}
				t.note("%s", strings.TrimSpace(out))
				if !strings.Contains(out, "over ") || strings.Contains(out, "over 1 connections") {
					t.fatal("nothing was interrupted: %s", out)
				}
			}
		}()
		time.Sleep(8 * time.Second)
		g.kill()
		time.Sleep(2 * time.Second)
		g, err := t.boot("srv", true)
		t.check(err)
		t.touched["srv"] = g
		if out, err := g.run(60*time.Second, "knfsd_up 8 && dmesg -c >/host/dmesg"); err != nil {
			t.fatal("knfsd after the reboot: %v\n%s", err, out)
		}
		(<-done)()
	}})

var _ = add(&testCase{name: "knfsd-ipv6", after: healthy, what: "the same over IPv6",
	run: func(t *T) {
		g, sums := t.knfsd()
		url := fmt.Sprintf("iwarp://[%s]:20049", g.six)
		t.ours(true, "ping", url, "-c", "2")
		local := filepath.Join(t.dir, "f")
		t.ours(true, "nfs", "get", url+"/export/f.65539", local, mountFlag)
		t.sameFile(local, sums["f.65539"])
	}})

var _ = add(&testCase{name: "kernel-to-kernel", what: "nothing of ours: what tshark complains of between two kernels is what it may complain of elsewhere",
	run: func(t *T) {
		srv, _ := t.knfsd()
		cli := t.guest("cli")
		t.script(cli, 200*time.Second, `mount -t nfs -o vers=3,proto=rdma,port=20049,mountproto=tcp,mountport=20048,nolock %s:/export /mnt || fail mount
mkdir /mnt/k && /host/work sizes /mnt/k buffered >/dev/null && /host/work sizes /mnt/k direct >/dev/null || fail sizes
cat /mnt/k/* >/dev/null & cat /mnt/k/* >/dev/null; wait
cat /proc/self/mountstats >/host/stats
rm -r /mnt/k && umount /mnt`, srv.addr)
		b, err := os.ReadFile(filepath.Join(cli.share, "stats"))
		t.check(err)
		st, err := parseStats(string(b), "/mnt")
		t.check(err)
		t.note("%s", st)
	}})
