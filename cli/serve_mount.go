package cli

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/rpcrdma/rpcrdma/core/rpc"
)

// mountPort is where MOUNT is served unless --mount-listen says otherwise: what servers that
// fix the port use.
const mountPort = "20048"

// mountAddress is the URL that MOUNT is served on by TCP, "" for none; chosen tells that the user
// named it. Without --mount-listen it is served where the first RDMA address is, because Linux's
// mount program asks for MOUNT by TCP or UDP only, never by RDMA.
func (f *serveFlags) mountAddress() (url string, chosen bool, err error) {
	switch f.mount {
	case "none":
		return "", true, nil
	case "":
		for _, s := range f.listen {
			t, err := target(s)
			if err != nil {
				return "", false, err
			}
			if host, _, err := net.SplitHostPort(t.Address); t.Scheme != "tcp" && err == nil {
				return "tcp://" + net.JoinHostPort(host, mountPort), false, nil
			}
		}
		return "", false, nil
	}
	t, err := target(f.mount)
	if err != nil {
		return "", true, err
	}
	if t.Scheme != "tcp" {
		return "", true, usagef("--mount-listen %s: want tcp://, which is how clients ask for MOUNT", f.mount)
	}
	// A target without a port has NFS's, which is not what is meant here.
	if rest := strings.TrimPrefix(f.mount, "tcp://"); rest == strings.Trim(rest, "/") && !hasPort(rest) {
		host, _, _ := net.SplitHostPort(t.Address)
		return "tcp://" + net.JoinHostPort(host, mountPort), true, nil
	}
	return f.mount, true, nil
}

func hasPort(hostport string) bool {
	i := strings.LastIndexByte(hostport, ':')
	return i >= 0 && !strings.HasSuffix(hostport, "]") && i < len(hostport)-1
}

// mountLine is the command by which a Linux client mounts what listens at rdma, complete without
// rpcbind and lockd. host stands for an address that is every address.
func mountLine(rdma, mount netip.AddrPort, host string) string {
	proto, mountproto := "rdma", "tcp"
	if a := rdma.Addr().Unmap(); !a.IsUnspecified() {
		host = a.String()
		if a.Is6() {
			proto, mountproto, host = "rdma6", "tcp6", "["+host+"]"
		}
	}
	return fmt.Sprintf("mount -t nfs -o vers=3,proto=%s,port=%d,mountproto=%s,mountport=%d,nolock %s:/ /mnt", proto, rdma.Port(), mountproto, mount.Port(), host)
}

// mountLines are those for all RDMA listeners; none if MOUNT is not served by TCP.
func mountLines(listeners []*rpc.Listener, mount *rpc.Listener) (lines []string) {
	host, err := os.Hostname()
	if err != nil {
		host = "HOST"
	}
	for _, l := range listeners {
		if mount != nil && !strings.HasPrefix(l.URL(), "tcp:") {
			lines = append(lines, mountLine(l.Addr(), mount.Addr(), host))
		}
	}
	return lines
}

// ownNetworks are the subnets of the addresses that urls listen on: who may use a server
// that was not told whom to allow.
func ownNetworks(ctx context.Context, urls []string) ([]netip.Prefix, error) {
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var local []netip.Prefix
	for _, a := range interfaces {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				ones, _ := n.Mask.Size()
				local = append(local, netip.PrefixFrom(ip.Unmap(), ones))
			}
		}
	}
	var all []netip.Prefix
	for _, s := range urls {
		t, err := target(s)
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(t.Address)
		if err != nil {
			return nil, err
		}
		addrs := []netip.Addr{netip.IPv6Unspecified()}
		if host != "" {
			if addrs, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
				return nil, advise(t, err)
			}
		}
		for _, a := range addrs {
			all = append(all, networksOf(a.Unmap(), local)...)
		}
	}
	return all, nil
}

// networksOf are the local networks that hold a, all of them if a is unspecified.
func networksOf(a netip.Addr, local []netip.Prefix) (found []netip.Prefix) {
	for _, n := range local {
		if a.IsUnspecified() || n.Addr() == a.WithZone("") {
			found = append(found, n.Masked())
		}
	}
	// An address of 127.0.0.0/8 need not be configured to be bound.
	if len(found) == 0 && a.IsLoopback() {
		return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	if len(found) == 0 {
		found = append(found, netip.PrefixFrom(a.WithZone(""), a.BitLen()))
	}
	return found
}
