package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/extensions/sdk"
	pb "github.com/rpcrdma/rpcrdma/extensions/sdk/extensionpb"
)

// stderr is the plugin's own, before Serve puts a pipe in its place.
var stderr = os.Stderr

// bePlugin is the main of the plugin of a mode. A dash and more behind a mode is ignored.
func bePlugin(mode string) {
	mode, _, _ = strings.Cut(mode, "-")
	switch mode {
	case "junk":
		fmt.Fprintln(os.Stderr, "about to print where I should not")
		fmt.Println("hello, I am a plugin\x1b[2J")
	case "version":
		sdk.ServeVersions(newAcme("ok"), 9)
	case "old":
		sdk.ServeVersions(newAcme("ok"), sdk.PreviousVersion)
	case "oldcarrier":
		sdk.ServeVersions(newAcme("carrier"), sdk.PreviousVersion)
	case "crash":
		fmt.Fprintln(os.Stderr, "no licence found")
		fmt.Fprintln(os.Stderr, `{"@level":"error","@message":42}`)
		os.Exit(3)
	case "hang":
		fmt.Fprintln(os.Stderr, "waiting for Godot")
		select {}
	case "elsewhere":
		fmt.Printf("1|2|tcp|127.0.0.1:1|grpc|\n")
		select {}
	case "netrpc":
		fmt.Printf("1|2|unix|%s/x|netrpc|\n", os.Getenv(plugin.EnvUnixSocketDir))
		select {}
	case "deaf": // a handshake, and nobody behind it
		path := os.Getenv(plugin.EnvUnixSocketDir) + "/plugin1"
		l, err := net.Listen("unix", path)
		if err != nil {
			panic(err)
		}
		defer l.Close()
		fmt.Printf("1|2|unix|%s|grpc|\n", path)
		select {}
	case "nonsense", "unasked", "lengths":
		set := map[int]plugin.PluginSet{sdk.Version: {sdk.Name: &liar{mode: mode}}}
		plugin.Serve(&plugin.ServeConfig{HandshakeConfig: sdk.Handshake, VersionedPlugins: set, GRPCServer: plugin.DefaultGRPCServer})
	default:
		sdk.Serve(newAcme(mode))
	}
}

// newAcme makes the extension of a mode.
func newAcme(mode string) sdk.Make {
	return func(options map[string]string) (ext.Extension, error) {
		switch mode {
		case "refuses":
			return nil, fmt.Errorf("option size %q is no number", options["size"])
		case "slowmake":
			time.Sleep(time.Hour)
		case "panics":
			panic("no good")
		case "once": // crashes when it is started the second time
			if _, err := os.Stat(options["mark"]); err == nil {
				os.Exit(1)
			}
			_ = os.WriteFile(options["mark"], nil, 0o600)
		case "changes": // declares something else when it is started the second time
			if _, err := os.Stat(options["mark"]); err == nil {
				return &acme{mode: mode, changed: true}, nil
			}
			_ = os.WriteFile(options["mark"], nil, 0o600)
		}
		return &acme{mode: mode, options: options}, nil
	}
}

// acme does what messages say.
type acme struct {
	mode    string
	changed bool
	options map[string]string
}

const exp = ext.ExperimentalFirst

func (a *acme) Declare() ext.Declaration {
	d := ext.Declaration{
		Name: "acme", Version: "1.0",
		Ops: []ext.Op{
			{Name: "echo", Type: exp, Answer: "echo", Deadline: time.Minute}, // a busy machine is not late
			{Name: "note", Type: exp + 1},
			{Name: "wrap", Type: exp + 2, Payload: ext.Wraps},
		},
		Props:  []ext.Prop{{ID: exp + 5, Name: "colour", Type: ext.Opaque, Mutable: true}},
		Limits: ext.Limits{Queue: 8},
	}
	switch a.mode {
	case "payload":
		d.Class = ext.Payload
	case "reserved":
		d.Props[0].ID = 1
	case "name":
		d.Name = "other"
	case "carrier":
		d.Carrier = true
	case "gate":
		d.Gate = true
	case "declares":
		fmt.Fprintln(os.Stderr, "declaring")
	}
	if a.changed {
		d.Version = "1.1"
	}
	return d
}

func (a *acme) Connect(c ext.Conn) ext.Session {
	switch a.mode {
	case "nosession":
		return nil
	case "slowconnect":
		time.Sleep(time.Hour)
	}
	c.Offer(exp+5, []byte("red"), false)
	s := &acmeSession{a, c}
	if a.mode == "carrier" {
		return &acmeCarrier{s}
	}
	return s
}

type acmeSession struct {
	a *acme
	c ext.Conn
}

func (s *acmeSession) Message(m ext.Message) {
	verb, rest, _ := strings.Cut(string(m.Info), " ")
	switch verb {
	case "crash":
		os.Exit(4)
	case "panic":
		panic("a message I did not like")
	case "hang":
		time.Sleep(time.Hour)
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case "escape": // a child that leaves the group and keeps standard error
		cmd := exec.Command("sleep", "3600")
		cmd.Stderr = stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: rest == "far"}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		s.answer(m, fmt.Sprint(cmd.Process.Pid))
	case "silent":
		return
	case "twice":
		s.answer(m, "one")
		s.answer(m, "two")
	case "facts":
		f := s.c.Facts()
		s.answer(m, fmt.Sprintf("%d %v %d %v", f.ID, f.Client, f.RecvSize, f.Remote))
	case "environ":
		s.answer(m, strings.Join(os.Environ(), "\n"))
	case "stdin":
		target, _ := os.Readlink("/proc/self/fd/0")
		s.answer(m, target)
	case "option":
		s.answer(m, s.a.options[rest])
	case "comm":
		b, _ := os.ReadFile("/proc/self/comm")
		s.answer(m, strings.TrimSpace(string(b)))
	case "send":
		s.c.Send(ext.Outgoing{Op: "note", Info: []byte(rest)}, func(o ext.Outcome) { s.answer(m, o.Kind.String()+" "+string(o.Info)) })
	case "request":
		s.c.Request(ext.ReceiveSize(8192), func(err error) {
			var r *ext.RequestError
			s.answer(m, fmt.Sprintf("%v %v", err, errors.As(err, &r)))
		})
	case "ask":
		s.c.Ask(exp+5, []byte(rest), func(c ext.Change) { s.answer(m, c.Kind.String()+" "+string(c.Value)) })
	case "attach":
		s.c.Attach("wrap", []byte(rest))
		s.c.Consumed("note", 3)
		s.answer(m, "")
	case "fail":
		s.c.Fail(errors.New(rest))
	case "open":
		s.c.Open()
	case "flood":
		go func() {
			for {
				s.c.Send(ext.Outgoing{Op: "note", Info: make([]byte, 1000)}, nil)
				runtime.Gosched()
			}
		}()
	case "warn":
		slog.Warn("odd", "n", 1, "who", "a b")
		s.answer(m, "warned")
	case "talk": // on standard error, much
		for i := range 100_000 {
			fmt.Fprintf(stderr, "line %d\n", i)
		}
		s.answer(m, "said")
	default:
		s.answer(m, string(m.Info))
	}
}

func (s *acmeSession) answer(m ext.Message, text string) {
	s.c.Answer(m.Token, ext.Verdict{Kind: ext.Answer, Info: []byte(text)})
}

func (s *acmeSession) Closed(err error) {
	fmt.Fprintln(stderr, "closed:", err, errors.Is(err, net.ErrClosed))
}

func (s *acmeSession) PeerValue(id uint32, value []byte, def bool) {
	s.c.Send(ext.Outgoing{Op: "note", Info: fmt.Appendf(nil, "peer has %d %s %t", id-exp, value, def)}, nil)
}

func (s *acmeSession) Requested(t ext.Token, id uint32, value []byte) {
	if string(value) == "silent" {
		return
	}
	s.c.Settle(t, ext.Change{Kind: ext.Done})
}

func (s *acmeSession) Attached(xid uint32, op string, info []byte) {
	s.c.Send(ext.Outgoing{Op: "note", Info: fmt.Appendf(nil, "attached %d %s %s", xid, op, info)}, nil)
}

// acmeCarrier says what it is told, and carries nothing.
type acmeCarrier struct{ *acmeSession }

func (s *acmeCarrier) Offered(id uint32, value []byte, fixed bool) {
	s.c.(ext.CarrierConn).Peer(id, value, fixed)
}

func (s *acmeCarrier) Asked(t ext.Token, id uint32, value []byte) {
	s.c.(ext.CarrierConn).Requested(id, value, func(c ext.Change) { s.c.Settle(t, c) })
}

func (s *acmeCarrier) Begin() {
	s.c.Send(ext.Outgoing{Op: "note", Info: fmt.Appendf(nil, "begin with %d", len(s.c.(ext.CarrierConn).Declared()))}, nil)
}

// liar is a plugin without the SDK.
type liar struct {
	plugin.NetRPCUnsupportedPlugin
	pb.UnimplementedExtensionServer
	mode string
}

func (l *liar) GRPCServer(_ *plugin.GRPCBroker, g *grpc.Server) error {
	pb.RegisterExtensionServer(g, l)
	return nil
}

func (l *liar) GRPCClient(context.Context, *plugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("not here")
}

func (l *liar) Describe(context.Context, *pb.DescribeRequest) (*pb.Declaration, error) {
	return pb.FromDeclaration((&acme{}).Declare()), nil
}

func (l *liar) Run(stream pb.Extension_RunServer) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, e := range m.GetEvents() {
			if e.GetMessage() == nil {
				continue
			}
			text := string(e.GetMessage().GetInfo())
			for _, c := range lies(e.GetConn(), e.GetMessage().GetToken(), text) {
				if err := stream.Send(&pb.Commands{Commands: []*pb.Command{c}}); err != nil {
					return err
				}
			}
		}
	}
}

// lies are commands that no SDK sends.
func lies(conn, token uint64, about string) []*pb.Command {
	long := make([]byte, ext.MaxInfo+1)
	switch about {
	case "length": // beyond any message
		return []*pb.Command{{Conn: conn, Kind: &pb.Command_Offer{Offer: &pb.PropValue{Id: exp + 5, Value: make([]byte, sdk.MaxMessage)}}}}
	case "calls":
		var cs []*pb.Command
		for i := range sdk.MaxCalls + 1 {
			cs = append(cs, &pb.Command{Conn: conn, Kind: &pb.Command_Send{Send: &pb.Send{Op: "note", Call: uint64(i + 1)}}})
		}
		return cs
	case "honest":
		return []*pb.Command{{Conn: conn, Kind: &pb.Command_Answer{Answer: &pb.Answer{Token: token, Verdict: &pb.Verdict{Kind: 2, Info: []byte("honest")}}}}}
	}
	return []*pb.Command{
		{Kind: &pb.Command_Open{Open: &pb.Open{}}},
		{Conn: 1 << 60, Kind: &pb.Command_Open{Open: &pb.Open{}}},
		{Conn: conn},
		{Conn: conn, Kind: &pb.Command_Open{Open: &pb.Open{}}},
		{Conn: conn, Kind: &pb.Command_Send{Send: &pb.Send{Op: "sing"}}},
		{Conn: conn, Kind: &pb.Command_Send{Send: &pb.Send{Op: "note", Info: long}}},
		{Conn: conn, Kind: &pb.Command_Answer{Answer: &pb.Answer{Token: 1 << 40}}},
		{Conn: conn, Kind: &pb.Command_Answer{Answer: &pb.Answer{Token: token, Verdict: &pb.Verdict{Kind: 99}}}},
		{Conn: conn, Kind: &pb.Command_Answer{Answer: &pb.Answer{Token: token, Verdict: &pb.Verdict{Kind: 3, Code: 77}}}},
		{Conn: conn, Kind: &pb.Command_Answer{Answer: &pb.Answer{Token: token, Verdict: &pb.Verdict{Kind: 2, Info: long}}}},
		{Conn: conn, Kind: &pb.Command_Settle{Settle: &pb.Settle{Token: token}}},
		{Conn: conn, Kind: &pb.Command_Settle{Settle: &pb.Settle{Token: token, Change: &pb.Change{Kind: 9}}}},
		{Conn: conn, Kind: &pb.Command_Offer{Offer: &pb.PropValue{Id: 17}}},
		{Conn: conn, Kind: &pb.Command_Offer{Offer: &pb.PropValue{Id: exp + 5, Value: long}}},
		{Conn: conn, Kind: &pb.Command_Ask{Ask: &pb.Ask{Id: 17}}},
		{Conn: conn, Kind: &pb.Command_Request{Request: &pb.Request{}}},
		{Conn: conn, Kind: &pb.Command_Attach{Attach: &pb.Attach{Op: "note"}}},
		{Conn: conn, Kind: &pb.Command_Attach{Attach: &pb.Attach{Op: "wrap", Info: long}}},
		{Conn: conn, Kind: &pb.Command_Consumed{Consumed: &pb.Consumed{Op: "note"}}},
		{Conn: conn, Kind: &pb.Command_Consumed{Consumed: &pb.Consumed{Op: "note", N: 1 << 31}}},
		{Conn: conn, Kind: &pb.Command_Took{Took: &pb.Took{Events: 1 << 31}}},
		{Conn: conn, Kind: &pb.Command_Took{Took: &pb.Took{Calls: 1}}},
		{Conn: conn, Kind: &pb.Command_Started{Started: &pb.Started{}}},
		{Conn: conn, Kind: &pb.Command_Started{Started: &pb.Started{}}},
		{Conn: conn, Kind: &pb.Command_Peer{Peer: &pb.PropValue{Id: 1}}},
		{Conn: conn, Kind: &pb.Command_PeerRequest{PeerRequest: &pb.Ask{Id: 1}}},
	}
}
