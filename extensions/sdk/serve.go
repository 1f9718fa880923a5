package sdk

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rpcrdma/rpcrdma/core/ext"
	pb "github.com/rpcrdma/rpcrdma/extensions/sdk/extensionpb"
)

// Make makes an extension from the options of its configuration.
type Make = func(options map[string]string) (ext.Extension, error)

// Versions of the protocol that this package speaks, as a plugin and as a host; extension.proto says what they are.
const (
	Version         = 2
	PreviousVersion = 1
)

// Limits of the protocol.
const (
	MaxMessage = 512 << 10 // bytes of one message, in either direction
	MaxCalls   = 256       // calls of a connection whose ends have not been taken
)

// Handshake tells a plugin of ours from other programs. The cookie guards nobody from anything: it is how a plugin
// knows that it is run by hand.
var Handshake = plugin.HandshakeConfig{
	ProtocolVersion:  Version,
	MagicCookieKey:   "RPCRDMA_EXTENSION",
	MagicCookieValue: "2f8b6f0a-rdma-extension",
}

// Name is what the extension is called within its plugin.
const Name = "extension"

// Serve is the whole main of a plugin. It returns when the program has asked the process to end. It makes slog's default write
// what the program understands: lines of the plugin's become lines of the program's log, with their level.
func Serve(make Make) { ServeVersions(make, Version, PreviousVersion) }

// ServeVersions is Serve with fewer versions of the protocol, to test a program against an older plugin.
func ServeVersions(make Make, versions ...int) {
	if os.Getenv(Handshake.MagicCookieKey) != Handshake.MagicCookieValue {
		fmt.Fprint(os.Stderr, byHand())
		os.Exit(2)
	}
	// It was started through a descriptor, whose number ps would show. The kernel keeps 15 bytes.
	_ = os.WriteFile("/proc/self/comm", []byte(strings.TrimPrefix(filepath.Base(os.Args[0]), "rpcrdma-")), 0)
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil))) // so that the program sees the level
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  Handshake,
		VersionedPlugins: Plugins(make, versions...),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts, grpc.MaxRecvMsgSize(MaxMessage), grpc.MaxSendMsgSize(MaxMessage))...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr, JSONFormat: true}),
	})
}

// byHand is what a person reads who runs a plugin.
func byHand() string {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	name := strings.TrimPrefix(filepath.Base(path), "rpcrdma-ext-")
	text := fmt.Sprintf("%s is an extension of rpcrdma, which starts it; it does nothing when run by hand.\nTo load it, name it in the configuration:\n\n", filepath.Base(path))
	sum := "..."
	if f, err := os.Open(path); err == nil {
		h := sha256.New()
		if _, err := io.Copy(h, f); err == nil {
			sum = fmt.Sprintf("%x", h.Sum(nil))
		}
		f.Close()
	}
	return text + fmt.Sprintf("    extension %q {\n      path   = %q\n      sha256 = %q\n    }\n", name, path, sum)
}

// Plugins is what is served, and dispensed, in each version. A host has no make.
func Plugins(make Make, versions ...int) map[int]plugin.PluginSet {
	sets := map[int]plugin.PluginSet{}
	for _, v := range versions {
		sets[v] = plugin.PluginSet{Name: &service{make: make, version: v}}
	}
	return sets
}

// service is one version of the protocol. Dispensed, it is the *grpc.ClientConn.
type service struct {
	plugin.NetRPCUnsupportedPlugin
	make    Make
	version int
}

// GRPCServer is go-plugin's hook at the plugin.
func (s *service) GRPCServer(_ *plugin.GRPCBroker, g *grpc.Server) error {
	pb.RegisterExtensionServer(g, &server{make: s.make, version: s.version})
	return nil
}

// GRPCClient is go-plugin's hook at the program.
func (s *service) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, c *grpc.ClientConn) (any, error) {
	return c, nil
}

// server answers the program.
type server struct {
	pb.UnimplementedExtensionServer
	make    Make
	version int

	mu   sync.Mutex
	x    ext.Extension // once described
	decl ext.Declaration
	runs bool
}

func (s *server) Describe(_ context.Context, r *pb.DescribeRequest) (*pb.Declaration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.x != nil {
		return nil, status.Error(codes.FailedPrecondition, "it has been described already")
	}
	options := r.GetOptions()
	if options == nil {
		options = map[string]string{} // a Make may read it, and write to it
	}
	x, err := s.make(options)
	if err == nil && x == nil {
		err = errors.New("it made no extension")
	}
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	d := x.Declare()
	if d.Carrier && s.version < 2 {
		return nil, status.Error(codes.FailedPrecondition, "it carries properties, which version 1 of the plugin protocol cannot: the program is older than the plugin")
	}
	s.x, s.decl = x, d
	return pb.FromDeclaration(d), nil
}

func (s *server) Run(stream pb.Extension_RunServer) error {
	s.mu.Lock()
	x, decl, again := s.x, s.decl, s.runs
	s.runs = x != nil
	s.mu.Unlock()
	if x == nil || again {
		return status.Error(codes.FailedPrecondition, "Run comes once, after Describe")
	}
	l := &link{x: x, decl: decl, version: s.version, conns: map[uint64]*conn{}, ready: make(chan struct{}, 1)}
	return l.run(stream)
}
