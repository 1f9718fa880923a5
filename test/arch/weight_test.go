package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWeight states what a program links that imports core/rpc and one provider: the
// standard library, golang.org/x and ourselves; so no gRPC, HCL, OpenTracing or Prometheus.
func TestWeight(t *testing.T) {
	for _, provider := range []string{"iwarp", "loopback", "rxe", "ibverbs"} {
		t.Run(provider, func(t *testing.T) {
			var pkgs []string
			for _, dir := range []string{"core/rpc", "providers/" + provider} {
				if sources, _ := filepath.Glob(filepath.Join(root, dir, "*.go")); len(sources) == 0 {
					t.Skipf("no Go files in %s", dir)
				}
				pkgs = append(pkgs, "./"+dir)
			}
			cmd := exec.Command("go", append([]string{"list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}"}, pkgs...)...)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("go list: %v\n%s", err, stderr(err))
			}
			for _, p := range strings.Fields(string(out)) {
				if !strings.HasPrefix(p, module) && !strings.HasPrefix(p, "golang.org/x/") {
					t.Errorf("core/rpc with providers/%s links %s", provider, p)
				}
			}
		})
	}
}

func stderr(err error) string {
	if e, ok := err.(*exec.ExitError); ok {
		return string(e.Stderr)
	}
	return ""
}
