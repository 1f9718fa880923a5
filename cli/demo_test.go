package cli

import (
	"strings"
	"testing"

	"github.com/rpcrdma/rpcrdma/cli/demo"
)

// What did not hold is said and is a failure, as text and as JSON.
func TestDemoFails(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		r := &demo.Report{Passes: []demo.Pass{{Name: "tree", Version: 2,
			Checks: []demo.Check{{What: "credits were granted", Detail: "none"}, {What: "version 2 settled", Detail: "version 2 was", OK: true}}}}}
		var out strings.Builder
		if err := conclude(&out, r, asJSON); err == nil || !strings.Contains(err.Error(), "did not hold") {
			t.Errorf("JSON %v: %v", asJSON, err)
		}
		if !asJSON && strings.Count(out.String(), "FAILED pass") != 1 || !strings.Contains(out.String(), "credits were granted") {
			t.Errorf("JSON %v: %s", asJSON, &out)
		}
		r.OK = true
		if err := conclude(&out, r, asJSON); err != nil {
			t.Errorf("JSON %v: %v", asJSON, err)
		}
	}
}
