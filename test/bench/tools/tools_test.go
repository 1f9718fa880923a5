package tools

import (
	"math"
	"strings"
	"testing"
)

// What the programs of Debian 12 print.
var printed = map[string]string{
	"UCX tcp, get, 1 MiB": `
|     Test     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
[thread 0]               100   1800.000 1801.000 1802.000      500.00     500.00         500         500
Final:                   300   1720.870 2162.773 2162.773      462.37     462.40         462         462
`,
	"UCX tcp, active message, 64 B, latency": `
+--------------+--------------+----------+---------+---------+----------+----------+-----------+-----------+
                        1000      4.854     5.166     5.166       11.81      11.81      193558      193558
`,
	"libfabric tcp, 64 B, latency": `
bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
64      1k      =1k      125k        0.62s      0.21     308.02       0.00
`,
	"libfabric tcp;ofi_rxm, 1 MiB": `
bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
1m      100     =100     200m        1.51s    139.02    7542.71       0.00
`,
}

func TestParse(t *testing.T) {
	want := map[string]float64{"UCX tcp, get, 1 MiB": 0.4848, "UCX tcp, active message, 64 B, latency": 9.708,
		"libfabric tcp, 64 B, latency": 616.04, "libfabric tcp;ofi_rxm, 1 MiB": 0.13902}
	for _, one := range all() {
		if packages[one.server[0]] == "" {
			t.Errorf("%s: no package is named", one.name)
		}
		out, ok := printed[one.name]
		if !ok {
			continue
		}
		if got, err := one.parse([]byte(out)); err != nil || math.Abs(got-want[one.name]) > 1e-3*want[one.name] {
			t.Errorf("%s: %v, %v; want %v", one.name, got, err, want[one.name])
		}
		delete(want, one.name)
		if _, err := one.parse([]byte("connection refused\n")); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%s: an error's text was a result: %v", one.name, err)
		}
	}
	if len(want) > 0 {
		t.Errorf("no tool for %v", want)
	}
}
