package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

	"github.com/rpcrdma/rpcrdma/core/obs"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/extensions"
)

// Bounds of what those who ask for metrics can take.
const (
	metricsConns   = 16
	metricsAsked   = 4 // answers in the making
	metricsPatient = 10 * time.Second
	metricsHeader  = 16 << 10 // bytes
)

// metrics exports, in Prometheus's text format, what the verb's clients, servers and extensions count. All is read when asked for:
// nothing is kept up to date for it. A nil one exports nothing.
type metrics struct {
	srv  *http.Server
	done chan error

	loaded *extensions.Loaded // nil: none are

	mu      sync.Mutex
	sources []source
}

// source is a client or a server.
type source struct {
	role  string
	count func() obs.Counters
	conns func() int
}

func ofClient(c *rpc.Client) source {
	return source{"client", c.Counters, func() int { return len(c.Conns()) }}
}

func ofServer(s *rpc.Server) source { return source{"server", s.Counters, s.Connections} }

// serveMetrics listens on addr, which config.HostPort has found to be right.
func serveMetrics(addr string, loaded *extensions.Loaded, errs io.Writer) (*metrics, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot export metrics on %s: %w; choose another address with --metrics", addr, causeOf(err))
	}
	m := &metrics{done: make(chan error, 1), loaded: loaded}
	r := prometheus.NewRegistry()
	r.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: metricsAsked, Timeout: metricsPatient}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "metrics are at /metrics") })
	m.srv = &http.Server{
		Handler: mux, ReadTimeout: metricsPatient, WriteTimeout: 2 * metricsPatient, IdleTimeout: time.Minute, MaxHeaderBytes: metricsHeader,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	fmt.Fprintf(errs, "rpcrdma: metrics at http://%s/metrics\n", l.Addr())
	go func() { m.done <- m.srv.Serve(netutil.LimitListener(l, metricsConns)) }()
	return m, nil
}

// causeOf is what a system call said, without what package net puts before it.
func causeOf(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

func (m *metrics) close() error {
	m.srv.Close()
	if err := <-m.done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// watch adds a client or a server to what is exported, until the verb ends.
func (m *metrics) watch(s source) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sources = append(m.sources, s)
}

// metric is one of ours, and how it is named and explained.
type metric struct {
	*prometheus.Desc
	kind prometheus.ValueType
}

func newMetric(kind prometheus.ValueType, name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc("rpcrdma_"+name, help, labels, nil), kind}
}

func (d metric) is(n uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d.Desc, d.kind, float64(n), labels...)
}

var (
	connectionsUp = newMetric(prometheus.GaugeValue, "connections", "Connections that are up.", "role")

	extensionInfo     = newMetric(prometheus.GaugeValue, "extension_info", "1 for each extension that is configured; path is a plugin's, protocol the version it is spoken to in.", "extension", "version", "path", "protocol")
	extensionState    = newMetric(prometheus.GaugeValue, "extension_state", "1 for the state that an extension is in, 0 for the others.", "extension", "state")
	extensionRestarts = newMetric(prometheus.CounterValue, "extension_restarts_total", "Processes of a plugin that followed one that had ended.", "extension")
	extensionConns    = newMetric(prometheus.GaugeValue, "extension_connections", "Connections that a plugin has a session on.", "extension")
	extensionWaiting  = newMetric(prometheus.GaugeValue, "extension_events_waiting", "Events that a plugin has not taken yet.", "extension")
	extensionDropped  = newMetric(prometheus.CounterValue, "extension_events_dropped_total", "Events that found a plugin's queue full.", "extension")
	extensionLate     = newMetric(prometheus.CounterValue, "extension_answers_late_total", "Answers of a plugin after their deadline, which had got their default by then.", "extension")
	extensionNonsense = newMetric(prometheus.CounterValue, "extension_nonsense_total", "Commands of a plugin that make no sense; it is quarantined for many.", "extension")
	extensionLines    = newMetric(prometheus.CounterValue, "extension_log_lines_lost_total", "Lines of a plugin's log beyond the rate that is kept.", "extension")
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []metric{connectionsUp, extensionInfo, extensionState, extensionRestarts, extensionConns, extensionWaiting,
		extensionDropped, extensionLate, extensionNonsense, extensionLines} {
		ch <- d.Desc
	}
	for _, c := range counted {
		ch <- c.Desc
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	sources := m.sources
	m.mu.Unlock()
	sums, conns := make(map[string]obs.Counters), make(map[string]int)
	for _, s := range sources {
		sum := sums[s.role]
		sum.Add(s.count())
		sums[s.role] = sum
		conns[s.role] += s.conns()
	}
	for role, sum := range sums {
		ch <- connectionsUp.is(uint64(conns[role]), role)
		for _, c := range counted {
			ch <- c.is(*c.of(&sum), role)
		}
	}
	if m.loaded == nil {
		return
	}
	for _, h := range m.loaded.Health() {
		protocol := ""
		if h.Plugin.Protocol != 0 {
			protocol = fmt.Sprint(h.Plugin.Protocol)
		}
		ch <- extensionInfo.is(1, h.Name, h.Version, h.Path, protocol)
		for _, s := range extensions.States() {
			n := uint64(0)
			if s == h.State {
				n = 1
			}
			ch <- extensionState.is(n, h.Name, s)
		}
		if h.Path == "" {
			continue
		}
		ch <- extensionRestarts.is(h.Plugin.Restarts, h.Name)
		ch <- extensionConns.is(uint64(h.Plugin.Connections), h.Name)
		ch <- extensionWaiting.is(uint64(h.Plugin.Waiting), h.Name)
		ch <- extensionDropped.is(h.Plugin.Dropped, h.Name)
		ch <- extensionLate.is(h.Plugin.Late, h.Name)
		ch <- extensionNonsense.is(h.Plugin.Nonsense, h.Name)
		ch <- extensionLines.is(h.Plugin.LinesLost, h.Name)
	}
}
