package rpc

import (
	"context"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
)

// WithFallback serves the calls of programs that are not registered, which are answered with PROG_UNAVAIL otherwise: a
// relay passes them on by Client.CallRaw, Request.RawArgs and Request.ReplyRaw.
//
// choose names the method that serves a call. It may look at all of the Request but Args and Results, and runs on the
// goroutine that reads the connection, as does a Method that is Inline: it neither blocks nor calls out. The Method is used for
// this call alone, and not copied; one that is kept in a variable costs no allocation. An error is answered as a handler's is;
// nil and nil is PROG_UNAVAIL. Interceptors wrap the Handler, and see the Method. What Register has rules for is as the
// Method's Proc says, for this call:
//
//   - Proc.Idempotent: whether a repetition may be executed again. Else, and so where nothing is known of the procedure, the
//     duplicate request cache answers it (WithReplyCache). The cache knows a repetition by its credential among others: where a
//     flavor's differs from one sending to the next, as RPCSEC_GSS's does, no repetition is known.
//   - Proc.Binding: whether bulk results may be moved. Results of a call whose credential protects them never are.
//
// No mechanism of WithAuthFlavor concerns itself with these calls: Cred and Verf are as they came, of whatever
// flavor, and Identity is nil. Whoever passes a call on leaves it to the server behind to believe them.
func WithFallback(choose func(*Request) (*Method, error)) ServerOption {
	return serverOption(func(o *serverOptions) error {
		if o.fallback = choose; choose == nil {
			return isNil("WithFallback", "a function")
		}
		return nil
	})
}

// fallsBack reports whether r is for WithFallback.
func (s *Server) fallsBack(r *Request) bool {
	return s.opts.fallback != nil && (*s.programs.Load())[r.Program] == nil
}

// fallBack finds the method of a call that fallsBack.
func (s *Server) fallBack(r *Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.opts.log.Error("WithFallback's function panicked", "program", r.Program, "panic", p, "stack", stack())
			err = ErrSystem
		}
	}()
	m, err := s.opts.fallback(r)
	switch {
	case err != nil:
		return err
	case m == nil:
		return rpcmsg.ErrProgUnavail
	case m.Proc == nil || m.Handler == nil:
		s.opts.log.Error("WithFallback's function returned a method without Proc or Handler", "program", r.Program)
		return ErrSystem
	}
	r.Method, r.fellBack = m, true
	return nil
}

// handler serves r. Those of registered methods have the interceptors about them already.
func (r *Request) handler(s *Server) HandlerFunc {
	if r.fellBack {
		return s.fallen
	}
	return r.Method.Handler
}

// serveFallen is what the interceptors wrap, once for all calls that fall back.
func serveFallen(ctx context.Context, r *Request) error { return r.Method.Handler(ctx, r) }
