package iwarp

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
)

const (
	defaultReads  = 64
	defaultQueue  = 4096
	maxMessage    = 1 << 30 // DDP's MO and a Read's size are 32 bits
	defaultSettle = 100 * time.Millisecond
	defaultSetup  = 10 * time.Second // Linux siw waits so long for a request, and half as long for a reply
	defaultLinger = 2 * time.Second
	longestMSS    = 16 << 10
	minFPDU       = 256 // as small as TCP's own smallest segments, about
	maxSocketBuf  = 1 << 30
)

// options are what Open was given.
type options struct {
	crc              bool
	revision         uint8
	maxFPDU          int // 0: TCP's segment, at most 64 KiB
	noDelay          bool
	sendBuf, recvBuf int
	settle, linger   time.Duration
	setup            time.Duration
	reads            int
	thread           bool
	spin             time.Duration
}

func defaults() options {
	return options{crc: true, revision: 2, noDelay: true, settle: defaultSettle, linger: defaultLinger, setup: defaultSetup, reads: defaultReads}
}

// option is one key of Open's options.
type option struct {
	def, help, want string
	set             func(o *options, v string) bool // false: v will not do
}

var optionTable = map[string]option{
	"crc": {"true", "ask for CRC32c; it is used when either side asks", "true or false",
		func(o *options, v string) bool { return parse(v, strconv.ParseBool, &o.crc) }},
	"mpa": {"2", "MPA revision to ask in when dialling", "1 or 2",
		func(o *options, v string) bool { return number(v, 1, 2, func(n int) { o.revision = uint8(n) }) }},
	"mtu": {"0", "longest FPDU in bytes; 0: what one TCP segment carries, at most 64 KiB", "0, or 256 to 65544",
		func(o *options, v string) bool {
			return v == "0" || number(v, minFPDU, mpa.MaxFPDU, func(n int) { o.maxFPDU = n })
		}},
	"nodelay": {"true", "send small segments at once (TCP_NODELAY)", "true or false",
		func(o *options, v string) bool { return parse(v, strconv.ParseBool, &o.noDelay) }},
	"sndbuf": {"0", "socket send buffer in bytes; 0: the kernel's own tuning", "a number of bytes",
		func(o *options, v string) bool { return number(v, 0, maxSocketBuf, func(n int) { o.sendBuf = n }) }},
	"rcvbuf": {"0", "socket receive buffer in bytes; 0: the kernel's own tuning", "a number of bytes",
		func(o *options, v string) bool { return number(v, 0, maxSocketBuf, func(n int) { o.recvBuf = n }) }},
	"settle": {"100ms", "pause between a peer's MPA reply and the first message, which Linux siw can lose", "a duration",
		func(o *options, v string) bool { return duration(v, &o.settle) }},
	"setup": {"10s", "how long a peer may take over its MPA request; half of it over its reply", "a duration over 0",
		func(o *options, v string) bool { return duration(v, &o.setup) && o.setup > 0 }},
	"reads": {"64", "RDMA Reads in flight in each direction, unless a connection asks otherwise", "1 to 1024",
		func(o *options, v string) bool { return number(v, 1, maxReads, func(n int) { o.reads = n }) }},
	"reader": {"poller", "where who reads a connection waits: poller (the runtime's), or thread, in the kernel on a thread of its own", readerWant,
		func(o *options, v string) bool {
			o.thread = v == "thread"
			return v == "poller" || o.thread && stream.Threads
		}},
	"spin": {"0s", "how long who waits for input polls for it first, while that pays; it costs a core as long", "a duration up to " + stream.MaxSpin.String(),
		func(o *options, v string) bool { return duration(v, &o.spin) && o.spin <= stream.MaxSpin }},
	"linger": {"2s", "how long an orderly close waits for what is still to leave and for the peer", "a duration",
		func(o *options, v string) bool { return duration(v, &o.linger) }},
}

var readerWant = map[bool]string{true: "poller or thread", false: "poller; threads need Linux"}[stream.Threads]

func parse[T any](v string, f func(string) (T, error), to *T) bool {
	x, err := f(v)
	if err == nil {
		*to = x
	}
	return err == nil
}

func number(v string, low, high int, set func(int)) bool {
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		return false
	}
	set(n)
	return true
}

func duration(v string, to *time.Duration) bool {
	return parse(v, time.ParseDuration, to) && *to >= 0
}

func parseOptions(m map[string]string) (options, error) {
	o := defaults()
	for _, key := range slices.Sorted(maps.Keys(m)) {
		opt, ok := optionTable[key]
		if !ok {
			return o, &verbs.OptionError{Provider: Name, Key: key, Want: "unknown"}
		}
		if !opt.set(&o, m[key]) {
			return o, &verbs.OptionError{Provider: Name, Key: key, Value: m[key], Want: opt.want}
		}
	}
	return o, nil
}

func optionInfo() []verbs.OptionInfo {
	var infos []verbs.OptionInfo
	for _, key := range slices.Sorted(maps.Keys(optionTable)) {
		infos = append(infos, verbs.OptionInfo{Key: key, Default: optionTable[key].def, Help: optionTable[key].help})
	}
	return infos
}

// caps are a domain's. MTU is the longest payload of one frame; a connection over a
// network of small segments carries less.
func (o *options) caps() verbs.Caps {
	return verbs.Caps{
		MaxReads:         o.reads,
		MaxSegs:          maxPieces,
		MaxReadSegs:      1 << 16, // the sink's STag is our own name for all of them
		Queue:            defaultQueue,
		MaxMessage:       maxMessage,
		PrivateDial:      mpa.MaxULP,
		PrivateAccept:    mpa.MaxULP,
		PrivateReject:    mpa.MaxULP,
		MTU:              maxPayload(o.fpdu(mpa.MaxFPDU)),
		Keys:             verbs.KeysRandom,
		Detach:           true,
		RemoteInvalidate: true,
		SendInvalidate:   true,
		InitiatorFirst:   true,
		Settle:           o.settle,
	}
}

// fpdu is the longest frame to send where one segment carries mss bytes. The loopback
// device's segments are no network's, and begin at half of what they grow to.
func (o *options) fpdu(mss int) int {
	switch {
	case o.maxFPDU > 0:
		return o.maxFPDU
	case mss > longestMSS:
		return mpa.MaxFPDU
	}
	return max(min(mss, mpa.MaxFPDU), minFPDU)
}
