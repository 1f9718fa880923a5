package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/extensions"
	"github.com/rpcrdma/rpcrdma/ulp/nfs"
)

// clientConfig is the line that the client's process reads: one pass.
type clientConfig struct {
	From    string `json:"from"` // URL of the source's export
	To      string `json:"to"`   // URL of the export that is written
	Back    string `json:"back"` // the directory made there
	Min     uint32 `json:"min"`  // versions to allow
	Max     uint32 `json:"max"`
	Echo    bool   `json:"echo"`
	Inline  int    `json:"inline"`
	Credits int    `json:"credits"`
	// Extensions are loaded where version 2 is allowed.
	Extensions []extensions.Spec `json:"extensions"`
}

// clientLine is what it prints: progress, and at the end the result.
type clientLine struct {
	Step   string      `json:"step,omitempty"`
	Done   int64       `json:"done,omitempty"`
	Total  int64       `json:"total,omitempty"`
	Result *passResult `json:"result,omitempty"`
	Error  string      `json:"error,omitempty"`
}

// passResult is what the client saw.
type passResult struct {
	Version  uint32        `json:"version"` // 0: none was settled, or the two connections differ
	Received Digest        `json:"received"`
	Counters obs.Counters  `json:"counters"`
	Credits  uint64        `json:"credits"`
	List     time.Duration `json:"list_ns"`
	Read     time.Duration `json:"read_ns"`
	Write    time.Duration `json:"write_ns"`
	Echoes   int           `json:"echoes"`
}

// Client is the client's process: it reads one configuration and makes one pass.
func Client(ctx context.Context, in io.Reader, out, errs io.Writer) error {
	line, err := bufio.NewReader(in).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("demo client: nothing to do: %w", err)
	}
	var cfg clientConfig
	if err := json.Unmarshal(line, &cfg); err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	if cfg.Max < 2 {
		cfg.Extensions = nil
	}
	loaded, _, err := load(ctx, cfg.Extensions, errs)
	if err != nil {
		return errors.Join(err, enc.Encode(clientLine{Error: err.Error()}))
	}
	defer loaded.Close()
	r, err := pass(ctx, cfg, loaded.Set(), func(step string, done, total int64) {
		_ = enc.Encode(clientLine{Step: step, Done: done, Total: total}) // the result's line tells whether anybody listens
	})
	if err != nil {
		return errors.Join(err, enc.Encode(clientLine{Error: err.Error()}))
	}
	return enc.Encode(clientLine{Result: r})
}

// side is one of a pass's connections.
type side struct {
	rpc *rpc.Client
	fs  *nfs.FS
}

func open(ctx context.Context, url string, cfg clientConfig, set *ext.Set, opts ...rpc.ClientOption) (s side, err error) {
	// Bulk data is moved whatever its size, though small files would fit inline: moving is what
	// is to be shown.
	s.rpc, err = rpc.NewClient(url, append(opts, rpc.WithVersions(cfg.Min, cfg.Max), rpc.WithMoveAbove(1), rpc.WithInline(cfg.Inline),
		rpc.WithCredits(cfg.Credits), rpc.WithExtensions(set), rpc.WithAuthSys(rpcmsg.Sys{Machine: "demo"}))...)
	if err != nil {
		return s, err
	}
	if s.fs, _, err = nfs.Mount(ctx, s.rpc, "/", nil); err != nil {
		s.rpc.Close()
	}
	return s, err
}

func (s side) version() (v uint32) {
	for _, c := range s.rpc.Conns() {
		v = c.Version()
	}
	return v
}

// pass lists, reads, writes back and echoes.
func pass(ctx context.Context, cfg clientConfig, set *ext.Set, tell func(step string, done, total int64)) (*passResult, error) {
	from, err := open(ctx, cfg.From, cfg, set)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	defer from.rpc.Close()
	programs := rpc.NewServer() // what the server calls back
	defer programs.Close()
	registerEcho(programs)
	to, err := open(ctx, cfg.To, cfg, set, rpc.WithPrograms(programs))
	if err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	defer to.rpc.Close()

	start := time.Now()
	nodes, err := list(ctx, from.fs)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	r := &passResult{List: time.Since(start)}
	c := copier{from: from, to: to, back: cfg.Back, tell: tell, result: r}
	if err := c.run(ctx, nodes); err != nil {
		return nil, err
	}
	if cfg.Echo {
		if r.Echoes, err = runEcho(ctx, to.rpc); err != nil {
			return nil, err
		}
	}
	if r.Version = from.version(); r.Version != to.version() {
		r.Version = 0
	}
	n := to.rpc.Counters()
	r.Credits = n.Granted
	n.Add(from.rpc.Counters())
	r.Counters = n
	return r, nil
}
