package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/extensions"
	"github.com/rpcrdma/rpcrdma/test/self"
)

// propsPlugin is the extension props as a plugin, and the block of a configuration file that names it.
func propsPlugin(t *testing.T) (path, block string) {
	t.Helper()
	path = self.As(t, "rpcrdma-ext-props") // this program under that name is one
	sum, err := extensions.Digest(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, fmt.Sprintf("extension %q {\n path = %q\n sha256 = %q\n}\n", "props", path, sum)
}

// TestPluginsEnd: whatever becomes of a command, its plugins have ended when it returns.
func TestPluginsEnd(t *testing.T) {
	t.Setenv("RPCRDMA_STATE", filepath.Join(t.TempDir(), "state"))
	plugin, block := propsPlugin(t)
	dir := filepath.Dir(plugin)
	file := filepath.Join(dir, "rpcrdma.hcl")
	bad := filepath.Join(dir, "bad.hcl")
	for name, text := range map[string]string{file: block, bad: block + "extension \"nosuch\" {}\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, c := range []struct {
		line string
		want int
	}{
		{"ping -c 1 iwarp://127.0.0.1:1", exitFailed},
		{"ping -c 1 -W 50ms iwarp://" + silent.Addr().String(), exitFailed},
		{"ping -c 1 iwarp://127.0.0.1:1?nosuch=1", exitUsage},
		{"ping -c 1 --pcap /nosuch/file iwarp://127.0.0.1:1", exitFailed},
		{"nfs ls iwarp://127.0.0.1:1/", exitFailed},
		{"serve nfs --export /nosuch --listen iwarp://127.0.0.1:0", exitFailed},
		{"serve nfs --export . --mount-listen none --listen iwarp://192.0.2.1:0", exitFailed},
		{"serve nfs --export . --mount-listen none --listen iwarp://127.0.0.1:0", exitOK},
		{"bench serve --listen iwarp://127.0.0.1:0", exitOK},
		{"bench serve --listen iwarp://192.0.2.1:0", exitFailed},
		{"bench run iwarp://127.0.0.1:1", exitFailed},
		{"bench run -n 1 loopback://", exitOK},
		{"extensions list", exitOK},
		{"extensions verify", exitOK},
	} {
		for _, config := range []string{file, bad} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			var errs strings.Builder
			got := Run(ctx, append(strings.Fields(c.line), "--config", config), strings.NewReader(""), untilListening(cancel), &errs)
			cancel()
			want := c.want
			if config == bad && c.line != "extensions list" {
				want = exitFailed
			}
			if got != want {
				t.Errorf("%s: status %d, want %d: %s", c.line, got, want, &errs)
			}
			if n := processes(plugin); n > 0 {
				t.Errorf("%s, %s: %d plugins run on", c.line, filepath.Base(config), n)
			}
		}
	}
}

// untilListening is an output that ends those that serve.
type untilListening func()

func (end untilListening) Write(b []byte) (int, error) {
	if strings.Contains(string(b), "listening on ") {
		end()
	}
	return len(b), nil
}

// processes counts those that were started as path.
func processes(path string) int { return len(pids(path)) }

func pids(path string) (all []int) {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(b), path+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			all = append(all, pid)
		}
	}
	return all
}
