package engine

import (
	"testing"

	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/wire"
)

type declared ext.Declaration

func (d declared) Declare() ext.Declaration     { return ext.Declaration(d) }
func (d declared) Connect(ext.Conn) ext.Session { return nil }

// TestReceivesOfOperations: what the peer may send before it hears from us has a receive (D-8): operations by their windows,
// and answers or errors to ours.
func TestReceivesOfOperations(t *testing.T) {
	const id = ext.ExperimentalFirst
	for _, tc := range []struct {
		name           string
		client, server int
		ops            []ext.Op
	}{
		{"either side asks", 8, 8, []ext.Op{{Name: "ask", Type: id, Answer: "told", Window: 4}, {Name: "told", Type: id + 1, Reply: true}}},
		{"the client asks", 2, 2, []ext.Op{{Name: "ask", Type: id, Answer: "ask", From: ext.Client, Window: 2}}},
		{"one-way", 6, 6, []ext.Op{{Name: "note", Type: id, Window: 3}}},
		{"one-way from the server", 2, 2, []ext.Op{{Name: "hint", Proc: id, From: ext.Server, Window: 2}}},
		{"direction REPLY from the server, unasked", 1, 0, []ext.Op{{Name: "grant", Type: id, Reply: true, From: ext.Server}}},
		{"property operations have the six", 0, 0, []ext.Op{{Name: "connprop", Type: 1, Proc: 6}, {Name: "reqprop", Type: 2, Answer: "respprop"}, {Name: "respprop", Type: 4, Reply: true}}},
		{"a whole RPC message has its own", 0, 0, []ext.Op{{Name: "wrap", Type: id, Payload: ext.Wraps}}},
		{"pieces", 10, 10, []ext.Op{{Name: "part", Type: id, Payload: ext.Part, Proves: true, Window: 5}}},
	} {
		set, err := ext.NewSet(declared{Name: "x", Class: ext.Payload, Carrier: true, Document: "a text", Ops: tc.ops})
		if err != nil {
			t.Fatal(err)
		}
		for _, side := range []struct {
			client bool
			want   int
		}{{true, tc.client}, {false, tc.server}} {
			c := &Conn{client: side.client}
			c.cfg.MaxVersion = wire.Version2
			if got := newExtensions(c, set).extra(); got != side.want {
				t.Errorf("%s, client %v: %d receives, want %d", tc.name, side.client, got, side.want)
			}
			c.cfg.MaxVersion = wire.Version1
			if newExtensions(c, set) != nil || newExtensions(c, nil) != nil {
				t.Error("extensions where there can be none")
			}
		}
	}
}
