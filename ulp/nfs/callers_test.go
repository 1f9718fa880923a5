//go:build linux

package nfs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/ulp/nfs"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/server3"
)

// BenchmarkCallers has 64 callers of one connection, as one user or as 64 users of 16 groups each, whose right to their files comes
// from the last of their groups. cpu-ns/op is the processor time of both ends for one call.
func BenchmarkCallers(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root: files of several owners")
	}
	const callers, block = 64, 4096
	for _, users := range []int{1, callers} {
		for _, op := range []string{"GETATTR", "READ", "WRITE"} {
			b.Run(fmt.Sprintf("%s/users=%d", op, users), func(b *testing.B) {
				s := serve(b, "iwarp://127.0.0.1:0", server3.Options{})
				var auths [callers]rpcmsg.Auth
				var files [callers]nfs3.Handle
				for i := range callers {
					user := uint32(2000 + i%users)
					sys := rpcmsg.Sys{Machine: "bench", UID: user, GID: user}
					for g := range uint32(15) {
						sys.GIDs = append(sys.GIDs, 10000+100*user+g)
					}
					sys.GIDs = append(sys.GIDs, 1000)
					var err error
					if auths[i], err = sys.Auth(); err != nil {
						b.Fatal(err)
					}
					name := filepath.Join(s.dir, fmt.Sprint(i))
					if err := os.WriteFile(name, pattern(block), 0o600); err != nil {
						b.Fatal(err)
					}
					if err := os.Chown(name, 1000, 1000); err != nil {
						b.Fatal(err)
					}
					if err := os.Chmod(name, 0o660); err != nil {
						b.Fatal(err)
					}
					n, err := s.fs.Stat(b.Context(), "/"+fmt.Sprint(i))
					if err != nil {
						b.Fatal(err)
					}
					files[i] = n.Handle
				}
				call := func(i int, buf []byte) error {
					cred := rpc.WithCred(&auths[i])
					switch op {
					case "GETATTR":
						var res nfs3.GetAttrRes
						if err := s.c.Call(b.Context(), nfs.NFS3[nfs3.ProcGetAttr], &nfs3.HandleArgs{Object: files[i]}, &res, cred); err != nil {
							return err
						}
						return status(res.Status)
					case "READ":
						res := nfs3.ReadRes{Dst: buf}
						if err := s.c.Call(b.Context(), nfs.NFS3[nfs3.ProcRead], &nfs3.ReadArgs{File: files[i], Count: block}, &res, cred, rpc.Into(buf)); err != nil {
							return err
						}
						return status(res.Status)
					}
					var res nfs3.WriteRes
					if err := s.c.Call(b.Context(), nfs.NFS3[nfs3.ProcWrite], &nfs3.WriteArgs{File: files[i], Count: block, Data: buf}, &res, cred); err != nil {
						return err
					}
					return status(res.Status)
				}
				for i := range callers { // the server has opened what it needs
					if err := call(i, make([]byte, block)); err != nil {
						b.Fatal(err)
					}
				}
				var before, after unix.Rusage
				unix.Getrusage(unix.RUSAGE_SELF, &before)
				b.ResetTimer()
				var wg sync.WaitGroup
				var left atomic.Int64
				left.Store(int64(b.N))
				for i := range callers {
					wg.Go(func() {
						buf := make([]byte, block)
						for left.Add(-1) >= 0 {
							if err := call(i, buf); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				unix.Getrusage(unix.RUSAGE_SELF, &after)
				spent := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
				b.ReportMetric(float64(spent)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

func status(s nfs3.Status) error {
	if s == nfs3.OK {
		return nil
	}
	return s
}
