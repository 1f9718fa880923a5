package main

import (
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
)

// v1only keeps a client to version 1.
var v1only = []rpc.ClientOption{rpc.WithVersions(1, 1), rpc.WithRetransmits(-1)}

func v1with(opts ...rpc.ClientOption) []rpc.ClientOption {
	return append(append([]rpc.ClientOption(nil), v1only...), opts...)
}

// requesterV1: headers, credits and errors of version 1.
func requesterV1() []script {
	return []script{
		{name: "v1 inline", opts: v1only, steps: `
			call ECHO "x"
			peer
			< $x 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "x" 000000
			> $x 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "x" 000000
			done "x"
			count Granted 32`},
		{name: "v1 one call before the first reply", opts: v1only, steps: `
			call ECHO "a"
			peer
			< $x 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			call ECHO "b"
			quiet
			> $x 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done 1 "a"
			< $y 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "b" 000000
			> $y 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "b" 000000
			done 2 "b"`},
		{name: "v1 no reply, no second call", opts: v1only, steps: `
			// what is no valid reply carries no credits
			call ECHO "a"
			peer
			< $x 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			call ECHO "b"
			> $x 00000001 00000020 00000004 00000063
			> 00000101 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			> 000001
			quiet
			count Granted 1`},
		{name: "v1 in flight as granted", opts: v1only, steps: `
			call ECHO "a"
			peer
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000002 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done "a"
			call ECHO "b"
			< $b 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "b" 000000
			call ECHO "c"
			< $c 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "c" 000000
			call ECHO "d"
			quiet
			count Outstanding 2
			> $c 00000001 00000002 00000000 00000000 00000000 00000000 accepted:0 00000001 "c" 000000
			< $d 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "d" 000000
			> $b 00000001 00000002 00000000 00000000 00000000 00000000 accepted:0 00000001 "b" 000000
			> $d 00000001 00000002 00000000 00000000 00000000 00000000 accepted:0 00000001 "d" 000000
			done 2 "b"
			done 3 "c"
			done 4 "d"`},
		{name: "v1 grant of zero", opts: v1only, steps: `
			call ECHO "a"
			peer
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000000 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done "a"
			count Granted 1
			count ZeroCredit 1
			call ECHO "b"
			< $b 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "b" 000000
			> $b 00000001 00000009 00000000 00000000 00000000 00000000 accepted:0 00000001 "b" 000000
			done "b"
			count Granted 9`},
		{name: "v1 grant above what was asked", opts: v1with(rpc.WithCredits(3)), steps: `
			call ECHO "a"
			peer
			< $a 00000001 00000003 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 ffffffff 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done "a"
			count Granted 3`},
		{name: "v1 ERR_CHUNK", opts: v1only, steps: `
			call ECHO "a"
			peer
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000020 00000004 00000002
			fails ERR 2
			call ECHO "b" // the connection serves the next one
			< $b 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "b" 000000
			> $b 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "b" 000000
			done "b"
			quiet`},
		{name: "v1 error that cannot be decoded", opts: v1only, steps: `
			call ECHO "a"
			peer
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000020 00000004 00000063
			> $a 00000001 00000020 00000004
			> $a 00000001 00000020 00000004 00000001 00000001
			count Dropped 3
			> $a 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done "a"`},
		{name: "v1 error that cannot be decoded, and no reply", opts: v1with(rpc.WithCallTimeout(80 * time.Millisecond)), steps: `
			call ECHO "a"
			peer
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000020 00000004 00000063
			fails Timeout`},
		{name: "v1 ERR_VERS", opts: v1only, steps: `
			call ECHO "a"
			peer
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000020 00000004 00000001 00000002 00000002
			fails Version`},
		{name: "v1 MSGP and DONE to a requester", opts: v1only, steps: `
			call ECHO "a"
			peer
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000020 00000002 00000000 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			> $a 00000001 00000020 00000003
			> $a 00000001 00000020 00000003 00000000 00000000 00000000
			count Dropped 3
			> $a 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done "a"
			quiet`},
		{name: "v1 replies to nobody", opts: v1only, steps: `
			call ECHO "a"
			peer
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> 00000101 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "z" 000000
			> $a 00000002 00000020 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000001 "z" 000000
			> 00000101 00000001 00000020 00000004 00000002
			> $a 00000001
			count Dropped 4
			> $a 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done "a"
			> $a 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "z" 000000
			count Dropped 5
			quiet`},
		{name: "v1 reply of another XID", opts: v1only, steps: `
			call ECHO "a"
			peer
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0@00000101 00000001 "z" 000000
			fails BadReply
			quiet`},
		{name: "v1 read list in a reply", opts: v1only, steps: `
			call ECHO "a"
			peer
			mem A 4 r "zzzz"
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000020 00000000 00000001 0000001c seg:A:4 00000000 00000000 00000000 accepted:0 00000004
			fails BadReply
			quiet`},
		{name: "v1 results that do not decode", opts: v1only, steps: `
			call ECHO "a"
			peer
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000009 "a"
			fails Garbled`},
		{name: "v1 lost connection", opts: []rpc.ClientOption{rpc.WithVersions(1, 1)}, steps: `
			// never a second time on the connection that carried it; the same XID on the next
			call ECHO "a"
			peer
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			quiet
			drop
			peer
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done "a"`},
		{name: "v1 one credit on a new connection", opts: []rpc.ClientOption{rpc.WithVersions(1, 1)}, steps: `
			call ECHO "a"
			peer
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done "a"
			drop
			closed
			call ECHO "b"
			peer
			< $b 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "b" 000000
			call ECHO "c"
			quiet
			> $b 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "b" 000000
			done 2 "b"
			< $c 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "c" 000000
			> $c 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "c" 000000
			done 3 "c"`},
		{name: "v1 reply above the receive", opts: v1only, steps: `
			call ECHO "a"
			peer
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00001000 p:4096
			closed
			fails TooLong`},
		{name: "v1 threshold without private data", private: "none", opts: v1only, steps: `
			// 28 + 44 + 952 = 1024 octets fit
			call ECHO p:952
			peer
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 000003b8 p:952
			> $a 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done "a"
			call ECHO p:953
			< $b 00000001 00000040 00000001 00000001 00000000 $h 000003e8 $o:8 00000000 00000000 00000000
			read $h $o call:ECHO@$b 000003b9 p:953 000000
			> $b 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "b" 000000
			done "b"`},
		{name: "v1 private data of the next connection", private: "f6ab0e18 01 01 03 01", opts: []rpc.ClientOption{rpc.WithVersions(1, 1)}, steps: settleV1 + `
			call ECHO p:1500
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 000005dc p:1500
			> $a 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done "a"
			private
			drop
			closed
			call NULL
			peer
			< $m 00000001 00000040 00000000 00000000 00000000 00000000 call:NULL
			> $m 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0
			done
			call ECHO p:1500
			< $b 00000001 00000040 00000001 00000001 00000000 $h 00000608 $o:8 00000000 00000000 00000000
			> $b 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "b" 000000
			done "b"`},
		{name: "v1 threshold of private data", private: "f6ab0e18 01 01 03 01", opts: v1only, steps: `
			// it takes 2048; before the first reply no more than 1024 is sent all the same (D-3)
			call NULL
			peer
			< $n 00000001 00000040 00000000 00000000 00000000 00000000 call:NULL
			> $n 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0
			done
			call ECHO p:1976
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 000007b8 p:1976
			> $a 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done "a"
			call ECHO p:1977
			< $b 00000001 00000040 00000001 00000001 00000000 $h 000007e8 $o:8 00000000 00000000 00000000
			> $b 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "b" 000000
			done "b"`},
	}
}
