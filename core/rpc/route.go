package rpc

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// RouteError is a route that was tried, and why it failed.
type RouteError struct {
	Route Route
	Err   error
}

func (e *RouteError) Error() string { return e.Route.String() + ": " + e.Err.Error() }
func (e *RouteError) Unwrap() error { return e.Err }

// NoRouteError: none of the routes to a target led to a connection, or to a listener.
type NoRouteError struct {
	Op     string // "connect to" or "listen on"
	Target Target
	Tried  []*RouteError // in order; the routes behind the last of them were not tried
	Err    error         // the resolver's error, or the context's where that ended the attempt; else nil
}

func (e *NoRouteError) Error() string {
	var each []string
	if e.Err != nil {
		each = append(each, e.Err.Error())
	}
	for _, t := range e.Tried {
		if len(e.Tried) == 1 && t.Route.is(e.Target) {
			each = append(each, t.Err.Error())
		} else {
			each = append(each, t.Error())
		}
	}
	if len(each) == 0 {
		each = []string{"there is no route to it"}
	}
	return e.Op + " " + e.Target.Scheme + "://" + e.Target.Address + ": " + strings.Join(each, "; ")
}

// Unwrap returns Err and the errors of the routes.
func (e *NoRouteError) Unwrap() []error {
	var errs []error
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	for _, t := range e.Tried {
		errs = append(errs, t)
	}
	return errs
}

// is reports whether r adds nothing to t.
func (r *Route) is(t Target) bool {
	return r.Scheme == t.Scheme && r.Address == t.Address && r.Local == t.Local && r.Fabric == ""
}

// The operations of NoRouteError.
const (
	opDial   = "connect to"
	opListen = "listen on"
)

// TakenRoute is the route that a connection or a listener has taken, and those before it that failed.
type TakenRoute struct {
	Route   Route
	Skipped []*RouteError
}

// follow tries routes in order, until one leads somewhere or fails in a way that says something about the peer, not about
// the route.
func follow(ctx context.Context, op string, t Target, o *connOptions, routes []Route, try func(*Route) error) (TakenRoute, error) {
	var tried []*RouteError
	var ended error
	for i := range routes {
		r := &routes[i]
		err := r.check()
		if err == nil {
			err = try(r)
		}
		if err == nil {
			if len(routes) > 1 {
				o.log.Info("route taken", "target", t.String(), "route", r.String(), "skipped", len(tried))
			}
			return TakenRoute{*r, tried}, nil
		}
		var bad *RouteError
		if !errors.As(err, &bad) {
			bad = &RouteError{*r, err}
		}
		tried = append(tried, bad)
		if ctx.Err() != nil {
			if cause := context.Cause(ctx); !errors.Is(err, cause) {
				ended = cause
			}
			break
		}
		if !impassable(err) {
			break
		}
		if i+1 < len(routes) {
			o.log.Info("route skipped", "target", t.String(), "route", r.String(), "error", bad.Err)
		}
	}
	return TakenRoute{}, &NoRouteError{Op: op, Target: t, Tried: tried, Err: ended}
}

// impassable reports whether err is one of a route, so that another may do: the provider cannot run here, or lacks the
// device, the address or the permission, or nothing answers there, or the route does not carry what the client needs. Whatever a peer has answered, a refusal by its program
// or an answer that came too late, is none of these.
func impassable(err error) bool {
	is := func(e error) bool { return errors.Is(err, e) }
	return slices.ContainsFunc([]error{errNoPrograms, verbs.ErrUnavailable, verbs.ErrUnreachable, errors.ErrUnsupported, fs.ErrPermission}, is) ||
		slices.ContainsFunc(errnoNoRoute, is)
}

// with is o with a route's settings over it.
func (o connOptions) with(settings []ConnOption) (connOptions, error) {
	if len(settings) == 0 {
		return o, nil
	}
	chooser := o.resolver
	o.resolver = nil
	if err := ConnOptions(settings...).applyConn(&o); err != nil {
		return o, err
	}
	if o.resolver != nil {
		return o, &OptionError{Option: "WithResolver", Value: "in Route.Settings", Want: "it among the options of the client or listener"}
	}
	o.resolver = chooser
	return o, o.settle()
}

// errNoPrograms: RFC 8167 is about RPC-over-RDMA.
var errNoPrograms = errors.New("a client on tcp serves no programs: backward calls go over RPC-over-RDMA only (WithPrograms)")
