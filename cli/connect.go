package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/rpcrdma/rpcrdma/cli/capture"
	"github.com/rpcrdma/rpcrdma/config"
	"github.com/rpcrdma/rpcrdma/core/engine"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/extensions"
)

// connFlags are the flags of every verb that connects or listens. They stand over the configuration file.
type connFlags struct {
	config   string
	protocol string
	inline   int
	credits  int
	pcap     string
	export   string
	verbose  bool

	flags  *pflag.FlagSet                            // tells which were given
	specs  func([]extensions.Spec) []extensions.Spec // if not nil, has the last word on what is loaded
	loaded *extensions.Loaded                        // nil: no extensions

	metrics *metrics // nil: nobody asked for them
}

func (f *connFlags) add(flags *pflag.FlagSet) {
	f.flags = flags
	addConfig(flags, &f.config)
	flags.StringVar(&f.protocol, "protocol", "auto", "RPC-over-RDMA version: auto, 1 or 2")
	flags.IntVar(&f.inline, "inline", 4096, "bytes of the largest inline message, a multiple of 1024")
	flags.IntVar(&f.credits, "credits", 64, "calls in flight on a connection")
	flags.StringVar(&f.pcap, "pcap", "", "write the fabric's frames to this pcapng file (iwarp)")
	flags.StringVar(&f.export, "metrics", "", "export metrics for Prometheus by HTTP on this address, such as 127.0.0.1:9464")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "say more")
}

// settle reads the configuration file, checks the flags and puts those that were given over it. Then the
// fields inline and credits are what is in force.
func (f *connFlags) settle() (*config.Config, error) {
	c, err := loadConfig(f.config)
	if err != nil {
		return nil, err
	}
	p := &c.Protocol
	switch {
	case !f.flags.Changed("protocol"):
	case f.protocol == "auto":
		p.MinVersion, p.MaxVersion = 1, 2
	case f.protocol == "1":
		p.MinVersion, p.MaxVersion = 1, 1
	case f.protocol == "2":
		p.MinVersion, p.MaxVersion = 2, 2
	default:
		return nil, usagef("--protocol %s: want auto, 1 or 2", f.protocol)
	}
	if f.flags.Changed("inline") {
		if f.inline < config.MinInline || f.inline > config.MaxInline || f.inline%1024 != 0 {
			return nil, usagef("--inline %d: want a multiple of 1024 from %d to %d", f.inline, config.MinInline, config.MaxInline)
		}
		if p.Inline = f.inline; p.Inline < config.MinInlineV2 && p.MaxVersion > 1 {
			return nil, usagef("--inline %d: version 2 needs %d at least; raise it, or add --protocol 1", f.inline, config.MinInlineV2)
		}
	} else if p.Inline < config.MinInlineV2 && p.MaxVersion > 1 {
		return nil, usagef("--protocol %s: version 2 needs %d bytes inline at least, and %s says %d; add --inline %[2]d", f.protocol, config.MinInlineV2, c.File, p.Inline)
	}
	if f.flags.Changed("credits") {
		if p.Credits = f.credits; p.Credits < 1 || p.Credits > config.MaxCredits {
			return nil, usagef("--credits %d: want 1 to %d", f.credits, config.MaxCredits)
		}
	}
	f.inline, f.credits = p.Inline, p.Credits
	if f.flags.Changed("metrics") {
		if !config.HostPort(f.export) {
			return nil, usagef("--metrics %s: want an address and a port, such as 127.0.0.1:9464", f.export)
		}
		c.Metrics.Listen = f.export
	}
	return c, nil
}

// options turns the flags into options of package rpc, and loads the extensions where some connection can be of
// version 2: rdma says that not all are tcp://. finish writes out what is open and ends plugins; it is called once, when
// all connections have ended.
func (f *connFlags) options(ctx context.Context, errs io.Writer, rdma bool) (opts []rpc.ConnOption, finish func() error, err error) {
	c, err := f.settle()
	if err != nil {
		return nil, nil, err
	}
	p := c.Protocol
	opts = append(opts, rpc.WithResolver(resolver), rpc.WithVersions(p.MinVersion, p.MaxVersion), rpc.WithInline(p.Inline), rpc.WithCredits(p.Credits))
	var closers []func() error
	finish = func() (err error) {
		for _, c := range closers {
			err = errors.Join(err, c())
		}
		return err
	}
	if rdma && p.MaxVersion > 1 {
		if f.specs != nil {
			c.Extensions = f.specs(c.Extensions)
		}
		if f.loaded, err = load(ctx, c.Extensions, errs, f.verbose); err != nil {
			return nil, nil, err
		}
		opts, closers = append(opts, rpc.WithExtensions(f.loaded.Set())), append(closers, f.loaded.Close)
	}
	if c.Metrics.Listen != "" {
		if f.metrics, err = serveMetrics(c.Metrics.Listen, f.loaded, errs); err != nil {
			return nil, nil, errors.Join(err, finish())
		}
		closers = append(closers, f.metrics.close)
	}
	var taps []verbs.Tap
	if f.pcap != "" {
		file, err := capture.Create(f.pcap)
		if err != nil {
			return nil, nil, errors.Join(fmt.Errorf("--pcap: %w", err), finish())
		}
		taps, closers = append(taps, file), append(closers, file.Close)
	}
	if os.Getenv("RPCRDMA_DEBUG") != "" {
		d := newDebug(errs)
		taps, closers = append(taps, d), append(closers, d.Close)
		opts = append(opts, rpc.WithRecorder(d))
	}
	switch len(taps) {
	case 0:
	case 1:
		opts = append(opts, rpc.WithTap(taps[0]))
	default:
		opts = append(opts, rpc.WithTap(tee(taps)))
	}
	return opts, finish, nil
}

// dialOptions are the options for a client of t.
func (f *connFlags) dialOptions(ctx context.Context, t rpc.Target, errs io.Writer) (opts []rpc.ConnOption, finish func() error, err error) {
	if f.pcap != "" && t.Scheme == "tcp" {
		return nil, nil, usagef("--pcap: tcp:// has no frames of a fabric, its file would be empty; capture it with tcpdump")
	}
	return f.options(ctx, errs, t.Scheme != "tcp")
}

// target parses a URL of the command line: what is wrong with it is a misuse.
func target(s string) (rpc.Target, error) {
	t, err := rpc.ParseTarget(s)
	if scheme, _, ok := strings.Cut(s, "://"); !ok || scheme == "" {
		err = &rpc.TargetError{Target: s, Problem: "want scheme://host:port with a scheme of " + schemes()}
	}
	if err == nil {
		err = resolver.Check(t)
	}
	if err != nil {
		return t, usageError{err}
	}
	return t, nil
}

// advise turns what a connection failed of into a line that says what to do.
func advise(t rpc.Target, err error) error {
	server := t.Scheme + "://" + t.Address
	var unknown *verbs.OptionError
	var dns *net.DNSError
	var op *net.OpError
	var rejected *verbs.RejectedError
	var none *rpc.NoRouteError
	if errors.As(err, &none) && len(none.Tried) == 1 && none.Err == nil && err.Error() == none.Error() {
		only := none.Tried[0] // what else the error says is on the line already
		err, t = only.Err, rpc.Target{Scheme: only.Route.Scheme, Address: only.Route.Address}
	}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &none) && len(none.Tried) > 1 && !errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: none of the ways there works: %w", server, trim(err, t))
	case errors.As(err, &unknown) && unknown.Key == "local":
		return usageError{fmt.Errorf("%s: ?local=%s: want %s; rpcrdma providers -v lists devices and addresses", server, unknown.Value, unknown.Want)}
	case errors.As(err, &unknown):
		return usageError{fmt.Errorf("%s: %w; rpcrdma providers -v lists the options", server, trim(unknown, t))}
	case errors.Is(err, context.Canceled):
		return errInterrupted
	case errors.As(err, &dns):
		return fmt.Errorf("%s: no such host %q", server, dns.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s: connection refused: nothing listens there; is the server running, and on this port?", server)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Errorf("%s: no route to that host; check the address, or name the local one with ?local=", server)
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: address already in use: something listens there; end it, or choose another port", server)
	case errors.Is(err, syscall.EACCES) && errors.As(err, &op) && op.Op == "listen":
		return fmt.Errorf("%s: ports below 1024 are for root; choose another", server)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%s: %w; the local address is none of this machine's", server, trim(err, t))
	case errors.As(err, &rejected):
		return fmt.Errorf("%s: the server refuses connections now (%s); it has as many as it takes, or as many from this address: try later, or see its log and --max-conns", server, rejected.Reason)
	case errors.Is(err, &rpcmsg.AuthError{Stat: rpcmsg.AuthTooWeak}):
		return fmt.Errorf("%s: %w; the server may want the host to prove who it is: load the extension that does, such as hostauth, by --config", server, trim(err, t))
	case errors.Is(err, engine.ErrVersion):
		return fmt.Errorf("%s: the server has no such version of RPC-over-RDMA: %w; try --protocol auto", server, err)
	case errors.Is(err, verbs.ErrProtocol):
		return fmt.Errorf("%s: the peer does not speak %s: %w", server, t.Scheme, trim(err, t))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer in time: %w", server, trim(err, t))
	}
	return fmt.Errorf("%s: %w", server, trim(err, t))
}

// trim takes off err's text what the line has said already: the server's name, and the layers that
// it went through.
func trim(err error, t rpc.Target) error {
	text := err.Error()
	server := t.Scheme + "://" + t.Address + ": "
	for _, said := range []string{"connect to " + server, "listen on " + server, t.Scheme + ": ", "dial " + t.Address + ": ",
		"listen " + t.Address + ": ", "verbs: fabric protocol error: "} {
		text = strings.TrimPrefix(text, said)
	}
	// Package net says both addresses and the system call.
	var op *net.OpError
	if errors.As(err, &op) {
		var call *os.SyscallError
		cause := op.Err
		if errors.As(cause, &call) {
			cause = call.Err
		}
		if before, ok := strings.CutSuffix(text, op.Error()); ok {
			text = before + cause.Error()
		}
	}
	return trimmed{text, err}
}

type trimmed struct {
	text string
	err  error
}

func (t trimmed) Error() string { return t.text }
func (t trimmed) Unwrap() error { return t.err }

var errInterrupted = errors.New("interrupted")
