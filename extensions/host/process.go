package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/extensions/sdk"
	pb "github.com/rpcrdma/rpcrdma/extensions/sdk/extensionpb"
)

const (
	maxBatch = 256 << 10 // bytes of one message to a plugin, beyond its first event
	maxOut   = 16 << 20  // bytes that wait for a plugin in all; what is not bounded otherwise is late then

	// What is read from a plugin: its operations wait when it sends more. Half a KiB counts as a command.
	commandRate  = 20_000 // a second
	commandBurst = 20_000
)

// process is one life of a plugin: a go-plugin client, which starts one process once, and the stream to it. Its goroutines:
// read and write of the stream, and the watchdog; its Plugin's supervisor ends it.
type process struct {
	p       *Plugin
	child   *child
	client  *plugin.Client
	lines   *lines
	dir     *runDir // of its socket
	conn    *grpc.ClientConn
	decl    *pb.Declaration
	version int

	cancel context.CancelFunc // of stream
	stream grpc.BidiStreamingClient[pb.Events, pb.Commands]
	wg     sync.WaitGroup
	failed chan error // what is wrong with a process that lives
	pace   *bucket

	ready    chan struct{} // one token: out is not empty
	mu       sync.Mutex
	over     bool
	sessions map[uint64]*session
	last     uint64 // number of a connection
	out      []*pb.Event
	bytes    int
	strikes  int
}

// start makes a process of the plugin's file and takes it to where it could serve. An error is one of
// startError's; nothing is left behind then.
func (p *Plugin) start(ctx context.Context) (x *process, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.c.StartTimeout, fmt.Errorf("it did not come up within %v", p.c.StartTimeout))
	defer cancel()
	file, err := openChecked(p.c.Path, p.c.SHA256)
	if err != nil {
		return nil, p.failure(err, nil)
	}
	defer file.Close() // it is executed by then
	if p.tune.checked != nil {
		p.tune.checked()
	}
	dir, err := newRunDir(p.c.RunDir)
	if err != nil {
		return nil, p.failure(fmt.Errorf("no folder for its socket: %w", err), nil)
	}
	x = &process{
		p: p, lines: newLines(p.log, &p.linesLost), dir: dir, failed: make(chan error, 1), ready: make(chan struct{}, 1),
		pace: newBucket(commandRate, commandBurst), sessions: map[uint64]*session{},
	}
	x.child = newChild(p.c.Path, file, x.lines)
	x.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  sdk.Handshake,
		VersionedPlugins: sdk.Plugins(nil, p.tune.versions...),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS:         true,
		SkipHostEnv:      true,
		StartTimeout:     p.c.StartTimeout,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir.path},
		SyncStdout:       x.lines,
		SyncStderr:       x.lines,
		Logger:           hclog.New(&hclog.LoggerOptions{Level: hclog.Off}),
		GRPCDialOptions: []grpc.DialOption{grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(sdk.MaxMessage), grpc.MaxCallSendMsgSize(sdk.MaxMessage))},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, sockets string) (runner.Runner, error) {
			x.child.env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin"}, cmd.Env...)
			x.child.dir = sockets
			return x.child, nil
		},
	})
	if err := x.come(ctx); err != nil {
		if status.Code(err) == codes.Unavailable { // it is about to say why
			select {
			case <-x.child.exited:
			case <-time.After(drain):
			}
		}
		x.end(false)
		x.lines.flush()
		return nil, p.failure(x.why(err), x.lines)
	}
	x.dir.remove() // we are connected, and do not connect again
	return x, nil
}

// come starts the process, and asks it what it is. go-plugin has no deadline for what it does after the
// handshake; killing the process ends it.
func (x *process) come(ctx context.Context) error {
	type result struct {
		client plugin.ClientProtocol
		err    error
	}
	came := make(chan result, 1)
	go func() {
		c, err := x.client.Client()
		came <- result{c, err}
	}()
	var r result
	select {
	case r = <-came:
	case <-ctx.Done():
		x.child.killGroup()
		<-came
		return context.Cause(ctx)
	}
	if r.err != nil {
		return r.err
	}
	raw, err := r.client.Dispense(sdk.Name)
	if err != nil {
		return err
	}
	x.conn, x.version = raw.(*grpc.ClientConn), x.client.NegotiatedVersion()
	api := pb.NewExtensionClient(x.conn)
	// It is not told of the deadline: it would end the call itself then, with an error of its own.
	call, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	x.decl, err = api.Describe(call, &pb.DescribeRequest{Options: x.p.c.Options})
	if err != nil {
		return described(ctx, err)
	}
	if err := x.check(); err != nil {
		return err
	}
	stream, cancel := context.WithCancel(context.Background())
	x.cancel = cancel
	if x.stream, err = api.Run(stream); err != nil {
		return described(ctx, err)
	}
	return nil
}

// check tells whether what the plugin says of itself can be loaded.
func (x *process) check() error {
	d := x.decl.Ext()
	if d.Name != x.p.c.Name {
		return fmt.Errorf("it calls itself %q: that must be its name in the configuration", printable(d.Name))
	}
	if d.Class == ext.Payload {
		return errors.New("it is of class payload: it sees every RPC, and nothing synchronous per RPC crosses to another process; compile it in")
	}
	if d.Carrier && x.version < 2 {
		return errors.New("it carries properties, which version 1 of the plugin protocol cannot")
	}
	var bad *ext.DeclareError
	if err := d.Check(); errors.As(err, &bad) {
		return errors.New(bad.Why)
	}
	return nil
}

// described is the error of a first call in words.
func described(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s := status.Convert(err); s.Code() == codes.FailedPrecondition {
		return errors.New(printable(s.Message()))
	}
	return err
}

// run starts the goroutines of a process that has come.
func (x *process) run() {
	x.wg.Go(x.read)
	x.wg.Go(x.write)
	x.wg.Go(x.watch)
}

// fail reports what is wrong; the supervisor ends the process.
func (x *process) fail(err error) {
	select {
	case x.failed <- err:
	default: // something else is already
	}
}

// read carries out what the plugin wants, as fast as its rate allows.
func (x *process) read() {
	for {
		m, err := x.stream.Recv()
		if err != nil {
			x.fail(fmt.Errorf("its stream ended: %s", first(status.Convert(err).Message())))
			return
		}
		for _, c := range m.GetCommands() {
			if why := x.command(c); why != "" && x.strike(why) {
				return
			}
		}
		if d := x.pace.take(len(m.GetCommands())+proto.Size(m)/512, time.Now()); d > 0 {
			select {
			case <-time.After(d):
			case <-x.stream.Context().Done():
			}
		}
	}
}

// strike counts what no SDK sends. Enough of it is the end.
func (x *process) strike(why string) (out bool) {
	x.p.struck.Add(1)
	x.mu.Lock()
	x.strikes++
	out = x.strikes >= MaxStrikes
	x.mu.Unlock()
	if out {
		x.fail(&nonsense{fmt.Sprintf("it sent nonsense %d times, last %s", MaxStrikes, why)})
	}
	return out
}

// nonsense ends a plugin for good.
type nonsense struct{ why string }

func (e *nonsense) Error() string { return e.why }

// write sends what waits, several events at a time. Where the plugin does not read it waits, and what is queued
// meanwhile is bounded by push and session.event.
func (x *process) write() {
	for {
		select {
		case <-x.ready:
		case <-x.stream.Context().Done():
			return
		}
		for {
			x.mu.Lock()
			n, size := 0, 0
			for n < len(x.out) && (n == 0 || size+proto.Size(x.out[n]) <= maxBatch) {
				size += proto.Size(x.out[n]) + 8
				n++
			}
			batch := x.out[:n:n]
			x.out = x.out[n:]
			x.mu.Unlock()
			if n == 0 {
				break
			}
			if err := x.stream.Send(&pb.Events{Events: batch}); err != nil {
				x.fail(fmt.Errorf("its stream ended: %s", first(status.Convert(err).Message())))
				return
			}
			x.mu.Lock()
			for _, e := range batch {
				x.bytes -= proto.Size(e)
			}
			x.mu.Unlock()
		}
	}
}

// push queues an event. bounded: it is refused where too much waits for the plugin in all.
func (x *process) push(e *pb.Event, bounded bool) bool {
	n := proto.Size(e)
	x.mu.Lock()
	if x.over || bounded && x.bytes+n > maxOut {
		x.mu.Unlock()
		return false
	}
	x.out = append(x.out, e)
	x.bytes += n
	x.mu.Unlock()
	select {
	case x.ready <- struct{}{}:
	default:
	}
	return true
}

// watch asks now and then whether the process still lives: one that is stopped does not exit.
func (x *process) watch() {
	health := grpc_health_v1.NewHealthClient(x.conn)
	tick := time.NewTicker(x.p.tune.ping)
	defer tick.Stop()
	missed := 0
	for {
		select {
		case <-tick.C:
		case <-x.stream.Context().Done():
			return
		}
		ctx, cancel := context.WithTimeout(x.stream.Context(), x.p.tune.ping)
		_, err := health.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: plugin.GRPCServiceName})
		cancel()
		if err == nil {
			missed = 0
			continue
		}
		if missed++; missed >= PingMisses {
			x.fail(fmt.Errorf("it has not answered %d pings in %v", PingMisses, PingMisses*x.p.tune.ping))
			return
		}
	}
}

// connect begins a connection. nil: the process is over.
func (x *process) connect(c ext.Conn) ext.Session {
	s := &session{x: x, conn: c, tokens: map[uint64]token{}, attached: map[string]bool{}, watches: true}
	e := &pb.Event{Kind: &pb.Event_Connect{Connect: &pb.Connect{}}}
	if x.p.decl.Carrier {
		carrier, ok := c.(ext.CarrierConn)
		if !ok {
			return nil // no engine does this
		}
		s.carrier = carrier
		e.GetConnect().Declared = pb.FromProps(carrier.Declared())
	}
	s.facts = c.Facts()
	e.Facts = pb.FromFacts(s.facts)
	x.mu.Lock()
	if x.over || x.bytes > maxOut {
		x.mu.Unlock()
		return nil
	}
	x.last++
	s.id = x.last
	x.sessions[s.id] = s
	x.mu.Unlock()
	e.Conn = s.id
	x.push(e, false)
	if s.carrier != nil {
		return &carrierSession{s}
	}
	return s
}

// forget drops a connection that has ended.
func (x *process) forget(id uint64) {
	x.mu.Lock()
	delete(x.sessions, id)
	x.mu.Unlock()
}

// end takes the process from its connections and ends it, and returns when nothing of it is left. graceful: it is asked
// first, and has stopBudget.
func (x *process) end(graceful bool) {
	x.mu.Lock()
	x.over = true
	sessions := x.sessions
	x.sessions, x.out = map[uint64]*session{}, nil
	x.mu.Unlock()
	for _, s := range sessions {
		s.down(&DownError{Name: x.p.c.Name})
	}
	if !graceful {
		x.child.killGroup()
	}
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		x.client.Kill()
	}()
	select {
	case <-killed:
	case <-time.After(stopBudget):
		x.child.killGroup()
		<-killed
	}
	if x.cancel != nil {
		x.cancel()
	}
	x.wg.Wait()
	if x.conn != nil {
		x.conn.Close()
	}
	x.child.close()
	x.dir.remove()
}

// why is go-plugin's error in a user's words: one line.
func (x *process) why(err error) error {
	text := err.Error()
	var unknown int
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case strings.HasPrefix(text, "Unrecognized remote plugin message: "):
		line, _, _ := strings.Cut(strings.TrimPrefix(text, "Unrecognized remote plugin message: "), "\n")
		if line = first(line); line != "" {
			return fmt.Errorf("it wrote %q to standard output, where its handshake belongs: is it a plugin, and does it print before sdk.Serve?", line)
		}
		return fmt.Errorf("%s before its handshake", x.child.how("it closed its standard output"))
	case strings.HasPrefix(text, "plugin exited before"):
		return fmt.Errorf("%s before its handshake", x.child.how("it ended"))
	case strings.HasPrefix(text, "timeout while waiting"):
		return fmt.Errorf("it did not come up within %v", x.p.c.StartTimeout)
	case strings.HasPrefix(text, "incompatible API version"):
		if n, _ := fmt.Sscanf(text, "incompatible API version with plugin. Plugin version: %d", &unknown); n == 1 {
			return fmt.Errorf("it speaks version %d of the plugin protocol, this program %v: build it with the program's own SDK", unknown, sorted(x.p.tune.versions))
		}
	case strings.HasPrefix(text, "unsupported plugin protocol"):
		return errors.New("it does not speak gRPC")
	}
	var path *os.PathError
	if errors.As(err, &path) && strings.HasPrefix(path.Op, "fork") {
		return fmt.Errorf("it cannot be executed: %w", path.Err)
	}
	if c := status.Code(err); c != codes.Unknown && c != codes.OK {
		text = status.Convert(err).Message()
		if c == codes.Unavailable {
			return errors.New(x.child.how("it ended its connection"))
		}
	}
	return errors.New(first(text))
}

// first is the first line of a text, in what a terminal can take, and of bounded length.
func first(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = printable(line)
	const most = 300
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + "…"
	}
	return line
}
