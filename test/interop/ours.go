package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	ourURL   = "iwarp://" + host4 + ":20049"
	ourMount = "mount -t nfs -o vers=3,proto=rdma,port=20049,mountproto=tcp,mountport=20048,nolock " + host4 + ":/ /mnt"
)

// server is a running `rpcrdma serve nfs`.
type server struct {
	t      *T
	cmd    *exec.Cmd
	args   []string
	export string // the directory it serves
	log    string
	line   string // the mount line that it printed
}

// serve starts our server on a directory of this case, for everybody as themselves unless args
// say something else.
func (t *T) serve(args ...string) *server {
	s := &server{t: t, export: filepath.Join(t.dir, "export"), log: filepath.Join(t.dir, "server.log")}
	t.check(os.MkdirAll(s.export, 0o777))
	t.check(os.Chmod(s.export, 0o777))
	s.args = append(append(t.wrap[:len(t.wrap):len(t.wrap)], filepath.Join(t.bin, "rpcrdma"), "serve", "nfs", "--export", s.export, "--state", filepath.Join(t.dir, "state")), args...)
	if !strings.Contains(strings.Join(args, " "), "--listen") {
		s.args = append(s.args, "--listen", ourURL)
	}
	if !strings.Contains(strings.Join(args, " "), "--squash") {
		s.args = append(s.args, "--squash", "none")
	}
	s.start()
	t.defer_(s.end)
	// What was exported is only of use when the case has failed.
	t.defer_(func() {
		if t.failure == "" {
			_ = os.RemoveAll(s.export)
		}
	})
	return s
}

func (s *server) start() {
	f, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	s.t.check(err)
	defer f.Close()
	before, _ := os.ReadFile(s.log)
	s.cmd = s.t.command(context.Background(), s.args...)
	s.cmd.Stdout, s.cmd.Stderr = f, f
	s.t.check(s.cmd.Start())
	err = until(15*time.Second, func() bool {
		b, _ := os.ReadFile(s.log)
		for line := range strings.Lines(string(b[len(before):])) {
			if strings.HasPrefix(line, "mount ") {
				s.line = strings.TrimSpace(line)
			}
		}
		return s.line != "" && bytes.Contains(b[len(before):], []byte("listening on"))
	})
	if err != nil {
		s.t.fatal("the server does not start: %s", tail(s.log, 10))
	}
}

// kill9 ends the server without a word.
func (s *server) kill9() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// end stops the server in order, which must succeed.
func (s *server) end() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan error, 1)
	go func() { done <- s.cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil && s.t.failure == "" {
			s.t.failure = fmt.Sprintf("the server ended with %v: %s", err, tail(s.log, 5))
		}
	case <-time.After(15 * time.Second):
		_ = s.cmd.Process.Kill()
		<-done
		if s.t.failure == "" {
			s.t.failure = "the server does not end when asked to"
		}
	}
	s.cmd = nil
}

// ours runs rpcrdma to its end. ok says whether it is to succeed.
func (t *T) ours(ok bool, args ...string) string {
	ctx, cancel := context.WithTimeout(t.ctx, 3*time.Minute)
	defer cancel()
	c := t.command(ctx, append([]string{filepath.Join(t.bin, "rpcrdma")}, args...)...)
	out, err := c.CombinedOutput()
	if (err == nil) != ok {
		t.fatal("rpcrdma %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
