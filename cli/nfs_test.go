package cli

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/rpc"
)

// What ended a transfer is said once: by the path it is about, and by what to do where that is known.
func TestExplain(t *testing.T) {
	at := rpc.Target{Scheme: "iwarp", Address: "192.0.2.1:20049"}
	dial := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 20049},
		Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "put", Path: "/f", Err: dial},
			"put /f: iwarp://192.0.2.1:20049: connection refused: nothing listens there; is the server running, and on this port?"},
		{&fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}, "write /dev/stdout: no space left on device"},
		{errors.New("lost"), "iwarp://192.0.2.1:20049: lost"},
	} {
		var f nfsFlags
		if got := f.explain(at, c.err).Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
