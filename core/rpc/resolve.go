package rpc

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"strings"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// Resolver chooses the fabrics by which an address is reached. A Client and a Listener have one (WithResolver); it may be
// used by many, from several goroutines.
//
// A target names what is to be reached, a route how. A resolver that reads a configuration maps "rdma://host:port" to what
// the configuration has for that host; Registered, the default, maps a scheme to the provider that is registered by that name.
type Resolver interface {
	// Check reports, without I/O, why t can never be resolved, as when its scheme is unknown: NewClient and Listen
	// return that error. It should be a *TargetError that names what would do.
	Check(t Target) error
	// DialRoutes returns the routes to t, in the order in which they are to be tried. It is called for each
	// connection, so that each begins at the first route again.
	DialRoutes(ctx context.Context, t Target) ([]Route, error)
	// ListenRoutes returns one group of routes for each fabric on which t is to be bound: more than one where t's
	// address is unspecified and several fabrics have it. The routes of a group are alternatives, in the order in
	// which they are to be tried.
	ListenRoutes(ctx context.Context, t Target) ([][]Route, error)
}

// Route is one way to an address.
type Route struct {
	// Scheme names the kind of fabric in URLs, logs and errors. The routes of a client that have the same Scheme have the
	// same Provider.
	Scheme string
	// Provider is the fabric's. nil: ONC RPC over TCP, without RDMA; Scheme then is "tcp". Its type is comparable, as a
	// pointer is: clients share the domains of equal Providers.
	Provider verbs.Provider
	// Address is "host:port", to dial or to bind.
	Address string
	// Local is the local address or device; "" lets the provider choose.
	Local string
	// Options are the provider's. A route over TCP has none.
	Options map[string]string
	// Settings are for connections by this route. They override the same options of the client or listener, but for WithRecorder,
	// which adds a recorder: of these connections' events, not of dials. WithResolver is refused.
	Settings []ConnOption
	// Fabric is the name that a configuration gives the fabric, for logs and errors; "" for none.
	Fabric string
}

// String is the route as a URL, with its fabric and its local address.
func (r Route) String() string {
	s := r.Scheme + "://" + r.Address
	if r.Local != "" {
		s += "?local=" + r.Local
	}
	if r.Fabric != "" {
		s += " (fabric " + r.Fabric + ")"
	}
	return s
}

// check reports why r is invalid.
func (r *Route) check() error {
	switch {
	case r.Scheme == "" || r.Address == "":
		return &RouteError{*r, errBadRoute("it has no scheme or no address")}
	case r.Provider == nil && r.Scheme != schemeTCP:
		return &RouteError{*r, errBadRoute("it has no provider")}
	case r.Provider != nil && r.Scheme == schemeTCP:
		return &RouteError{*r, errBadRoute("tcp is not the scheme of a provider")}
	case r.Provider != nil && !reflect.ValueOf(r.Provider).Comparable():
		return &RouteError{*r, errBadRoute(fmt.Sprintf("its provider is a %T, values of which cannot be compared: use a pointer", r.Provider))}
	case r.Provider == nil && len(r.Options) > 0:
		return &RouteError{*r, errBadRoute("tcp takes no options but local")}
	}
	return nil
}

// errBadRoute reports an invalid Route from a resolver.
type errBadRoute string

func (e errBadRoute) Error() string { return "the resolver's route cannot be used: " + string(e) }

// schemeTCP is ONC RPC over TCP (RFC 5531 §11).
const schemeTCP = "tcp"

// WithResolver sets what chooses the fabrics of an address. Default: Registered.
func WithResolver(r Resolver) ConnOption {
	return connOption(func(o *connOptions) error {
		o.resolver = r
		if r == nil {
			return isNil("WithResolver", "a resolver; without the option it is Registered")
		}
		return nil
	})
}

// Registered is the default resolver. A target's scheme is that of a provider of verbs.Register, or "tcp", and there is one
// route: the target's own.
var Registered Resolver = registered{}

type registered struct{}

func (registered) Check(t Target) error {
	_, err := registeredRoute(t)
	return err
}

func (registered) DialRoutes(_ context.Context, t Target) ([]Route, error) {
	r, err := registeredRoute(t)
	return []Route{r}, err
}

func (registered) ListenRoutes(_ context.Context, t Target) ([][]Route, error) {
	r, err := registeredRoute(t)
	return [][]Route{{r}}, err
}

func registeredRoute(t Target) (Route, error) {
	r := Route{Scheme: t.Scheme, Address: t.Address, Local: t.Local, Options: t.Options}
	if t.Scheme == schemeTCP {
		if len(t.Options) > 0 {
			return r, &TargetError{t.String(), "tcp takes no options but local"}
		}
		if _, err := netip.ParseAddr(t.Local); t.Local != "" && err != nil {
			return r, &TargetError{t.String(), fmt.Sprintf("local address %q: want an IP address of this machine", t.Local)}
		}
		return r, nil
	}
	p, ok := verbs.Lookup(t.Scheme)
	switch r.Provider = p; {
	case ok:
		return r, nil
	case t.Scheme == SchemeAny:
		return r, &TargetError{t.String(), "no configuration chooses the fabric of an rdma:// address here; name it by the scheme: " + knownSchemes()}
	}
	return r, &TargetError{t.String(), "unknown provider \"" + t.Scheme + "\"; known here: " + knownSchemes()}
}

// SchemeAny is the scheme of addresses whose fabric a configuration chooses. Registered has no routes to them.
const SchemeAny = "rdma"

func knownSchemes() string { return strings.Join(append(verbs.Schemes(), schemeTCP), ", ") }
