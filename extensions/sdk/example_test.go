package sdk_test

import (
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/extensions/sdk"
)

// echo answers an operation with what it brought.
type echo struct{}

func (echo) Declare() ext.Declaration {
	return ext.Declaration{
		Name:    "echo",
		Version: "1.0",
		Ops:     []ext.Op{{Name: "echo", Type: ext.ExperimentalFirst, Answer: "echo"}},
	}
}

func (echo) Connect(c ext.Conn) ext.Session { return session{c} }

type session struct{ conn ext.Conn }

func (s session) Message(m ext.Message) {
	s.conn.Answer(m.Token, ext.Verdict{Kind: ext.Answer, Info: m.Info})
}

func (s session) Closed(error) {}

// A plugin is a main of one line. Built as rpcrdma-ext-echo it is named in the configuration, with its path and SHA-256;
// when it is run by hand it says so.
func Example() {
	sdk.Serve(func(map[string]string) (ext.Extension, error) { return echo{}, nil })
}
