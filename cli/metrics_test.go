package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rpcrdma/rpcrdma/core/obs"
)

// TestEveryCounterIsExported: each field of obs.Counters is a metric, once, under a name of its own, and a gauge where Totals
// takes it for one.
func TestEveryCounterIsExported(t *testing.T) {
	var c obs.Counters
	v := reflect.ValueOf(&c).Elem()
	fields := make(map[*uint64]string)
	for i := range v.NumField() {
		fields[v.Field(i).Addr().Interface().(*uint64)] = v.Type().Field(i).Name
		v.Field(i).SetUint(1)
	}
	names := make(map[string]bool)
	for _, m := range counted {
		at := m.of(&c)
		if fields[at] == "" {
			t.Errorf("%v is of no field, or of one that has another", m.Desc)
		}
		delete(fields, at)
		name := m.String()
		if names[name] {
			t.Errorf("%s twice", name)
		}
		names[name] = true
		totals := c.Totals()
		if isGauge := *m.of(&totals) == 0; isGauge != (m.kind == prometheus.GaugeValue) || isGauge == strings.Contains(name, "_total\"") {
			t.Errorf("%s: a gauge or not?", name)
		}
	}
	for _, name := range fields {
		t.Errorf("%s is not exported", name)
	}
}

// said is what a verb prints, while it runs.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// find waits until it has said what re matches, and returns its first group.
func (s *said) find(t *testing.T, re string) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if m := regexp.MustCompile(re).FindStringSubmatch(s.String()); m != nil {
			return m[1]
		}
		if time.Now().After(end) {
			t.Fatalf("it never said %s, but:\n%s", re, s)
		}
	}
}

func scrape(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %.200s", url, r.Status, err, b)
	}
	return string(b)
}

// until scrapes until all lines are there.
func until(t *testing.T, url string, lines ...string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		got := scrape(t, url)
		missing := ""
		for _, l := range lines {
			if !strings.Contains("\n"+got, "\n"+l+"\n") {
				missing = l
				break
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no line %q in:\n%s", missing, regexp.MustCompile(`(?m)^(#|go_|process_|promhttp_).*\n`).ReplaceAllString(got, ""))
		}
	}
}

// TestMetrics: a server's counters and how its plugin fares, over HTTP, by the configuration; killed, the plugin's restart is counted.
func TestMetrics(t *testing.T) {
	plugin, block := propsPlugin(t)
	file := filepath.Join(filepath.Dir(plugin), "rpcrdma.hcl")
	if err := os.WriteFile(file, []byte(block+"extension \"keepalive\" {}\nmetrics { listen = \"127.0.0.1:0\" }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var out, errs said
	status := make(chan int)
	go func() {
		status <- Run(ctx, []string{"bench", "serve", "--listen", "iwarp://127.0.0.1:0", "--config", file}, strings.NewReader(""), &out, &errs)
	}()
	ended := false
	end := func() int { cancel(); ended = true; return <-status }
	defer func() {
		if !ended {
			end()
		}
	}()
	url := errs.find(t, `metrics at (http://\S+)`)
	target := out.find(t, `listening on (\S+)`)
	until(t, url,
		`rpcrdma_connections{role="server"} 0`,
		`rpcrdma_calls_received_total{role="server"} 0`,
		`rpcrdma_extension_state{extension="props",state="up"} 1`,
		`rpcrdma_extension_state{extension="props",state="quarantined"} 0`,
		`rpcrdma_extension_state{extension="keepalive",state="compiled in"} 1`,
		fmt.Sprintf(`rpcrdma_extension_info{extension="props",path=%q,protocol="2",version="1"} 1`, plugin),
		`rpcrdma_extension_restarts_total{extension="props"} 0`)
	var answer bytes.Buffer
	if got := Run(ctx, []string{"bench", "run", "-n", "100", target}, strings.NewReader(""), &answer, &answer); got != exitOK {
		t.Fatalf("bench run: %d: %s", got, &answer)
	}
	got := scrape(t, url)
	if strings.Contains("\n"+got, "\nrpcrdma_calls_received_total{role=\"server\"} 0\n") || !strings.Contains(got, "\ngo_goroutines ") {
		t.Errorf("after 100 calls:\n%s", got)
	}
	for _, pid := range pids(plugin) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	until(t, url, `rpcrdma_extension_restarts_total{extension="props"} 1`, `rpcrdma_extension_state{extension="props",state="up"} 1`)

	for _, bad := range []string{"/nosuch", "/metrics/x"} {
		r, err := http.Get(strings.TrimSuffix(url, "/metrics") + bad)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", bad, r.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if got := end(); got != exitOK {
		t.Errorf("status %d: %s", got, &errs)
	}
	if n := processes(plugin); n > 0 {
		t.Errorf("%d plugins run on", n)
	}
}

// TestMetricsMisused: what cannot be exported is said in one line, before anything is served.
func TestMetricsMisused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct {
		addr, want string
		status     int
	}{
		{"9464", "rpcrdma: --metrics 9464: want an address and a port, such as 127.0.0.1:9464\n", exitUsage},
		{"", "rpcrdma: --metrics : want an address and a port, such as 127.0.0.1:9464\n", exitUsage},
		{l.Addr().String(), "rpcrdma: cannot export metrics on " + l.Addr().String() + ": bind: address already in use; choose another address with --metrics\n", exitFailed},
	} {
		var out, errs said
		got := Run(t.Context(), []string{"bench", "serve", "--listen", "iwarp://127.0.0.1:0", "--metrics", c.addr}, strings.NewReader(""), &out, &errs)
		if got != c.status || errs.String() != c.want || out.String() != "" {
			t.Errorf("%q: status %d, %q, %q", c.addr, got, &out, &errs)
		}
	}
}
