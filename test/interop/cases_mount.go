package main

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The kernel's client on our server.

var _ = add(&testCase{name: "mount-line", smoke: true,
	what: "Linux mounts us by the line that serve prints, writes, reads, unmounts; version 1 throughout",
	after: func(t *T, d *decoded) {
		if len(d.versions) != 1 || d.versions[1] == 0 {
			t.fatal("versions %v", d.versions)
		}
		// The same packets in the other format, as Wireshark's own tool writes it.
		file := filepath.Join(t.dir, "bridge.pcap")
		t.check(run("editcap", "-F", "pcapng", file, file+"ng"))
		ng, err := t.decode(file + "ng")
		t.check(err)
		if len(ng.sends) != len(d.sends) || !maps.Equal(ng.headers, d.headers) {
			t.fatal("decode shows another %d Sends in a pcapng file, %d in pcap", len(ng.sends), len(d.sends))
		}
	},
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve()
		if s.line != ourMount {
			t.fatal("the line is\n%s, not\n%s", s.line, ourMount)
		}
		out := t.script(g, 120*time.Second, `%s || fail mount
grep ' /mnt nfs ' /proc/mounts | grep 'vers=3' | grep 'proto=rdma' || fail "not version 3 over RDMA"
echo hello >/mnt/a && head -c 100000 /dev/urandom >/mnt/b && drop_caches || fail write
sha256sum </mnt/b
ls -l /mnt
cat /proc/self/mountstats >/host/stats
umount /mnt || fail umount
! grep ' /mnt ' /proc/mounts`, s.line)
		sum, _, _ := strings.Cut(lineWith(out, "  -"), " ")
		t.sameFile(filepath.Join(s.export, "b"), sum)
	}})

var _ = add(&testCase{name: "sizes-buffered", what: "files of 0 bytes to 8 MiB+1 through the page cache, the same digest on both sides",
	run: func(t *T) { t.sizes("buffered") }})

var _ = add(&testCase{name: "sizes-direct", what: "the same with O_DIRECT",
	run: func(t *T) { t.sizes("direct") }})

func (t *T) sizes(how string) {
	g, s := t.guest("cli"), t.serve()
	out := t.script(g, 240*time.Second, "%s && /host/work sizes /mnt %s && umount /mnt", s.line, how)
	n := 0
	for line := range strings.Lines(out) {
		if sum, name, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			t.sameFile(filepath.Join(s.export, name), sum)
			n++
		}
	}
	if n != 11 {
		t.fatal("%d files of 11: %s", n, out)
	}
}

// sameFile checks a file's digest on this side.
func (t *T) sameFile(name, sum string) {
	b, err := os.ReadFile(name)
	t.check(err)
	if got := fmt.Sprintf("%x", sha256.Sum256(b)); got != sum {
		t.fatal("%s has digest %s, in the guest %s", name, got, sum)
	}
}

func lineWith(text, what string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, what) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

var _ = add(&testCase{name: "mountstats", what: "chunk kinds, 4096 bytes inline, more than one call outstanding, no bad replies",
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve()
		t.script(g, 120*time.Second, `%s || fail mount
mkdir /mnt/d && touch /mnt/d/a /mnt/d/b && ln -s there /mnt/l || fail names
dd if=/dev/urandom of=/mnt/big bs=1M count=6 2>/dev/null && echo small >/mnt/small || fail write
drop_caches
readlink /mnt/l && ls -lR /mnt >/dev/null && cat /mnt/small >/dev/null || fail read
cat /mnt/big >/dev/null & cat /mnt/big >/dev/null; wait
cat /proc/self/mountstats >/host/stats
umount /mnt`, s.line)
		b, err := os.ReadFile(filepath.Join(g.share, "stats"))
		t.check(err)
		st, err := parseStats(string(b), "/mnt")
		t.check(err)
		t.note("%s", st)
		t.check(st.verdict())
		for _, want := range []struct {
			what string
			ok   bool
		}{
			{"WRITEs by Read chunk", st.readChunks > 0},
			{"READs by Write chunk", st.writeChunks > 0},
			{"READDIRPLUS or READLINK by Reply chunk", st.replyChunks > 0},
			{"registrations ended by our Send With Invalidate", st.localInv < st.readChunks+st.writeChunks+st.replyChunks},
			{"more than one call outstanding", st.maxSlots > 1},
		} {
			if !want.ok {
				t.fatal("no %s: %s", want.what, st)
			}
		}
	}})

var _ = add(&testCase{name: "directory-2000", what: "2,000 entries listed; a third removed and as many made while it is read: nothing missed, nothing twice",
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve()
		t.script(g, 300*time.Second, "%s && mkdir /mnt/d && /host/work dir /mnt/d 2000 && umount /mnt", s.line)
	}})

var _ = add(&testCase{name: "basic", what: "as connectathon's basic tests: trees, chmod, chown, times, truncate, hard and symbolic links, rename, statfs",
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve()
		t.script(g, 200*time.Second, "%s && mkdir /mnt/d && /host/work basic /mnt/d && umount /mnt", s.line)
	}})

var _ = add(&testCase{name: "general", what: "as connectathon's general tests: small programs on a tree: tar, find, sort, gzip, checksums, several at once",
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve()
		t.script(g, 300*time.Second, `%s || fail mount
cd /mnt && mkdir tree && cp -r /etc tree/etc && mkdir tree/many || fail tree
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do seq $i 400 >tree/many/$i; done
ln -s ../etc/passwd tree/many/link && chmod 750 tree/many && ln tree/many/1 tree/many/hard || fail links
(cd tree && find . -type f | sort | xargs sha256sum) >sums || fail sums
tar cf one.tar tree && mkdir copy && tar xpf one.tar -C copy || fail tar
drop_caches
(cd copy/tree && sha256sum -c ../../sums >/dev/null) || fail "the copy differs"
gzip -c one.tar >one.tar.gz && gunzip -c one.tar.gz | cmp - one.tar || fail gzip
for n in 1 2 3 4 5; do (sort -n tree/many/* >sorted.$n && sort -nr tree/many/* | sort -n | cmp - sorted.$n || echo bad >bad.$n) & done; wait
ls bad.* 2>/dev/null && fail sort
grep -c 17 sorted.1 >/dev/null && sed 's/1/one/g' sorted.1 | tr -d '\n' | wc -c >count || fail text
cp /bin/busybox busybox && chmod 755 busybox && ./busybox echo run from the mount || fail "run a program"
mv tree moved && rm -rf moved copy && ls -A /mnt | wc -l
cd / && umount /mnt`, s.line)
	}})

var _ = add(&testCase{name: "special", what: "as connectathon's special tests: removed and replaced while open, exclusive creation, holes, 4 GiB offsets, mappings",
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve()
		t.script(g, 200*time.Second, "%s && mkdir /mnt/d && /host/work special /mnt/d && umount /mnt", s.line)
	}})

var _ = add(&testCase{name: "rsize-wsize", what: "rsize and wsize of 4 KiB to 1 MiB",
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve()
		t.script(g, 300*time.Second, `head -c 1500001 /dev/urandom >/tmp/f
for n in 4096 8192 32768 131072 524288 1048576; do
	%s || fail "mount $n"
	grep ' /mnt ' /proc/mounts | grep -q "rsize=$n,wsize=$n" || fail "$n: $(grep ' /mnt ' /proc/mounts)"
	cp /tmp/f /mnt/f.$n && drop_caches && cmp /tmp/f /mnt/f.$n || fail "content with $n"
	umount /mnt || fail "umount $n"
done`, strings.Replace(s.line, "nolock", "nolock,rsize=$n,wsize=$n", 1))
	}})

var _ = add(&testCase{name: "parallel", what: "8 processes at once, each writing, reading, renaming",
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve()
		t.script(g, 240*time.Second, `%s && /host/work parallel /mnt 8 || fail work
cat /proc/self/mountstats >/host/stats
umount /mnt`, s.line)
		b, err := os.ReadFile(filepath.Join(g.share, "stats"))
		t.check(err)
		st, err := parseStats(string(b), "/mnt")
		t.check(err)
		t.note("%s", st)
		t.check(st.verdict())
	}})

var _ = add(&testCase{name: "errors", what: "which mistake gives which error; names of 255 and 256 bytes",
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve()
		t.script(g, 120*time.Second, "%s && mkdir /mnt/d && /host/work errors /mnt/d && umount /mnt", s.line)
	}})

var _ = add(&testCase{name: "wcc", what: "weak cache consistency: what the client changed itself it does not read again; what others change it does",
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve()
		t.script(g, 120*time.Second, "%s && /host/work cache /mnt && echo one >/mnt/shared && cat /mnt/shared", s.line)
		t.check(os.WriteFile(filepath.Join(s.export, "shared"), []byte("another content\n"), 0o644))
		// Opening asks for the attributes (close-to-open), so the change is seen at once.
		out := t.script(g, 60*time.Second, "cat /mnt/shared && umount /mnt")
		if out != "another content\n" {
			t.fatal("the guest reads %q after a change on the server", out)
		}
	}})

// typed are the command lines of a section of a document, with the addresses of its examples made ours.
func (t *T) typed(file, section string) (lines []string) {
	path, err := repoPath(file)
	t.check(err)
	b, err := os.ReadFile(path)
	t.check(err)
	_, text, _ := strings.Cut(string(b), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			lines = append(lines, strings.ReplaceAll(strings.TrimSpace(command), "192.0.2.1", host4))
		}
	}
	return lines
}

var _ = add(&testCase{name: "as-documented", what: "the command lines of README.md and docs/interop.md on mounting from Linux, typed as they stand on a client that has no RDMA device yet",
	run: func(t *T) {
		g := t.guest("cli")
		s := t.serve()
		for _, file := range []string{"README.md", "docs/interop.md"} {
			var prepare, mount []string
			for _, line := range t.typed(file, "Mount it from Linux") {
				switch word, _, _ := strings.Cut(line, " "); word {
				case "modprobe", "rdma":
					prepare = append(prepare, line)
				case "mount":
					mount = append(mount, line)
				}
			}
			if len(prepare) == 0 || len(mount) == 0 {
				t.fatal("%s has no such lines: %q, %q", file, prepare, mount)
			}
			for _, line := range mount {
				if line != s.line {
					t.fatal("%s has another mount command than serve prints:\n%s\n%s", file, line, s.line)
				}
			}
			t.script(g, 120*time.Second, `rdma link del siw0 && modprobe -r rpcrdma; modprobe -r siw
[ -e /sys/class/infiniband/siw0 ] && fail "siw0 is still there"
%s
%s || fail mount
echo %s >/mnt/typed && umount /mnt`, strings.Join(prepare, "\n"), mount[len(mount)-1], file)
			if b, err := os.ReadFile(filepath.Join(s.export, "typed")); err != nil || string(b) != file+"\n" {
				t.fatal("the file holds %q, %v", b, err)
			}
		}
	}})
