package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// The kernel's server and ours in one machine, on one file system: the same calls must get the same answers.

// beside starts our server in the guest of the kernel's, both on /small: ext4 of its own, with ACLs, quotas and a part that is
// reserved for root. squash is of both, size of the file system.
func (t *T) beside(squash, size string) (g *guest, theirs, ours string) {
	g = t.guest("srv")
	t.check(run("cp", filepath.Join(t.bin, "rpcrdma"), g.share))
	export := map[string]string{"none": "no_root_squash", "root": "root_squash", "all": "all_squash"}[squash]
	t.script(g, 90*time.Second, `umount /small 2>/dev/null
modprobe loop && modprobe quota_v2 && modprobe ext4 || fail modprobe
mkdir -p /small && rm -f /tmp/small && truncate -s %s /tmp/small
mkfs.ext4 -q -m 25 -E lazy_itable_init=1,lazy_journal_init=1 -O quota /tmp/small || fail mkfs
mount -o loop,acl,usrquota,grpquota /tmp/small /small || fail mount
chmod 755 /small
exportfs -o rw,%s,no_subtree_check,insecure,sync,fsid=77 '*:/small' || fail exportfs
echo 0 >/proc/sys/fs/protected_hardlinks # that is for open(2) and link(2) of processes; knfsd does not ask for it
cp /host/rpcrdma /tmp/ && rm -f /host/ours.out || fail cp
/tmp/rpcrdma serve nfs --export /small --squash %s --allow any --state /tmp/state --async \
	--listen iwarp://%s:20060 --mount-listen none >/host/ours.out 2>&1 &
echo $! >/tmp/ours.pid
n=100; until grep -q listening /host/ours.out; do n=$((n-1)); [ $n -gt 0 ] || fail "$(cat /host/ours.out)"; usleep 100000; done`, size, export, squash, g.addr)
	t.defer_(func() {
		out, err := g.run(30*time.Second, `kill $(cat /tmp/ours.pid); n=50; while [ -d /proc/$(cat /tmp/ours.pid) ] && [ $n -gt 0 ]; do n=$((n-1)); usleep 100000; done
exportfs -u '*:/small'; umount /small || fail umount; echo 1 >/proc/sys/fs/protected_hardlinks; cat /host/ours.out`)
		if err != nil && t.failure == "" {
			t.failure = fmt.Sprintf("taking down: %v: %s", err, out)
		}
	})
	return g, "iwarp://" + g.addr + ":20049/small", "iwarp://" + g.addr + ":20060/"
}

// objects makes what the part "rights" looks at.
const objects = `cd /small && umask 0 && for d in k o; do mkdir $d && cd $d
for f in plain:644 group:640 none:0 exec:711 acl:600 aclgroup:660 suid:6777 sgid:2767 sgidx:2777 immutable:666; do
	echo data >${f%%:*}; chown 1000:1000 ${f%%:*}; chmod ${f##*:} ${f%%:*}; done
setfacl -m u:1003:rw,g::---,m::rw acl && setfacl -m g::---,g:8:r--,u:1001:rwx,m::rw aclgroup || fail setfacl
chattr +i immutable || fail chattr
for n in open:777 closed:700 listed:744 passed:711 sticky:1777 shared:2777 acldir:700 aclsplit:700 acldefault:777; do
	mkdir ${n%%:*}; echo in >${n%%:*}/in; mkdir ${n%%:*}/sub; chmod 555 ${n%%:*}/sub; echo v >${n%%:*}/victim; mkdir ${n%%:*}/empty
	chown -R 1000:1000 ${n%%:*}; chmod ${n##*:} ${n%%:*}; done
setfacl -m u:1003:rwx,g::---,m::rwx acldir && setfacl -m g:50:-w-,g:51:--x,m::rwx aclsplit && setfacl -d -m u:1003:rwx,g::r-x,o::---,m::r-x acldefault || fail setfacl
cd ..; done; sync
`

var _ = add(&testCase{name: "rights-as-knfsd", what: "8 callers, 19 files and directories with modes, ACLs, set-id bits: our server answers 2,000 calls as the kernel's does, with --squash none, root and all",
	run: func(t *T) {
		for _, squash := range []string{"none", "root", "all"} {
			g, theirs, ours := t.beside(squash, "24M")
			t.script(g, 60*time.Second, "%s", objects)
			want := t.self("rights", theirs, knfsdMount, "k")
			got := t.self("rights", ours, "", "o")
			t.compare("squash "+squash, want, got)
			t.unwind()
		}
	}})

// compare fails at the first line in which two transcripts differ.
func (t *T) compare(what, want, got string) {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	var differ []string
	for i := range max(len(w), len(g)) {
		at := func(l []string) string {
			if i < len(l) {
				return l[i]
			}
			return "nothing"
		}
		if at(w) != at(g) {
			differ = append(differ, fmt.Sprintf("the kernel's: %s\n    ours: %s", at(w), at(g)))
		}
	}
	t.note("%s: %d answers", what, len(w))
	if len(differ) > 0 {
		t.fatal("%s: %d of %d answers differ:\n%s", what, len(differ), len(w), strings.Join(differ[:min(len(differ), 60)], "\n"))
	}
}

var _ = add(&testCase{name: "reserved-as-knfsd", what: "blocks reserved for root, and quotas: both servers refuse at the same byte, and root neither",
	run: func(t *T) {
		// A user's quota binds where there is room enough, too.
		for _, c := range []struct{ size, uid, reason string }{{"24M", "1002", "NFS3ERR_NOSPC"}, {"24M", "0", "NFS3ERR_NOSPC"}, {"24M", "1005", "NFS3ERR_DQUOT"}, {"3G", "1005", "NFS3ERR_DQUOT"}} {
			g, theirs, ours := t.beside("none", c.size)
			t.script(g, 60*time.Second, `cd /small && mkdir -m 777 k o && setquota -u 1005 0 2048 0 0 /small && sync || fail setquota`)
			want := t.self("fill", theirs, knfsdMount, "k", c.uid)
			got := t.self("fill", ours, "", "o", c.uid)
			t.note("%s, user %s: %s", c.size, c.uid, strings.TrimSpace(got))
			t.compare(c.size+", user "+c.uid, want, got)
			if !strings.Contains(got, c.reason) {
				t.fatal("user %s: want %s: %s", c.uid, c.reason, got)
			}
			t.unwind()
		}
	}})
