package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/extensions"
	"github.com/rpcrdma/rpcrdma/props"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/server3"
)

// export is a directory that the server offers at an address of its own.
type export struct {
	Dir      string `json:"dir"`
	ReadOnly bool   `json:"read_only"`
}

// serverConfig is the first line that the server's process reads.
type serverConfig struct {
	Listen  string   `json:"listen"` // with port 0: each export gets one
	Exports []export `json:"exports"`
	Inline  int      `json:"inline"`
	Credits int      `json:"credits"`
	// Extensions are loaded for version 2.
	Extensions []extensions.Spec `json:"extensions"`
}

// serverReady is its first line, one URL for each export.
type serverReady struct {
	URLs     []string `json:"urls,omitempty"`
	Extended string   `json:"extended,omitempty"` // where properties are exchanged and changed
	Error    string   `json:"error,omitempty"`
}

// serverState answers every further line; it counts from the process's start.
type serverState struct {
	Counters obs.Counters `json:"counters"`
	Plugin   pluginState  `json:"plugin"` // the demo's own
}

// pluginState is a plugin's process.
type pluginState struct {
	PID      int    `json:"pid"` // 0: none
	Restarts uint64 `json:"restarts"`
}

// Server is the server's process: it serves until its input ends.
func Server(ctx context.Context, in io.Reader, out, errs io.Writer) error {
	lines := bufio.NewScanner(in)
	enc := json.NewEncoder(out)
	if !lines.Scan() {
		return errors.New("demo server: nothing to serve")
	}
	var cfg serverConfig
	if err := json.Unmarshal(lines.Bytes(), &cfg); err != nil {
		return err
	}
	s := server{log: slog.New(slog.NewTextHandler(errs, &slog.HandlerOptions{Level: slog.LevelError}))}
	defer s.close()
	var ready serverReady
	var err error
	if s.loaded, s.props, err = load(ctx, cfg.Extensions, errs); err != nil {
		return errors.Join(err, enc.Encode(serverReady{Error: err.Error()}))
	}
	for _, e := range cfg.Exports {
		url, err := s.add(ctx, cfg, e)
		if err != nil {
			return errors.Join(err, enc.Encode(serverReady{Error: err.Error()}))
		}
		ready.URLs = append(ready.URLs, url)
	}
	if s.props != nil {
		if ready.Extended, err = s.listen(ctx, cfg, extendedInline, func(r *rpc.Server) { registerEcho(r, seenMethod(s.props)) }); err != nil {
			return errors.Join(err, enc.Encode(serverReady{Error: err.Error()}))
		}
	}
	if err := enc.Encode(ready); err != nil {
		return err
	}
	for lines.Scan() {
		var state serverState
		for _, r := range s.rpc {
			state.Counters.Add(r.Counters())
		}
		for _, h := range s.loaded.Health() {
			if h.Name == ExtensionName {
				state.Plugin = pluginState{h.Plugin.PID, h.Plugin.Restarts}
			}
		}
		if err := enc.Encode(state); err != nil {
			return err
		}
	}
	return nil
}

type server struct {
	log   *slog.Logger
	rpc   []*rpc.Server
	nfs   []*server3.Server
	ended []chan error

	loaded *extensions.Loaded
	props  *props.Extension
}

// add serves one export, with the echo program beside NFS.
func (s *server) add(ctx context.Context, cfg serverConfig, e export) (url string, err error) {
	// Names need not survive a crash of the machine here, so nothing waits for the disk.
	// Several servers share this process's descriptors, up to three for each open object.
	nfs, err := server3.New(e.Dir, server3.Options{ReadOnly: e.ReadOnly, Squash: server3.SquashNone, Async: true, MaxOpen: 128})
	if err != nil {
		return "", err
	}
	s.nfs = append(s.nfs, nfs)
	return s.listen(ctx, cfg, cfg.Inline, func(r *rpc.Server) {
		nfs.Register(r)
		registerEcho(r)
	})
}

// listen serves what register registers.
func (s *server) listen(ctx context.Context, cfg serverConfig, inline int, register func(*rpc.Server)) (url string, err error) {
	l, err := rpc.Listen(ctx, cfg.Listen, rpc.WithInline(inline), rpc.WithCredits(cfg.Credits), rpc.WithExtensions(s.loaded.Set()))
	var op *net.OpError
	switch {
	case errors.As(err, &op): // what the layers above it add, the address, is said here
		return "", fmt.Errorf("cannot listen on %s: %w", cfg.Listen, op.Err)
	case err != nil:
		return "", err
	}
	r := rpc.NewServer(rpc.WithLog(s.log))
	register(r)
	ended := make(chan error, 1)
	go func() { ended <- r.Serve(context.WithoutCancel(ctx), l) }()
	s.rpc, s.ended = append(s.rpc, r), append(s.ended, ended)
	return l.URL(), nil
}

func (s *server) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	for i, r := range s.rpc {
		_ = r.Shutdown(ctx) // who waits longer is cut short, as it should be
		<-s.ended[i]
	}
	for _, n := range s.nfs {
		n.Close()
	}
	if s.loaded != nil {
		s.loaded.Close()
	}
}
