package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Ports that nobody is told: rpcbind has them.

// rpcbind starts Debian's rpcbind in the lab's network, with a /run and a user of its own, and has our programs started
// where they see its socket.
func (t *T) rpcbind() {
	programs := filepath.Join(t.cache, "programs")
	find := exec.Command("find", programs, "-path", "*bin/rpcbind", "-type", "f")
	out, err := find.Output()
	t.check(err)
	daemon := strings.TrimSpace(string(out))
	passwd := filepath.Join(t.dir, "passwd")
	t.check(os.WriteFile(passwd, []byte("root:x:0:0::/root:/bin/sh\n_rpc:x:100:65534::/run/rpcbind:/bin/false\n"), 0o644))
	log, err := os.Create(filepath.Join(t.dir, "rpcbind.log"))
	t.check(err)
	defer log.Close()
	c := t.command(context.Background(), "unshare", "-m", "sh", "-ec", fmt.Sprintf(`mount -t tmpfs tmpfs /run
mkdir /run/rpcbind
mount --bind %s /etc/passwd
LD_LIBRARY_PATH=%[2]s/lib/x86_64-linux-gnu:%[2]s/usr/lib/x86_64-linux-gnu exec %s -f`, passwd, programs, daemon))
	c.Stdout, c.Stderr = log, log
	t.check(c.Start())
	t.defer_(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	})
	t.wrap = []string{"nsenter", "-m", "-t", fmt.Sprint(c.Process.Pid)}
	if until(10*time.Second, func() bool {
		return t.command(t.ctx, append(t.wrap, "test", "-S", "/run/rpcbind.sock")...).Run() == nil
	}) != nil {
		t.fatal("rpcbind does not start: %s", tail(log.Name(), 5))
	}
}

var _ = add(&testCase{name: "rpcbind-mount", what: "serve --rpcbind: Linux mounts with plain -o vers=3,proto=rdma,nolock; after the end, nothing is registered",
	run: func(t *T) {
		g := t.guest("cli")
		t.rpcbind()
		s := t.serve("--rpcbind", "--mount-listen", "tcp://"+host4+":0")
		if strings.Contains(s.line, "mountport=20048") {
			t.fatal("MOUNT is where a client might look unasked: %s", s.line)
		}
		out := t.script(g, 120*time.Second, `mount -t nfs -o vers=3,proto=rdma,nolock %s:/ /mnt || fail mount
grep ' /mnt nfs ' /proc/mounts | grep 'vers=3' | grep 'proto=rdma' || fail "not version 3 over RDMA"
rpcinfo %[1]s
head -c 100000 /dev/urandom >/mnt/b && drop_caches && sha256sum </mnt/b && umount /mnt`, host4)
		sum, _, _ := strings.Cut(lineWith(out, "  -"), " ")
		t.sameFile(filepath.Join(s.export, "b"), sum)
		t.note("%s", out)
		for _, netid := range []string{"rdma", "tcp"} {
			for _, program := range []string{"100003", "100005"} {
				if fields := strings.Join(strings.Fields(lineWith(out, program+"    3    "+netid)), " "); fields == "" {
					t.fatal("program %s is not registered on %s:\n%s", program, netid, out)
				}
			}
		}
		t.note("%s", t.ours(true, "ping", "--rpcbind", "-c", "1", "iwarp://"+host4))
		s.end()
		if out := t.script(g, 60*time.Second, "rpcinfo %s", host4); strings.Contains(out, "rdma") || strings.Contains(out, "100005") {
			t.fatal("still registered:\n%s", out)
		}
	}})

var _ = add(&testCase{name: "knfsd-rpcbind", what: "our client finds knfsd's MOUNT by the server's rpcbind",
	run: func(t *T) {
		g := t.guest("srv")
		t.script(g, 60*time.Second, "mkdir -p /export/found && echo here >/export/found/f")
		out := t.ours(true, "nfs", "ls", "iwarp://"+g.addr+":20049/export/found")
		if strings.TrimSpace(out) != "f" {
			t.fatal("listed %q", out)
		}
		t.note("%s", t.ours(true, "ping", "--rpcbind", "--program", "100005", "-c", "1", "tcp://"+g.addr))
	}})
