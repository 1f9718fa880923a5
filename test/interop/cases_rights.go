package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Who may do what, as a Linux client sees it.

// owner is who owns a file of the export.
func (t *T) owner(s *server, name string, uid, gid uint32) {
	var st syscall.Stat_t
	t.check(syscall.Lstat(filepath.Join(s.export, name), &st))
	if st.Uid != uid || st.Gid != gid {
		t.fatal("%s belongs to %d:%d, want %d:%d", name, st.Uid, st.Gid, uid, gid)
	}
}

var _ = add(&testCase{name: "permissions", what: "AUTH_SYS: owner, group, others, supplementary groups, sticky directories; nobody else's rights",
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve()
		t.script(g, 120*time.Second, `%s || fail mount
W=/host/work A="/host/work as 1000:1000" B="/host/work as 1001:1001" C="/host/work as 1002:1002,1000"
no() { "$@" 2>/dev/null && fail "allowed: $*"; :; }
mkdir -m 777 /mnt/d && cd /mnt/d
$A sh -c 'echo alice >own && chmod 600 own && echo group >grp && chmod 640 grp && echo all >all && chmod 644 all && echo exec >x && chmod 711 x' || fail create
$A cat own >/dev/null || fail "the owner may not read"
no $B cat own; no $B cat grp; $B cat all >/dev/null || fail "others may not read"
$C cat grp >/dev/null || fail "a supplementary group may not read"
no $C sh -c 'echo x >>grp'; no $B sh -c 'echo x >>all'; no $B chmod 777 all; no $B chown 1001 all; no $A chown 1001 all
$A chgrp 1000 all || fail chgrp
mkdir -m 1777 sticky && $A touch sticky/a && chmod 666 sticky/a
no $B rm -f sticky/a; no $B mv sticky/a sticky/b; $B touch sticky/mine && $B rm sticky/mine || fail "own file in a sticky directory"
mkdir -m 700 closed && touch closed/in; no $A ls closed; no $A cat closed/in; no $A touch closed/new
mkdir -m 2775 setgid && chown 0:1000 setgid && $C touch setgid/f || fail setgid
[ "$(stat -c %%g setgid/f)" = 1000 ] || fail "set-group-id is not inherited: $(stat -c %%g setgid/f)"
touch rootfile && chmod 600 rootfile && no $A cat rootfile && cat rootfile
cd / && umount /mnt`, s.line)
		t.owner(s, "d/own", 1000, 1000)
		t.owner(s, "d/rootfile", 0, 0)
	}})

var _ = add(&testCase{name: "squash", what: "--squash root, all, none and --anon UID:GID",
	run: func(t *T) {
		g := t.guest("cli")
		for _, c := range []struct {
			args       []string
			root, user [2]uint32
		}{
			{[]string{"--squash", "none"}, [2]uint32{0, 0}, [2]uint32{1000, 1000}},
			{[]string{"--squash", "root"}, [2]uint32{65534, 65534}, [2]uint32{1000, 1000}},
			{[]string{"--squash", "root", "--anon", "77:78"}, [2]uint32{77, 78}, [2]uint32{1000, 1000}},
			{[]string{"--squash", "all", "--anon", "77:78"}, [2]uint32{77, 78}, [2]uint32{77, 78}},
		} {
			s := t.serve(c.args...)
			t.script(g, 60*time.Second, `%s || fail mount
echo x >/mnt/root && /host/work as 1000:1000 sh -c 'echo x >/mnt/user' || fail create
cat /mnt/root /mnt/user >/dev/null && umount /mnt`, s.line)
			t.owner(s, "root", c.root[0], c.root[1])
			t.owner(s, "user", c.user[0], c.user[1])
			t.check(os.RemoveAll(s.export))
			s.end()
		}
	}})

var _ = add(&testCase{name: "read-only", what: "--read-only: everything can be read, nothing changed (EROFS)",
	run: func(t *T) {
		dir := filepath.Join(t.dir, "export")
		t.check(os.MkdirAll(dir, 0o755))
		t.check(os.WriteFile(filepath.Join(dir, "f"), []byte("content\n"), 0o666))
		g, s := t.guest("cli"), t.serve("--read-only")
		t.script(g, 60*time.Second, `%s || fail mount
[ "$(cat /mnt/f)" = content ] || fail read
no() { "$@" 2>/tmp/e && fail "allowed: $*"; grep -q 'Read-only file system' /tmp/e || fail "$*: $(cat /tmp/e)"; }
# Opening asks by ACCESS, whose answer leaves no room for the reason: Linux makes it EACCES, of every server.
sh -c 'echo x >>/mnt/f' 2>/dev/null && fail "allowed: append"
truncate -s 0 /mnt/f 2>/dev/null && fail "allowed: truncate"
no touch /mnt/new; no mkdir /mnt/d; no rm -f /mnt/f; no mv /mnt/f /mnt/g; no ln /mnt/f /mnt/h
no ln -s a /mnt/l; no chmod 600 /mnt/f
[ "$(cat /mnt/f)" = content ] || fail changed
umount /mnt`, s.line)
	}})

var _ = add(&testCase{name: "allow", what: "--allow: by default the listener's own networks; who is not on the list is refused by MOUNT and, with a handle got before, by NFS, over TCP and over RDMA",
	run: func(t *T) {
		g := t.guest("cli")
		s := t.serve()
		t.script(g, 60*time.Second, "%s && umount /mnt", s.line) // 10.78.0.0/24 is the listener's own
		s.end()
		s = t.serve("--allow", "10.99.0.0/16", "--allow", host4+"/32")
		out := t.script(g, 60*time.Second, "%s && fail mounted; true", s.line)
		if !strings.Contains(out, "access denied") {
			t.fatal("refused with %q", out)
		}
		// From our own address it is allowed.
		t.ours(true, "nfs", "ls", ourURL+"/")
		s.end()
		s = t.serve("--allow", "10.78.0.3")
		t.script(g, 60*time.Second, "%s && ls /mnt >/dev/null && umount /mnt", s.line)
		out = t.ours(false, "nfs", "ls", ourURL+"/")
		t.note("%s", strings.TrimSpace(out))
		// Who has handles from before, and then is no longer on the list, is refused each call but NULL. Both
		// mounts stay: the kernel connects to the new server and uses the handles it has.
		t.check(os.WriteFile(filepath.Join(s.export, "f"), []byte("held\n"), 0o644))
		byTCP := strings.NewReplacer("proto=rdma,port=20049", "proto=tcp,port=20048", "/mnt", "/tmp/tcp").Replace(s.line)
		t.script(g, 60*time.Second, "mkdir -p /tmp/tcp && %s && %s && cat /mnt/f /tmp/tcp/f && drop_caches", s.line, byTCP)
		s.end()
		s = t.serve("--allow", host4)
		for _, m := range []string{"/mnt", "/tmp/tcp"} {
			out := t.script(g, 60*time.Second, "for c in 'cat M/f' 'touch M/g' 'ls -l M'; do c=$(echo \"$c\" | sed s#M#%s#); $c 2>&1 && fail allowed: $c; done; true", m)
			// A mount's root that cannot be looked at is a stale handle to Linux.
			if n := strings.Count(out, "Permission denied"); n < 2 || n+strings.Count(out, "Stale file handle") < 3 {
				t.fatal("below %s: %s", m, out)
			}
		}
		out = t.script(g, 60*time.Second, "rpcinfo -a %s.%d.%d -T tcp 100003 3", host4, 20048>>8, 20048&255)
		t.note("%s", strings.TrimSpace(out))
		s.end()
		t.serve("--allow", "10.78.0.3")
		t.script(g, 60*time.Second, "for m in /mnt /tmp/tcp; do cat $m/f && umount $m || exit 1; done")
	}})

var _ = add(&testCase{name: "escape", what: "made-up handles, .. and symbolic links never leave the export",
	run: func(t *T) {
		g, s := t.guest("cli"), t.serve()
		secret := filepath.Join(t.dir, "secret")
		t.check(os.WriteFile(secret, []byte("not for you\n"), 0o644))
		t.check(os.Symlink("../secret", filepath.Join(s.export, "up")))
		t.check(os.Symlink(secret, filepath.Join(s.export, "abs")))
		t.check(os.Symlink("..", filepath.Join(s.export, "dir")))
		out := t.script(g, 60*time.Second, `%s || fail mount
ls -la /mnt/.. | head -3; [ "$(stat -c %%i /mnt/..)" = "$(stat -c %%i /)" ] || fail "/mnt/.. is not the guest's"
cat /mnt/up /mnt/abs /mnt/dir/secret 2>&1; readlink /mnt/up; umount /mnt`, s.line)
		if strings.Contains(out, "not for you") {
			t.fatal("a symbolic link led out of the export: %s", out)
		}
		// Linux resolves links itself and never asks for "..". A client that does is ours.
		t.escapes(s)
	}})
