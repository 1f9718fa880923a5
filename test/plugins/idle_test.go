package plugins_test

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/extensions"
	"github.com/rpcrdma/rpcrdma/test/wait"
)

// caller is a client and server with ten idle plugins, or none, and what makes one call.
func caller(t testing.TB, loaded *extensions.Loaded) func() {
	exts := rpc.WithExtensions(nil)
	if loaded != nil {
		exts = rpc.WithExtensions(loaded.Set())
	}
	c := dial(t, serve(t, "loopback://127.0.0.1:0", exts), exts)
	in, out := make(blob, 64), make(blob, 0, 64)
	call := func() {
		if err := c.Call(context.Background(), echo, &in, &out); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		call()
	}
	if loaded != nil {
		wait.For(t, "the plugins' two connections", func() bool {
			for _, h := range loaded.Health() {
				if h.Plugin.Connections != 2 || h.Plugin.Waiting != 0 {
					return false
				}
			}
			return true
		})
	}
	return call
}

// TestIdle: with ten idle plugins a plain call allocates nothing: nothing per RPC crosses to another process.
// So many calls are made that what pings allocate, when they come meanwhile, is less than one for each.
func TestIdle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	call := caller(t, idle(t, 10))
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it empties pools, which are then filled again
	call()
	if n := testing.AllocsPerRun(20_000, call); n > 0 {
		t.Errorf("a call allocates %v times", n)
	}
}

// BenchmarkCall is a call over loopback, with the process on core 0, and the plugins on core 1.
func BenchmarkCall(b *testing.B) {
	for _, n := range []int{0, 10} {
		b.Run(fmt.Sprint("plugins=", n), func(b *testing.B) {
			var loaded *extensions.Loaded
			if n > 0 {
				loaded = idle(b, n)
				for _, h := range loaded.Health() {
					pin(b, h.Plugin.PID, 1)
				}
			}
			pin(b, os.Getpid(), 0)
			defer pin(b, os.Getpid(), 0, 1)
			call := caller(b, loaded)
			b.ReportAllocs()
			before := cpu(b)
			for b.Loop() {
				call()
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpu is the CPU time of the process, in nanoseconds.
func cpu(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// pin keeps a process's threads, and those that they start, on cores.
func pin(b *testing.B, pid int, cores ...int) {
	b.Helper()
	var set unix.CPUSet
	for _, c := range cores {
		set.Set(c)
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, d := range threads {
		tid, _ := strconv.Atoi(d.Name())
		_ = unix.SchedSetaffinity(tid, &set) // a thread may have ended; one core is no fault of ours
	}
}
