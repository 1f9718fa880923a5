package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	gonfs "github.com/willscott/go-nfs"
	nfsc "github.com/willscott/go-nfs-client/nfs"
	nfsrpc "github.com/willscott/go-nfs-client/nfs/rpc"
	"github.com/willscott/go-nfs/helpers"
	"github.com/willscott/go-nfs/helpers/memfs"

	"github.com/rpcrdma/rpcrdma/test/bench/load"
)

// NFS version 3 over TCP as Go has it: go-nfs with files in memory, and go-nfs-client. READ and WRITE
// of one file each; echo is GETATTR, whose reply has about 100 bytes whatever is asked for.
func init() {
	register("gonfs", Stack{Serve: serveNFS, Client: func() load.Peer { return new(nfsPeer) },
		About: "willscott/go-nfs and its client, NFSv3 over TCP; echo is GETATTR"})
}

const nfsFile = "/read"

// nfsWrites is the file that a caller writes.
func nfsWrites(caller int) string { return fmt.Sprintf("/write%d", caller) }

func serveNFS() (string, error) {
	gonfs.Log.SetLevel(gonfs.ErrorLevel)
	files := memfs.New()
	create := func(name string, b []byte) error {
		f, err := files.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return err
		}
		_, err = f.Write(b)
		return errors.Join(err, f.Close())
	}
	if err := create(nfsFile, load.Pattern(1<<20)); err != nil {
		return "", err
	}
	for w := range load.MaxCallers { // CREATE fails on these files: they have no modes to be set
		if err := create(nfsWrites(w), nil); err != nil {
			return "", err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go gonfs.Serve(l, helpers.NewCachingHandler(helpers.NewNullAuthHandler(files), 2*load.MaxCallers))
	return l.Addr().String(), nil
}

type nfsPeer struct {
	conn   *nfsrpc.Client
	target *nfsc.Target
	handle []byte

	open    sync.Mutex // opening is not for several at once
	callers [load.MaxCallers]nfsCaller
}

type nfsCaller struct {
	read, write *nfsc.File
	mem         []byte
}

func (p *nfsPeer) Connect(ctx context.Context, addr string) (err error) {
	// The client binds a port of its own choice, which somebody else may have.
	for range 20 {
		if p.conn, err = nfsrpc.DialTCP("tcp", addr, false); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	if err != nil {
		return err
	}
	if p.target, err = (&nfsc.Mount{Client: p.conn}).Mount("/", nfsrpc.AuthNull); err != nil {
		return err
	}
	_, p.handle, err = p.target.Lookup(nfsFile)
	return err
}

func (p *nfsPeer) Close() error {
	p.conn.Close()
	return nil
}

func (p *nfsPeer) Do(_ context.Context, op load.Op, w, n int) error {
	c := &p.callers[w]
	switch op {
	case load.Echo:
		_, err := p.target.GetAttr(p.handle)
		return err
	case load.Read:
		if err := p.file(&c.read, func() (*nfsc.File, error) { return p.target.Open(nfsFile) }); err != nil {
			return err
		}
		c.mem = load.Memory(c.mem, n)
		if k, err := c.read.ReadAt(c.mem[:n], 0); k != n {
			return fmt.Errorf("READ of %d bytes gave %d: %w", n, k, err)
		}
		return load.Check(c.mem[:n], n)
	default:
		if err := p.file(&c.write, func() (*nfsc.File, error) { return p.target.OpenFile(nfsWrites(w), 0o644) }); err != nil {
			return err
		}
		if _, err := c.write.Seek(0, io.SeekStart); err != nil {
			return err
		}
		_, err := c.write.Write(load.Pattern(n))
		return err
	}
}

func (p *nfsPeer) file(f **nfsc.File, open func() (*nfsc.File, error)) (err error) {
	if *f == nil {
		p.open.Lock()
		defer p.open.Unlock()
		*f, err = open()
	}
	return err
}
