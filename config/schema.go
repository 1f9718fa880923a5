package config

import (
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/rpcrdma/rpcrdma/extensions"
)

// Config is what a file says, defaults filled in.
type Config struct {
	// File is the file's name as it was given; empty: there is none, and all is default.
	File       string
	Protocol   Protocol
	Extensions []extensions.Spec // what is to be loaded
	Metrics    Metrics

	blocks map[string]*hclsyntax.Block // of the extensions that the file names
}

// Problem is what only who knows an extension can find wrong with its block: at an attribute, if it stands there, else at its name. ok is
// false where the file does not name the extension.
func (c *Config) Problem(extension, attribute, text string) (p Problem, ok bool) {
	b := c.blocks[extension]
	if b == nil {
		return p, false
	}
	at := b.LabelRanges[0].Start
	if a := b.Body.Attributes[attribute]; a != nil {
		at = a.Expr.Range().Start
	}
	return Problem{c.File, at.Line, at.Column, text}, true
}

// Metrics is the block metrics.
type Metrics struct {
	// Listen is the address and port on which they are exported, by HTTP; empty: they are not. Port 0 is one that is free.
	Listen string
}

// HostPort tells whether s is an address, or none for all of them, and a port. Names are not asked for.
func HostPort(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false
	}
	if host == "" || host == "localhost" {
		return true
	}
	_, err = netip.ParseAddr(host)
	return err == nil
}

// Protocol is the block protocol.
type Protocol struct {
	// MinVersion to MaxVersion are the versions of RPC-over-RDMA to use. Default 1 to 2.
	MinVersion, MaxVersion uint32
	// Inline is the bytes of the largest message without chunks: a multiple of 1024 to 262144; 4096 at least
	// with version 2. Default 4096.
	Inline int
	// Credits are the calls in flight on a connection: 1 to 16384. Default 64.
	Credits int
}

// Bounds of what a file and the command line's flags may say.
const (
	MinInline   = 1024
	MinInlineV2 = 4096 // v2 draft §5.2.1
	MaxInline   = 256 << 10
	MaxCredits  = 1 << 14
)

// Bounds of a file.
const (
	maxFile       = 64 << 10
	maxDepth      = 8
	maxExtensions = 64
	maxName       = 32 // as core/ext has it
	minTimeout    = time.Millisecond
	maxTimeout    = time.Second // as package host has it
)

// PropsName is the extension that is loaded unless a file says `extension "props" { enabled = false }`.
const PropsName = "props"

// Default is what is in force without a file.
func Default() *Config {
	return &Config{
		Protocol:   Protocol{MinVersion: 1, MaxVersion: 2, Inline: 4096, Credits: 64},
		Extensions: []extensions.Spec{{Name: PropsName, Required: true}},
	}
}
