package cli

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts in testdata/script run the program itself, as processes of their own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"rpcrdma": func() { os.Exit(Main()) },
		"badpeer": func() { os.Exit(badPeer(os.Args[1:])) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"await": await, "setfrom": setFrom},
		Setup: func(e *testscript.Env) error {
			e.Setenv("RPCRDMA_DEBUG", "")
			return nil
		},
	})
}

// await FILE [BYTES]: waits until the file is there with that many bytes, 1 unless said.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: await FILE [BYTES]")
	}
	var least int64 = 1
	if len(args) == 2 {
		if _, err := fmt.Sscan(args[1], &least); err != nil {
			ts.Fatalf("await: %v", err)
		}
	}
	name := ts.MkAbs(args[0])
	for range 1500 {
		matches, _ := filepath.Glob(name)
		for _, m := range matches {
			if st, err := os.Stat(m); err == nil && st.Size() >= least {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	ts.Fatalf("%s did not come", args[0])
}

// setfrom NAME FILE: sets the variable to the file's first word.
func setFrom(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: setfrom NAME FILE")
	}
	var word string
	if _, err := fmt.Sscan(ts.ReadFile(args[1]), &word); err != nil {
		ts.Fatalf("setfrom: %v", err)
	}
	ts.Setenv(args[0], word)
}

// badPeer is a TCP server that misbehaves: badpeer HOW FILE writes its port to FILE.
func badPeer(args []string) int {
	if len(args) != 2 {
		return 2
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 1
	}
	defer l.Close()
	// Written whole or not at all: the script reads it as soon as it is there.
	tmp := args[1] + ".tmp"
	port := fmt.Appendf(nil, "%d\n", l.Addr().(*net.TCPAddr).Port)
	if err := errors.Join(os.WriteFile(tmp, port, 0o600), os.Rename(tmp, args[1])); err != nil {
		return 1
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		go misbehave(c, args[0])
	}
}

func misbehave(c net.Conn, how string) {
	defer c.Close()
	reply := append([]byte("MPA ID Rep Frame"), 0x40, 1, 0, 0)
	switch how {
	case "http": // another protocol
		io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
		time.Sleep(time.Second)
	case "hangup":
	case "halfmpa": // stops within MPA's reply
		c.Write(reply[:9])
		io.Copy(io.Discard, c)
	case "halfheader": // accepts, and stops within the header of its first FPDU
		buf := make([]byte, 4096)
		c.Read(buf)
		c.Write(reply)
		c.Read(buf)
		c.Write([]byte{0, 60, 0x41, 0x43, 0, 0})
		io.Copy(io.Discard, c)
	case "halfclose": // the same, and then goes away
		buf := make([]byte, 4096)
		c.Read(buf)
		c.Write(reply)
		c.Read(buf)
		c.Write([]byte{0, 60, 0x41, 0x43, 0, 0})
	default: // "silent": accepts on TCP and says nothing
		io.Copy(io.Discard, c)
	}
}
