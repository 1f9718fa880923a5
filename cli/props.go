package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/core/transport"
	"github.com/rpcrdma/rpcrdma/extensions"
	"github.com/rpcrdma/rpcrdma/props"
)

type propsFlags struct {
	connFlags
	program, version uint32
	timeout          time.Duration
	encoding         string
	json             bool
}

func newProps() *cobra.Command {
	var f propsFlags
	cmd := &cobra.Command{
		Use:   "props URL [request NAME=VALUE ...]",
		Short: "show a peer's transport properties, and ask for changes",
		Long: `props connects, calls the NULL procedure of a program, and shows the properties that the server has
announced (version 2, CONNPROP): each with its value, whether the server announced it or it is the
default, and whether it may change. Properties have names where an extension that is loaded declares
them; the others have numbers, and values in hexadecimal.

With request it asks the server to change them, all in one message (REQPROP), and shows what became
of each: done, rejected, or other, which is another value, or the former one for now. A change that
follows within two seconds (UPDPROP) is shown, too. NAME may be a number, VALUE is default for
the default.

Exit status 1: the server has no properties, or rejects a request.`,
		Example: `  rpcrdma props iwarp://server:20049
  rpcrdma props iwarp://server:20049 request rbsiz=65536 brs=none
  rpcrdma props --json --encoding optional iwarp://server:20049`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return fmt.Errorf("URL is missing")
			case len(args) > 1 && args[1] != "request":
				return fmt.Errorf("unexpected argument %q: want request NAME=VALUE", args[1])
			case len(args) == 2:
				return fmt.Errorf("request what? NAME=VALUE, such as rbsiz=65536")
			}
			return nil
		},
		RunE: work(func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0], args[min(len(args), 2):]) }),
	}
	f.add(cmd.Flags())
	cmd.Flags().Uint32Var(&f.program, "program", 100003, "program whose NULL procedure is called")
	cmd.Flags().Uint32Var(&f.version, "version", 3, "version of the program")
	cmd.Flags().DurationVarP(&f.timeout, "timeout", "W", 10*time.Second, "wait for a connection, for the server's properties, and for its answer")
	cmd.Flags().StringVar(&f.encoding, "encoding", "", "how the property operations are sent: proc (rdma_proc 6 to 9, the default) or optional (opttype 1 to 4)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON and nothing else")
	return cmd
}

// propsReport is what --json prints.
type propsReport struct {
	Target     string          `json:"target"`
	Version    uint32          `json:"rpcrdma_version"`
	Properties []propReport    `json:"properties"`
	Requests   []requestReport `json:"requests,omitempty"`
}

type propReport struct {
	ID        uint32 `json:"id"`
	Name      string `json:"name,omitempty"` // "": no extension that is loaded declares it
	Value     string `json:"value"`
	XDR       string `json:"xdr"` // in hexadecimal
	Default   bool   `json:"default"`
	Announced bool   `json:"announced"`
	MayChange bool   `json:"may_change"`
}

type requestReport struct {
	ID      uint32 `json:"id"`
	Name    string `json:"name,omitempty"`
	Asked   string `json:"asked"`
	Result  string `json:"result"`            // done, rejected, other, unsupported
	Value   string `json:"value,omitempty"`   // in force, with done and other
	Updated string `json:"updated,omitempty"` // the value that an update brought afterwards
	Why     string `json:"why,omitempty"`     // it was not asked
}

// updateWait is how long a change that was put off is waited for.
const updateWait = 2 * time.Second

func (f *propsFlags) run(cmd *cobra.Command, address string, requests []string) (err error) {
	t, err := target(address)
	switch {
	case err != nil:
		return err
	case t.Scheme == "tcp":
		return usagef("%s: plain TCP has no transport properties", t)
	case f.timeout <= 0:
		return usagef("--timeout wants a positive time")
	case f.encoding != "" && f.encoding != "proc" && f.encoding != "optional":
		return usagef("--encoding %s: want proc or optional", f.encoding)
	}
	f.specs = f.ours
	opts, finish, err := f.dialOptions(cmd.Context(), t, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, finish()) }()
	if f.loaded == nil {
		return usagef("version 1 of RPC-over-RDMA has no transport properties: allow version 2 with --protocol auto")
	}
	names := props.NamesOf(f.loaded.Set())
	asks := make([]props.Asking, len(requests))
	for i, r := range requests {
		if asks[i].ID, asks[i].Value, err = names.Parse(r); err != nil {
			return usageError{err}
		}
	}
	client, err := rpc.NewClient(address, rpc.ConnOptions(opts...), rpc.WithRetransmits(-1), rpc.WithCallTimeout(f.timeout))
	if err != nil {
		return err
	}
	defer client.Close()
	f.metrics.watch(ofClient(client))
	s := propsSession{propsFlags: f, target: t, names: names, out: cmd.OutOrStdout()}
	if f.json {
		s.out = io.Discard
	}
	r, err := s.run(cmd.Context(), client, asks)
	if cmd.Context().Err() != nil {
		return errInterrupted
	}
	if f.json && r != nil {
		err = errors.Join(writeJSON(cmd.OutOrStdout(), r), err)
	}
	return err
}

// ours has the extension props within this process, as withProps; the verb's own flags are among its options.
func (f *propsFlags) ours(specs []extensions.Spec) []extensions.Spec {
	specs = withProps(specs)
	i := slices.IndexFunc(specs, isProps)
	o := map[string]string{"patience": f.timeout.String()}
	maps.Copy(o, specs[i].Options)
	if f.encoding != "" {
		o["encoding"] = f.encoding
	}
	specs[i].Options = o
	return specs
}

// propsSession is the verb's work on one connection.
type propsSession struct {
	*propsFlags
	target rpc.Target
	names  props.Names
	out    io.Writer

	props *props.Extension
	conn  transport.Conn
}

func (s *propsSession) run(ctx context.Context, client *rpc.Client, asks []props.Asking) (*propsReport, error) {
	if err := s.connect(ctx, client); err != nil {
		return nil, err
	}
	r := &propsReport{Target: s.target.String(), Version: s.conn.Version(), Properties: []propReport{}}
	snap, err := s.props.Peer(s.conn.ID())
	if err != nil {
		return nil, advise(s.target, err)
	}
	for _, v := range snap.Values {
		r.Properties = append(r.Properties, propReport{ID: v.ID, Name: v.Name, Value: v.Text, XDR: hex.EncodeToString(v.Data),
			Default: v.Default, Announced: v.Listed, MayChange: v.Listed && !v.Fixed})
	}
	if err := r.print(s.out); err != nil || len(asks) == 0 {
		return r, err
	}
	return r, s.request(ctx, asks, r)
}

// connect makes the connection and waits until the first exchange of properties is over.
func (s *propsSession) connect(ctx context.Context, client *rpc.Client) error {
	for i := range s.loaded.Set().Len() {
		if p, ok := s.loaded.Set().At(i).(*props.Extension); ok {
			s.props = p
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := client.Connect(ctx); err != nil {
		return advise(s.target, err)
	}
	// Which version stands, the first reply tells; one that says that there is no such program does.
	var refused *rpcmsg.AcceptError
	err := client.Call(ctx, &rpc.Proc{Program: s.program, Version: s.version, Name: "NULL"}, nil, nil)
	if err != nil && !errors.As(err, &refused) {
		return advise(s.target, err)
	}
	conns := client.Conns()
	if len(conns) == 0 {
		return fmt.Errorf("%s: the server has ended the connection", s.target)
	}
	s.conn = conns[0]
	if v := s.conn.Version(); v < 2 {
		return fmt.Errorf("%s: the server speaks version %d of RPC-over-RDMA, which has no transport properties", s.target, v)
	}
	var none *props.UnsupportedError
	switch err := s.props.Wait(ctx, s.conn.ID()); {
	case errors.As(err, &none):
		return fmt.Errorf("%s: %w; all of them have their defaults", s.target, err)
	case err != nil:
		return advise(s.target, err)
	}
	return nil
}

// request asks for changes, and prints what becomes of each.
func (s *propsSession) request(ctx context.Context, asks []props.Asking, r *propsReport) error {
	wait, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	answers, err := s.props.AskAll(wait, s.conn.ID(), asks)
	if err != nil {
		return advise(s.target, err)
	}
	fmt.Fprintln(s.out)
	refused := 0
	for i, a := range asks {
		p := s.names.ByID(a.ID)
		q := requestReport{ID: a.ID, Name: p.Name, Asked: props.FormatValue(p, a.Value), Result: changeText(answers[i].Change.Kind)}
		switch answers[i].Change.Kind {
		case ext.Done, ext.Other:
			q.Value = props.FormatValue(p, answers[i].Change.Value)
		default:
			refused++
		}
		if answers[i].Err != nil {
			q.Why = oneLine(answers[i].Err)
		}
		r.Requests = append(r.Requests, q)
		fmt.Fprintln(s.out, q.String())
	}
	s.updates(ctx, r)
	if refused > 0 {
		return fmt.Errorf("%s: %d of %s not granted", s.target, refused, count(len(asks), "request"))
	}
	return nil
}

// updates waits for the changes that have been put off.
func (s *propsSession) updates(ctx context.Context, r *propsReport) {
	end := time.NewTimer(updateWait)
	defer end.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		due := false
		snap, err := s.props.Peer(s.conn.ID())
		for i := range r.Requests {
			q := &r.Requests[i]
			if q.Result != changeText(ext.Other) || q.Updated != "" {
				continue
			}
			v, ok := snap.Get(q.ID)
			if ok && v.Text != q.Value {
				q.Updated = v.Text
				fmt.Fprintf(s.out, "%s: updated: %s\n", q.label(), v.Text)
				continue
			}
			due = true
		}
		if !due || err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-end.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// changeText is a result's word.
func changeText(k ext.ChangeKind) string {
	switch k {
	case ext.Done:
		return "done"
	case ext.Other:
		return "other"
	case ext.Unsupported:
		return "unsupported"
	}
	return "rejected"
}

func (q *requestReport) label() string {
	name := q.Name
	if name == "" {
		name = fmt.Sprint(q.ID)
	}
	return name + "=" + q.Asked
}

func (q *requestReport) String() string {
	s := q.label() + ": " + q.Result
	if q.Result == changeText(ext.Other) {
		s += ": " + q.Value
	}
	if q.Why != "" {
		s += ": " + q.Why
	}
	return s
}

func (r *propsReport) print(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s: version %d\n", r.Target, r.Version); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tNAME\tVALUE\tFROM\tCHANGE")
	for _, p := range r.Properties {
		name, from, change := p.Name, "default", "fixed"
		if name == "" {
			name = "-"
		}
		if p.Announced {
			from = "announced"
		}
		if p.MayChange {
			change = "may change"
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", p.ID, name, p.Value, from, change)
	}
	return t.Flush()
}
