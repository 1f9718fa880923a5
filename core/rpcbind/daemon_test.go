//go:build linux

package rpcbind

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/xdr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDaemon runs this test program's inDaemon tests beside the real rpcbind, in namespaces of their own: a
// machine has one port 111 and one /run.
func TestDaemon(t *testing.T) {
	if os.Getenv("RPCBIND_TEST_NAMESPACE") != "" {
		t.Skip("is the inner one")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, for namespaces with an rpcbind of its own")
	}
	if _, err := exec.LookPath("rpcbind"); err != nil {
		t.Skip("rpcbind is not installed: tools/need test")
	}
	if _, err := os.Stat("/etc/services"); err != nil {
		t.Skip("rpcbind finds no port without /etc/services: tools/need test")
	}
	if err := exec.Command("unshare", "-mn", "true").Run(); err != nil {
		t.Skip("no namespaces: unshare -mn:", err)
	}
	c := exec.Command("unshare", "-mn", os.Args[0], "-test.run", "^TestInNamespace$", "-test.v")
	c.Env = append(os.Environ(), "RPCBIND_TEST_NAMESPACE=1")
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestInNamespace") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// startDaemon starts rpcbind and waits until it answers.
func startDaemon(t *testing.T) {
	t.Helper()
	c := exec.Command("rpcbind", "-f")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
		os.Remove(Socket)
	})
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if cl, err := DialTCP(t.Context(), "127.0.0.1"); err == nil {
			cl.Close()
			return
		}
	}
	t.Fatal("rpcbind does not start")
}

// upLoopback brings lo up, which a new namespace has down.
func upLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}

func TestInNamespace(t *testing.T) {
	if os.Getenv("RPCBIND_TEST_NAMESPACE") == "" {
		t.Skip("is run by TestDaemon")
	}
	if err := errors.Join(upLoopback(), unix.Mount("none", "/run", "tmpfs", 0, ""), os.Mkdir("/run/rpcbind", 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Run("no daemon", func(t *testing.T) {
		if _, err := Register(t.Context(), Socket, nil); !errors.Is(err, unix.ENOENT) {
			t.Errorf("registered without an rpcbind: %v", err)
		}
	})
	for name, f := range map[string]func(*testing.T){"set, look up, unset": setAndLookup, "registration": registration, "whose it is": whoMay, "old versions": oldVersions} {
		t.Run(name, func(t *testing.T) {
			startDaemon(t)
			f(t)
		})
	}
}

func local(t *testing.T) *Client {
	t.Helper()
	c, err := DialLocal(t.Context(), Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func remote(t *testing.T, host string) *Client {
	t.Helper()
	c, err := DialTCP(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

const nfs, mountd = 100003, 100005

var sample = []Mapping{
	{Program: nfs, Version: 3, Netid: RDMA, Addr: "0.0.0.0.78.81"},
	{Program: nfs, Version: 3, Netid: RDMA6, Addr: "::.78.81"},
	{Program: nfs, Version: 3, Netid: TCP, Addr: "127.0.0.1.8.1"},
	{Program: mountd, Version: 3, Netid: TCP, Addr: "0.0.0.0.78.80"},
	{Program: mountd, Version: 3, Netid: TCP6, Addr: "::.78.80"},
}

func setAndLookup(t *testing.T) {
	c := local(t)
	for _, m := range sample {
		if ok, err := c.Set(t.Context(), m); !ok || err != nil {
			t.Fatalf("%v: %v, %v", m, ok, err)
		}
		if ok, err := c.Set(t.Context(), m); !ok || err != nil {
			t.Errorf("%v, the same again: %v, %v", m, ok, err)
		}
	}
	other := sample[0]
	other.Addr = "0.0.0.0.1.1"
	if ok, err := c.Set(t.Context(), other); ok || err != nil {
		t.Errorf("another address for the same: %v, %v", ok, err)
	}
	for _, q := range []*Client{c, remote(t, "127.0.0.1"), remote(t, "::1")} {
		for _, m := range sample {
			a, err := q.Lookup(t.Context(), m.Program, m.Version, m.Netid)
			want, _ := ParseUniversalAddr(m.Addr)
			if err != nil || a.Port() != want.Port() {
				t.Errorf("%v by %q: %v, %v", m, q.netid(), a, err)
			}
		}
		if _, err := q.Lookup(t.Context(), 0x20000001, 1, RDMA); !errors.Is(err, ErrNotRegistered) {
			t.Errorf("a program that is not there: %v", err)
		}
		if _, err := q.Lookup(t.Context(), 0x20000001, 1, TCP); !errors.Is(err, ErrNotRegistered) {
			t.Errorf("a program that is not there: %v", err)
		}
	}
	all, err := c.Dump(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range sample {
		m.Owner = "superuser"
		if !slices.Contains(all, m) {
			t.Errorf("%v is not in %v", m, all)
		}
	}
	// The daemon's own tool reads what we registered.
	out, err := exec.Command("rpcinfo").CombinedOutput()
	if s := string(out); err != nil || !strings.Contains(s, "rdma6") || !strings.Contains(s, "0.0.0.0.78.81") {
		t.Errorf("rpcinfo: %v\n%s", err, s)
	}
	for _, m := range sample {
		if ok, err := c.Unset(t.Context(), m); !ok || err != nil {
			t.Errorf("unset %v: %v, %v", m, ok, err)
		}
	}
	for _, m := range sample {
		if _, err := c.Lookup(t.Context(), m.Program, m.Version, m.Netid); !errors.Is(err, ErrNotRegistered) {
			t.Errorf("%v is still there: %v", m, err)
		}
	}
}

func registration(t *testing.T) {
	ctx := t.Context()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := func(addr string) Mapping { return Mapping{Program: nfs, Version: 3, Netid: RDMA, Addr: addr} }
	is := func(want string) {
		t.Helper()
		a, err := local(t).Lookup(ctx, nfs, 3, RDMA)
		if want == "" && errors.Is(err, ErrNotRegistered) {
			return
		}
		if err != nil || UniversalAddr(a) != want {
			t.Errorf("registered is %v, %v, want %q", a, err, want)
		}
	}
	stale, living := at("0.0.0.0.3.3"), at(UniversalAddr(l.Addr().(*net.TCPAddr).AddrPort()))
	killed, err := Register(ctx, Socket, []Mapping{stale})
	if err != nil {
		t.Fatal(err)
	}
	is(stale.Addr)
	r, err := Register(ctx, Socket, []Mapping{living})
	if err != nil {
		t.Fatalf("in place of a stale one: %v", err)
	}
	is(living.Addr)
	// The one that was replaced leaves the new one alone.
	if err := killed.Unregister(ctx); err != nil {
		t.Error(err)
	}
	is(living.Addr)
	var taken *TakenError
	mount := Mapping{Program: mountd, Version: 3, Netid: TCP, Addr: "0.0.0.0.4.4"}
	if _, err := Register(ctx, Socket, []Mapping{mount, stale}); !errors.As(err, &taken) || taken.Mapping.Addr != living.Addr {
		t.Errorf("in place of one that is alive: %v", err)
	}
	if _, err := local(t).Lookup(ctx, mountd, 3, TCP); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("half of what could not be registered is left: %v", err)
	}
	is(living.Addr)
	if err := errors.Join(r.Unregister(ctx), r.Unregister(ctx)); err != nil {
		t.Error(err)
	}
	is("")
}

// The socket tells rpcbind whose a registration is; TCP does not, and what root registered is not removed by it.
func whoMay(t *testing.T) {
	tcp, own := remote(t, "127.0.0.1"), local(t)
	if ok, err := own.Set(t.Context(), sample[0]); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if ok, err := tcp.Unset(t.Context(), sample[0]); ok || err != nil {
		t.Errorf("UNSET over TCP: %v, %v", ok, err)
	}
	if _, err := tcp.Set(t.Context(), sample[1]); err != nil {
		t.Fatal(err)
	}
	all, err := own.Dump(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if want := map[string]string{RDMA: "superuser", RDMA6: "unknown"}[m.Netid]; want != "" && m.Owner != want {
			t.Errorf("%v belongs to %q, want %q", m, m.Owner, want)
		}
	}
}

// rpcbind speaks version 2, too; a port mapper speaks nothing else.
func oldVersions(t *testing.T) {
	c := local(t)
	for _, m := range sample {
		if ok, err := c.Set(t.Context(), m); !ok || err != nil {
			t.Fatal(err)
		}
	}
	q := remote(t, "127.0.0.1")
	var port word
	if err := q.call(t.Context(), 2, procGetAddr, &pmap{program: mountd, version: 3, proto: protoTCP}, &port); err != nil || port != 20048 {
		t.Errorf("GETPORT: %d, %v", port, err)
	}
	var old pmaps
	if err := q.call(t.Context(), 2, procDump, nil, &old); err != nil || !slices.Contains(old, pmap{mountd, 3, protoTCP, 20048}) {
		t.Errorf("DUMP of version 2: %v, %v", old, err)
	}
	var ok flag
	if err := q.call(t.Context(), 5, procSet, &sample[0], &ok); !errors.Is(err, rpcmsg.ErrProgMismatch) {
		t.Errorf("version 5: %v", err)
	}
}

// mapper is a port mapper of version 2, and nothing else, that has one program.
func mapper(t *testing.T, answer func(h *rpcmsg.CallHeader, w *xdr.Writer)) *Client {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		records, buf := rpcmsg.NewRecords(maxRecord), make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			for p := buf[:n]; len(p) > 0; {
				record, used, _ := records.Feed(p)
				p = p[used:]
				if record == nil {
					continue
				}
				var h rpcmsg.CallHeader
				if h.Parse(xdr.NewReader(record)) != nil {
					return
				}
				var w xdr.Writer
				answer(&h, &w)
				conn.Write(w.AppendUnreduced(rpcmsg.AppendMark(nil, w.Len(), true)))
			}
			if err != nil {
				return
			}
		}
	}()
	c, err := DialLocal(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); l.Close(); <-done })
	return c
}

func TestPortMapper(t *testing.T) {
	c := mapper(t, func(h *rpcmsg.CallHeader, w *xdr.Writer) {
		reply := rpcmsg.ReplyHeader{XID: h.XID}
		if h.Version != 2 {
			reply.Accept, reply.Low, reply.High = rpcmsg.ProgMismatch, 2, 2
			reply.Append(w)
			return
		}
		reply.Append(w)
		pmaps{{nfs, 3, protoTCP, 2049}, {nfs, 3, 132, 2049}}.MarshalXDR(w)
	})
	a, err := c.Lookup(t.Context(), nfs, 3, TCP)
	if want := netip.MustParseAddrPort("0.0.0.0:2049"); err != nil || a != want {
		t.Errorf("%v, %v", a, err)
	}
	if _, err := c.Lookup(t.Context(), nfs, 3, RDMA); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("%v", err)
	}
}

// Who does not answer ends by the context; what makes no sense is an error.
func TestBadAnswers(t *testing.T) {
	mute := mapper(t, func(h *rpcmsg.CallHeader, w *xdr.Writer) { (&rpcmsg.ReplyHeader{XID: h.XID + 1}).Append(w) })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := mute.Dump(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer: %v", err)
	}
	for what, results := range map[string]func(w *xdr.Writer){
		"nothing":        func(*xdr.Writer) {},
		"half a mapping": func(w *xdr.Writer) { w.Bool(true); w.Uint32(1) },
		"no boolean":     func(w *xdr.Writer) { w.Uint32(7) },
		"surplus":        func(w *xdr.Writer) { w.Bool(false); w.Uint32(0) },
	} {
		c := mapper(t, func(h *rpcmsg.CallHeader, w *xdr.Writer) {
			(&rpcmsg.ReplyHeader{XID: h.XID}).Append(w)
			results(w)
		})
		if l, err := c.Dump(t.Context()); err == nil {
			t.Errorf("%s: %v", what, l)
		}
	}
}
