package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rpcrdma/rpcrdma/test/bench/drive"
	"github.com/rpcrdma/rpcrdma/test/bench/tools"
)

// record is what one slice of the report measured.
type record struct {
	When    time.Time
	Commit  string // of the tree that was measured
	Machine string
	Tables  map[string][]drive.Row // by group
	Idle    []drive.Idle           `json:",omitempty"`
	Tools   []tools.Result         `json:",omitempty"`
}

// records are kept by slice: each is measured when there is time for it.
type records map[string]record

func loadRecords(file string) (records, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return records{}, nil
	}
	r := records{}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	return r, err
}

// save writes r with a line for each row, so that a change is a line as well.
func (r records) save(file string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	for _, begin := range []string{`{"Workload"`, `{"Peer"`, `{"Name"`, `"Tables":`, `],"`} {
		b = bytes.ReplaceAll(b, []byte(begin), []byte(strings.Replace(begin, `{`, "\n{", 1)))
	}
	b = bytes.ReplaceAll(b, []byte(`},"`), []byte("},\n\""))
	return os.WriteFile(file, append(b, '\n'), 0o644)
}

// rows are all of a group's, whichever slice measured it.
func (r records) rows(group string) []drive.Row {
	for _, one := range r {
		if rows := one.Tables[group]; len(rows) > 0 {
			return rows
		}
	}
	return nil
}

// newRecord describes where and of what.
func newRecord() record {
	return record{When: time.Now().UTC().Truncate(time.Second), Commit: commit(), Machine: machine(), Tables: map[string][]drive.Row{}}
}

// commit is the last one that changed what is measured.
func commit() string {
	out, err := exec.Command("git", "log", "-1", "--format=%h", "--", ":/core", ":/providers").Output()
	if err != nil || len(out) == 0 {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// machine is the processor, how many there are, memory, kernel and Go.
func machine() string {
	cpu, memory, kernel := "unknown processor", "", ""
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(b), "model name"); ok {
			line, _, _ := strings.Cut(rest, "\n")
			cpu = strings.TrimSpace(strings.TrimLeft(line, "\t :"))
		}
		if strings.Contains(string(b), " hypervisor ") {
			cpu += " in a virtual machine"
		}
	}
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int
		if _, err := fmt.Sscanf(string(b), "MemTotal: %d kB", &kib); err == nil {
			memory = fmt.Sprintf(", %.0f GiB", float64(kib)/(1<<20))
		}
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel, _, _ = strings.Cut(strings.TrimSpace(string(b)), "-")
		kernel = ", Linux " + kernel
	}
	return fmt.Sprintf("%d CPUs (%s)%s%s, %s", runtime.NumCPU(), cpu, memory, kernel, runtime.Version())
}

// versions are those of the peers that are linked in.
func versions() (list []string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, m := range info.Deps {
		switch m.Path {
		case "google.golang.org/grpc", "github.com/willscott/go-nfs", "github.com/willscott/go-nfs-client":
			list = append(list, m.Path+" "+m.Version)
		}
	}
	for _, name := range []string{"ucx-utils", "libfabric-bin"} {
		out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", name).Output()
		if err == nil && len(out) > 0 {
			list = append(list, name+" "+string(out))
		}
	}
	return list
}
