package server3

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/ulp/nfs"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/mount3"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// Register adds NFS and MOUNT to r.
func (s *Server) Register(r *rpc.Server) {
	s.RegisterNFS(r)
	s.RegisterMount(r)
}

// RegisterNFS adds the NFS program alone.
func (s *Server) RegisterNFS(r *rpc.Server) {
	r.Register(nfs3.Program, nfs3.Version, s.methods(nfs.NFS3[:], procs[:], true)...)
}

// RegisterMount adds the MOUNT program alone, for a listener of its own.
func (s *Server) RegisterMount(r *rpc.Server) {
	r.Register(mount3.Program, mount3.Version, s.methods(nfs.Mount3[:], mountProcs[:], false)...)
}

// methods leaves out NULL, which the transport's server answers, to anybody (RFC 1813 §3.3.0). guard:
// refuse peers that the export is not for; MOUNT says so in its own words.
func (s *Server) methods(ps []*rpc.Proc, run []func(*call) error, guard bool) []rpc.Method {
	var ms []rpc.Method
	for i, p := range ps {
		if run[i] != nil {
			ms = append(ms, rpc.Method{Proc: p, Handler: s.handler(run[i], guard)})
		}
	}
	return ms
}

var calls = sync.Pool{New: func() any { return new(call) }}

// requestMemory is the memory of a request's connection.
type requestMemory struct{ *rpc.Request }

func (m requestMemory) buffer(n int) (buffer, error) { return m.Request.Buffer(n) }

func (s *Server) handler(run func(*call) error, guard bool) rpc.HandlerFunc {
	return func(_ context.Context, req *rpc.Request) error {
		c := calls.Get().(*call)
		defer c.recycle() // may end the goroutine
		c.Server, c.args, c.res, c.mem, c.peer = s, req.Args, req.Results, requestMemory{req}, req.RemoteAddr()
		if guard && !s.allowed(c.peer) {
			return &rpcmsg.AuthError{Stat: rpcmsg.AuthTooWeak}
		}
		var err error
		if c.cred, err = s.identify(req.Cred, &c.sys); err != nil {
			return err
		}
		if err := run(c); errors.Is(err, errGarbage) {
			return fmt.Errorf("%w: %w", rpc.ErrGarbageArgs, err)
		} else if err != nil {
			return err
		}
		return nil
	}
}

// recycle ends the request's uses and keeps the call for another. A thread that has not got its own rights back ends here, with
// its goroutine, before anything else runs on it; rpc answers the call.
func (c *call) recycle() {
	c.done()
	gids, stuck := c.sys.GIDs, c.stuck
	*c = call{}
	c.sys.GIDs = gids[:0]
	calls.Put(c)
	if stuck {
		runtime.Goexit()
	}
}
