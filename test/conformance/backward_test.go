package main

import "github.com/rpcrdma/rpcrdma/core/rpc"

// bound is a first call by which the peer says that it takes backward calls.
const (
	boundV1 = `
		> 00000b0b 00000001 00000020 00000000 00000000 00000000 00000000 call:BIND
		< 00000b0b 00000001 00000040 00000000 00000000 00000000 00000000 accepted:0`
	boundV2 = `
		> 00000b0b 00000002 00000020 00000000 00000000 00000000 00000000 00000000 00000000 call:BIND
		< 00000b0b 00000002 00000040 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0`
)

// backwardServer: our server calls the peer, on the peer's connection.
func backwardServer() []script {
	return []script{
		{name: "v1 calls back", steps: boundV1 + `
			back ECHO "back"
			< $x 00000001 00000008 00000000 00000000 00000000 00000000 call:ECHO 00000004 "back"
			> $x 00000001 00000002 00000000 00000000 00000000 00000000 accepted:0 00000004 "back"
			done "back"
			count BackGranted 2
			good 1`},
		{name: "v2 calls back", steps: boundV2 + `
			back ECHO "back"
			< $x 00000002 00000008 00000000 00000000 00000000 00000000 00000000 00000000 call:ECHO 00000004 "back"
			> $x 00000002 00000002 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000004 "back"
			done "back"
			good 2`},
		{name: "v1 same XID in both directions", steps: boundV1 + `
			// the peer calls with the XID of the call that it has not answered yet
			back ECHO "back"
			< $x 00000001 00000008 00000000 00000000 00000000 00000000 call:ECHO 00000004 "back"
			> $x 00000001 00000020 00000000 00000000 00000000 00000000 call:ECHO 00000004 "fore"
			< $x 00000001 00000040 00000000 00000000 00000000 00000000 accepted:0 00000004 "fore"
			> $x 00000001 00000002 00000000 00000000 00000000 00000000 accepted:0 00000004 "back"
			done "back"`},
		{name: "v1 credits of each direction", steps: boundV1 + `
			// one call until the first reply, then as granted; forward replies grant nothing backward
			back ECHO "a"
			< $a 00000001 00000008 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			back ECHO "b"
			good 1
			quiet
			> $a 00000001 00000002 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			< $b 00000001 00000008 00000000 00000000 00000000 00000000 call:ECHO 00000001 "b" 000000
			back ECHO "c"
			< $c 00000001 00000008 00000000 00000000 00000000 00000000 call:ECHO 00000001 "c" 000000
			back ECHO "d"
			good 1
			quiet
			> $c 00000001 00000002 00000000 00000000 00000000 00000000 accepted:0 00000001 "c" 000000
			< $d 00000001 00000008 00000000 00000000 00000000 00000000 call:ECHO 00000001 "d" 000000
			> $d 00000001 00000002 00000000 00000000 00000000 00000000 accepted:0 00000001 "d" 000000
			> $b 00000001 00000002 00000000 00000000 00000000 00000000 accepted:0 00000001 "b" 000000
			done 2 "b"
			done 4 "d"`},
		{name: "v1 backward grant of zero", steps: boundV1 + `
			back ECHO "a"
			< $a 00000001 00000008 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000000 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done "a"
			count ZeroCredit 1
			back ECHO "b"
			< $b 00000001 00000008 00000000 00000000 00000000 00000000 call:ECHO 00000001 "b" 000000
			> $b 00000001 ffffffff 00000000 00000000 00000000 00000000 accepted:0 00000001 "b" 000000
			done "b"
			count BackGranted 8`},
		{name: "v1 nothing backward before it is asked for", steps: `
			good 1
			back ECHO "a"
			fails Lost
			quiet`},
		{name: "v1 backward call that does not fit inline", steps: boundV1 + `
			// no chunks in that direction: nothing is sent, and the next call is
			back ECHO p:5000
			fails NotSent
			back ECHO "b"
			< $b 00000001 00000008 00000000 00000000 00000000 00000000 call:ECHO 00000001 "b" 000000
			> $b 00000001 00000002 00000000 00000000 00000000 00000000 accepted:0 00000001 "b" 000000
			done "b"`},
		{name: "v1 backward error", steps: boundV1 + `
			back ECHO "a"
			< $a 00000001 00000008 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000002 00000004 00000002
			fails ERR 2
			good 1`},
		{name: "v1 short message amid backward calls", steps: boundV1 + `
			// nothing of it is believed, its credits neither
			back ECHO "a"
			< $a 00000001 00000008 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000007 00000000
			> $a 00000001 00000007 00000000 00000000 00000000 00000000
			good 1
			count BackGranted 1
			> $a 00000001 00000002 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done "a"
			count BackGranted 2`},
		{name: "v2 backward chunks", opts: []rpc.ClientOption{rpc.WithBackwardChunks()}, steps: boundV2 + `
			back ECHO p:5000
			< $x 00000002 00000008 00000001 00000000 $h 00000001 00000000 $h 000013b4 $o:8 00000000 00000000 00000000
			read $h $o call:ECHO@$x 00001388 p:5000
			> $x 00000002 00000002 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000001 "x" 000000
			done "x"`},
		{name: "v1 backward call is not sent again on its connection", steps: boundV1 + `
			back ECHO "a"
			< $a 00000001 00000008 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			quiet
			drop
			fails Lost`},
	}
}

// backwardClient: the peer calls our client, on our client's connection.
func backwardClient() []script {
	return []script{
		{name: "v1 serves a call back", serves: true, opts: v1only, steps: settleV1 + `
			> 00000101 00000001 00000020 00000000 00000000 00000000 00000000 call:ECHO 00000004 "back"
			< 00000101 00000001 00000008 00000000 00000000 00000000 00000000 accepted:0 00000004 "back"
			count Dropped 0`},
		{name: "v2 serves a call back", serves: true, steps: settleV2 + `
			> 00000101 00000002 00000020 00000000 00000000 00000000 00000000 00000000 00000000 call:ECHO 00000004 "back"
			< 00000101 00000002 00000008 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000004 "back"`},
		{name: "v1 serves a call back with the XID of its own", serves: true, opts: v1only, steps: settleV1 + `
			call ECHO "fore"
			< $x 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000004 "fore"
			> $x 00000001 00000020 00000000 00000000 00000000 00000000 call:ECHO 00000004 "back"
			< $x 00000001 00000008 00000000 00000000 00000000 00000000 accepted:0 00000004 "back"
			> $x 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000004 "fore"
			done "fore"
			count Granted 32`},
		{name: "v1 takes no chunks backward", serves: true, opts: v1only, steps: settleV1 + `
			mem A 64 rw
			> 00000101 00000001 00000020 00000000 00000001 0000002c seg:A:5 00000000 00000000 00000000 call:WRITE 00000005
			< 00000101 00000001 00000008 00000004 00000002
			> 00000102 00000001 00000020 00000000 00000000 00000001 00000001 seg:A:64 00000000 00000000 call:READ 00000005
			< 00000102 00000001 00000008 00000004 00000002
			> 00000103 00000001 00000020 00000000 00000000 00000000 00000001 00000001 seg:A:64 call:READ 00000005
			< 00000103 00000001 00000008 00000004 00000002
			has A eeeeeeee`},
		{name: "v1 reply backward that does not fit inline", serves: true, opts: v1only, steps: settleV1 + `
			> 00000101 00000001 00000020 00000000 00000000 00000000 00000000 call:READ 00001388
			< 00000101 00000001 00000008 00000004 00000002
			> 00000102 00000001 00000020 00000000 00000000 00000000 00000000 call:ECHO 00000004 "back"
			< 00000102 00000001 00000008 00000000 00000000 00000000 00000000 accepted:0 00000004 "back"`},
		{name: "v1 drops calls where it serves nothing", opts: v1only, steps: settleV1 + `
			> 00000101 00000001 00000020 00000000 00000000 00000000 00000000 call:ECHO 00000004 "back"
			quiet
			count Dropped 1
			call ECHO "a"
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done "a"`},
		{name: "v2 backward chunks are served", serves: true, opts: []rpc.ClientOption{rpc.WithBackwardChunks()}, steps: settleV2 + `
			mem A 64 rw "hello"
			> 00000101 00000002 00000020 00000000 00000000 key:A 00000001 0000002c seg:A:5 00000000 00000000 00000000 call:WRITE 00000005
			<inv key:A 00000101 00000002 00000008 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000005 "hello" 000000`},
	}
}
