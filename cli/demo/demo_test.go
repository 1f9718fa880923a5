package demo

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"testing"
	"time"

	_ "github.com/rpcrdma/rpcrdma/providers/loopback"
)

// TestPass runs both roles in one process over the loopback provider: what moves,
// what is counted, and that a tree that was tampered with does not pass.
func TestPass(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	tree, store := t.TempDir(), t.TempDir()
	if err := (Spec{Seed: 3, Files: 420, Bytes: 20 << 20}).Make(tree); err != nil {
		t.Fatal(err)
	}
	source, err := digestDir(ctx, tree, nil)
	if err != nil {
		t.Fatal(err)
	}
	toServer, fromServer := startInProcess(t, serverConfig{Listen: "loopback://127.0.0.1:0", Inline: 4096, Credits: 64, Exports: []export{{Dir: store}, {Dir: tree, ReadOnly: true}}})
	var ready serverReady
	if err := fromServer.Decode(&ready); err != nil || len(ready.URLs) != 2 {
		t.Fatalf("%+v, %v", ready, err)
	}
	state := func() (s serverState) {
		t.Helper()
		time.Sleep(20 * time.Millisecond)
		if err := toServer.Encode(struct{}{}); err != nil {
			t.Fatal(err)
		}
		if err := fromServer.Decode(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, p := range []plan{{name: "tree", want: 2, min: 1, max: 2, echo: true, inline: 4096}, {name: "tree", want: 1, min: 1, max: 1, echo: true, inline: 4096}} {
		before := state()
		back := map[uint32]string{1: "one", 2: "two"}[p.want]
		got, err := pass(ctx, clientConfig{From: ready.URLs[1], To: ready.URLs[0], Back: back, Min: p.min, Max: p.max, Echo: true, Inline: 4096, Credits: 64}, nil, func(string, int64, int64) {})
		if err != nil {
			t.Fatalf("version %d: %v", p.want, err)
		}
		after := state()
		stored, err := digestDir(ctx, store+"/"+back, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := Pass{Bytes: source.Bytes(), Version: got.Version, Client: Counters(got.Counters), Server: Counters(minus(after.Counters, before.Counters)), Echoes: got.Echoes, Credits: got.Credits}
		r.judge(p, source, got.Received, stored)
		for _, c := range r.Checks {
			if !c.OK {
				t.Errorf("version %d: %s: %s", p.want, c.What, c.Detail)
			}
		}
		t.Logf("version %d: client %+v", p.want, r.Client)
		t.Logf("version %d: server %+v", p.want, r.Server)

		stored["many/00100.bin"] = Entry{Kind: "file", Size: 1}
		if r.judge(p, source, got.Received, stored); allHeld(r.Checks) {
			t.Error("a file that is not the source's passed")
		}
	}
}

// startInProcess runs the server's role as a goroutine and gives its lines.
func startInProcess(t *testing.T, cfg serverConfig) (*json.Encoder, *json.Decoder) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Server(context.WithoutCancel(t.Context()), inR, outW, os.Stderr) }()
	t.Cleanup(func() {
		inW.Close()
		if err := <-done; err != nil {
			t.Errorf("server: %v", err)
		}
	})
	enc := json.NewEncoder(inW)
	if err := enc.Encode(cfg); err != nil {
		t.Fatal(err)
	}
	return enc, json.NewDecoder(outR)
}
