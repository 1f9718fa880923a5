package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpc"
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
}

// serverReady is its first line, one URL for each export.
type serverReady struct {
	URLs  []string `json:"urls,omitempty"`
	Error string   `json:"error,omitempty"`
}

// serverState answers every further line; it counts from the process's start.
type serverState struct {
	Counters obs.Counters `json:"counters"`
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
	for _, e := range cfg.Exports {
		url, err := s.add(ctx, cfg, e)
		if err != nil {
			return errors.Join(err, enc.Encode(serverReady{Error: err.Error()}))
		}
		ready.URLs = append(ready.URLs, url)
	}
	if err := enc.Encode(ready); err != nil {
		return err
	}
	for lines.Scan() {
		var state serverState
		for _, r := range s.rpc {
			state.Counters.Add(r.Counters())
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
	l, err := rpc.Listen(ctx, cfg.Listen, rpc.WithInline(cfg.Inline), rpc.WithCredits(cfg.Credits))
	if err != nil {
		return "", fmt.Errorf("cannot listen on %s: %w", cfg.Listen, err)
	}
	r := rpc.NewServer(rpc.WithLog(s.log))
	nfs.Register(r)
	registerEcho(r)
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
}
