package cli

import (
	"fmt"
	"net/netip"
	"testing"

	_ "github.com/rpcrdma/rpcrdma/providers/iwarp"
)

func TestMountLine(t *testing.T) {
	const options = "mount -t nfs -o vers=3,proto=%s,port=20049,mountproto=%s,mountport=20048,nolock %s:/ /mnt"
	for _, c := range []struct{ rdma, proto, mountproto, host string }{
		{"10.0.0.1:20049", "rdma", "tcp", "10.0.0.1"},
		{"[::ffff:10.0.0.1]:20049", "rdma", "tcp", "10.0.0.1"},
		{"[fd00::1]:20049", "rdma6", "tcp6", "[fd00::1]"},
		{"0.0.0.0:20049", "rdma", "tcp", "here"},
		{"[::]:20049", "rdma", "tcp", "here"},
	} {
		want := fmt.Sprintf(options, c.proto, c.mountproto, c.host)
		if got := mountLine(netip.MustParseAddrPort(c.rdma), netip.MustParseAddrPort("[::]:20048"), "here"); got != want {
			t.Errorf("%s:\n%s, want\n%s", c.rdma, got, want)
		}
	}
}

func TestMountAddress(t *testing.T) {
	for _, c := range []struct {
		flag   string
		listen []string
		want   string
		chosen bool
	}{
		{"", []string{"iwarp://10.0.0.1:20049"}, "tcp://10.0.0.1:20048", false},
		{"", []string{"tcp://10.0.0.2:2049", "iwarp://[fd00::1]"}, "tcp://[fd00::1]:20048", false},
		{"", []string{"iwarp://:20049"}, "tcp://:20048", false},
		{"", []string{"tcp://10.0.0.2:2049"}, "", false},
		{"none", []string{"iwarp://:20049"}, "", true},
		{"tcp://10.0.0.3", []string{"iwarp://:20049"}, "tcp://10.0.0.3:20048", true},
		{"tcp://[fd00::3]", []string{"iwarp://:20049"}, "tcp://[fd00::3]:20048", true},
		{"tcp://:4711", []string{"iwarp://:20049"}, "tcp://:4711", true},
	} {
		got, chosen, err := (&serveFlags{mount: c.flag, listen: c.listen}).mountAddress()
		if got != c.want || chosen != c.chosen || err != nil {
			t.Errorf("--mount-listen %q --listen %q: %q, %v, %v, want %q, %v", c.flag, c.listen, got, chosen, err, c.want, c.chosen)
		}
	}
	if _, _, err := (&serveFlags{mount: "iwarp://:20048", listen: []string{"iwarp://:1"}}).mountAddress(); err == nil {
		t.Error("MOUNT over iwarp was taken for a TCP address")
	}
}

func TestNetworks(t *testing.T) {
	local := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("10.1.2.3/16"), netip.MustParsePrefix("fd00::1/64")}
	for _, c := range []struct{ addr, want string }{
		{"10.1.2.3", "[10.1.0.0/16]"},
		{"fd00::1", "[fd00::/64]"},
		{"::", "[127.0.0.0/8 10.1.0.0/16 fd00::/64]"},
		{"127.0.0.7", "[127.0.0.0/8 ::1/128]"},
		{"192.0.2.1", "[192.0.2.1/32]"},
	} {
		if got := fmt.Sprint(networksOf(netip.MustParseAddr(c.addr), local)); got != c.want {
			t.Errorf("%s: %s, want %s", c.addr, got, c.want)
		}
	}
}
