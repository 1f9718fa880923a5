package main

import "github.com/rpcrdma/rpcrdma/core/rpc"

// requesterChunks: what our client offers, and what it makes of the chunks that come back, in version 1.
func requesterChunks() []script {
	return []script{
		{name: "v1 read chunk", opts: v1with(rpc.WithMoveAbove(100)), steps: `
			// 101 octets at position 44, without their round-up
			call WRITE p:101
			peer
			< $x 00000001 00000040 00000000 00000001 0000002c $h 00000065 $o:8 00000000 00000000 00000000 call:WRITE 00000065
			read $h $o p:101
			> $x 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "x" 000000
			done "x"`},
		{name: "v1 read chunk ends where the data ends", opts: v1with(rpc.WithMoveAbove(100), rpc.WithRetransmits(-1)), steps: `
			call WRITE p:101
			peer
			< $x 00000001 00000040 00000000 00000001 0000002c $h 00000065 $o:8 00000000 00000000 00000000 call:WRITE 00000065
			refused read $h $o 104
			closed
			fails Lost`},
		{name: "v1 read chunk may not be written", opts: v1with(rpc.WithMoveAbove(100)), steps: `
			call WRITE p:101
			peer
			< $x 00000001 00000040 00000000 00000001 0000002c $h 00000065 $o:8 00000000 00000000 00000000 call:WRITE 00000065
			write $h $o ffffffff
			closed
			fails Lost`},
		{name: "v1 one read chunk to a version 1 peer", opts: v1with(rpc.WithMoveAbove(100)), steps: `
			// the larger one; the other stays inline, and its round-up with it
			call JOIN p:101 7 p:201
			peer
			< $x 00000001 00000040 00000000 00000001 0000009c $h 000000c9 $o:8 00000000 00000000 00000000 call:JOIN 00000065 p:101 000000 00000007 000000c9
			> $x 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "x" 000000 00000001 00000000
			done "x"`},
		{name: "v1 nothing of a protected call is moved", opts: v1with(rpc.WithMoveAbove(100)), steps: settleV1 + `
			// RPCSEC_GSS with privacy (service 3): inline, then at position zero; the result in the Reply chunk
			call WRITE p:101 gss
			< $x 00000001 00000040 00000000 00000000 00000000 00000000 $x 00000000 00000002 20000166 00000001 00000003 00000006 00000014 00000001 00000000 00000001 00000003 00000000 00000000 00000000 00000065 p:101 000000
			> $x 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "x" 000000
			done "x"
			call WRITE p:5000 gss
			< $y 00000001 00000040 00000001 00000001 00000000 $h 000013c8 $o:8 00000000 00000000 00000000
			> $y 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "y" 000000
			done "y"
			call READ 5000 into 5000 gss
			< $z 00000001 00000040 00000000 00000000 00000000 00000001 00000001 $i 00001540 $p:8 $z 00000000 00000002 20000166 00000001 00000002 00000006 00000014 00000001 00000000 00000001 00000003 00000000 00000000 00000000 00001388
			write $i $p accepted:0@$z 00001388 p:5000
			> $z 00000001 00000020 00000001 00000000 00000000 00000001 00000001 $i 000013a4 $p
			done p:5000`},
		{name: "v1 segments of one position", opts: v1with(rpc.WithMoveAbove(100), rpc.WithSegmentLength(50)), steps: `
			call WRITE p:101
			peer
			< $x 00000001 00000040 00000000 00000001 0000002c $h 00000032 $o:8 00000001 0000002c $i 00000032 $p:8 00000001 0000002c $j 00000001 $q:8 00000000 00000000 00000000 call:WRITE 00000065
			read $j $q 65
			> $x 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "x" 000000
			done "x"`},
		{name: "v1 an item that may not be moved", opts: v1with(rpc.WithMoveAbove(100)), steps: `
			call ECHO p:101
			peer
			< $x 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000065 p:101 000000
			> $x 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "x" 000000
			done "x"`},
		{name: "v1 long call", opts: v1only, steps: settleV1 + `
			// 40 + 4 + 5001 + 3: the round-up is in the chunk, the message is not inline
			call ECHO p:5001
			< $x 00000001 00000040 00000001 00000001 00000000 $h 000013b8 $o:8 00000000 00000000 00000000
			read $h $o call:ECHO@$x 00001389 p:5001 000000
			> $x 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "x" 000000
			done "x"`},
		{name: "v1 long call whose items may be moved", opts: v1with(rpc.WithMoveAbove(100)), steps: settleV1 + `
			// reduced first: what is left fits, and no position-zero chunk is needed
			call WRITE p:5001
			< $x 00000001 00000040 00000000 00000001 0000002c $h 00001389 $o:8 00000000 00000000 00000000 call:WRITE 00001389
			> $x 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "x" 000000
			done "x"`},
		{name: "v1 long call has one chunk", opts: v1with(rpc.WithMoveAbove(100)), steps: settleV1 + `
			// two items of 4001 octets, one of which may go as a chunk: all goes in the position-zero chunk
			call JOIN p:4100 7 p:4101
			< $x 00000001 00000040 00000001 00000001 00000000 $h 00002040 $o:8 00000000 00000000 00000000
			read $h $o call:JOIN@$x 00001004 p:4100 00000007 00001005 p:4101 000000
			> $x 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "x" 000000 00000001 00000000
			done "x"`},
		{name: "v1 first message of 1024", opts: v1only, steps: `
			// a call that needs more goes behind a NULL
			call ECHO p:1000
			peer
			< $n 00000001 00000040 00000000 00000000 00000000 00000000 call:NULL
			> $n 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0
			< $x 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 000003e8 p:1000
			> $x 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "x" 000000
			done "x"`},
		{name: "v1 write chunk", opts: v1only, steps: settleV1 + `
			call READ 5001 into 5001
			< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00001389 $o:8 00000000 00000000 call:READ 00001389
			write $h $o p:5001
			> $x 00000001 00000020 00000000 00000000 00000001 00000001 $h 00001389 $o 00000000 00000000 accepted:0 00001389
			done p:5001`},
		{name: "v1 write chunk has no room for round-up", opts: v1only, steps: settleV1 + `
			call READ 5001 into 5001
			< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00001389 $o:8 00000000 00000000 call:READ 00001389
			write $h $o p:5004
			closed
			fails Lost`},
		{name: "v1 write chunk may not be read", opts: v1only, steps: settleV1 + `
			call READ 5000 into 5000
			< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00001388 $o:8 00000000 00000000 call:READ 00001388
			refused read $h $o 4
			closed
			fails Lost`},
		{name: "v1 shorter result than offered", opts: v1only, steps: settleV1 + `
			call READ 5000 into 5000
			< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00001388 $o:8 00000000 00000000 call:READ 00001388
			write $h $o p:7 ffffffff // what lies behind the length that comes back is not believed
			> $x 00000001 00000020 00000000 00000000 00000001 00000001 $h 00000007 $o 00000000 00000000 accepted:0 00000007
			done p:7`},
		{name: "v1 chunk with the round-up in its length", opts: v1only, steps: settleV1 + `
			call READ 5000 into 5000
			< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00001388 $o:8 00000000 00000000 call:READ 00001388
			write $h $o p:7 00
			> $x 00000001 00000020 00000000 00000000 00000001 00000001 $h 00000008 $o 00000000 00000000 accepted:0 00000007
			done p:7`},
		{name: "v1 length and results disagree", opts: v1only, steps: settleV1 + `
			call READ 5000 into 5000
			< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00001388 $o:8 00000000 00000000 call:READ 00001388
			write $h $o p:3000
			> $x 00000001 00000020 00000000 00000000 00000001 00000001 $h 00000bb8 $o 00000000 00000000 accepted:0 00001388
			fails Garbled`},
		{name: "v1 result inline although a chunk was offered", opts: v1only, steps: settleV1 + `
			call READ 5000 into 5000
			< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00001388 $o:8 00000000 00000000 call:READ 00001388
			> $x 00000001 00000020 00000000 00000000 00000001 00000001 $h 00000000 $o 00000000 00000000 accepted:0 00000005 "hello" 000000
			done "hello"`},
		{name: "v1 chunk that does not come back", opts: v1only, steps: settleV1 + `
			call READ 5000 into 5000
			< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00001388 $o:8 00000000 00000000 call:READ 00001388
			> $x 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000005 "hello" 000000
			done "hello"`},
		{name: "v1 memory of a chunk that comes back unused", opts: v1only, steps: settleV1 + `
			// written to, and called unused: nothing of it is a result
			call READ 5000 into 5000
			< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00001388 $o:8 00000000 00000000 call:READ 00001388
			write $h $o p:100
			> $x 00000001 00000020 00000000 00000000 00000001 00000001 $h 00000000 $o 00000000 00000000 accepted:0 00000000
			done
			quiet`},
		{name: "v1 two write chunks", opts: v1only, steps: settleV1 + `
			call PAIR 3000 2000 into 3000 into 2000
			< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00000bb8 $o:8 00000001 00000001 $i 000007d0 $p:8 00000000 00000000 call:PAIR 00000bb8 000007d0
			write $h $o p:3000
			write $i $p "the second"
			> $x 00000001 00000020 00000000 00000000 00000001 00000001 $h 00000bb8 $o 00000001 00000001 $i 0000000a $p 00000000 00000000 accepted:0 00000001 00000bb8 0000000a
			done p:3000 "the second"`},
		{name: "v1 no empty write chunk", opts: v1only, steps: settleV1 + `
			// the first result is wanted inline: Linux would refuse an empty chunk, so all comes in the Reply chunk
			call PAIR 5 5000 into 0 into 5000
			< $x 00000001 00000040 00000000 00000000 00000000 00000001 00000001 $h 00001540 $o:8 call:PAIR 00000005 00001388
			write $h $o accepted:0@$x 00000001 00000000 00000005 "hello" 000000
			> $x 00000001 00000020 00000001 00000000 00000000 00000001 00000001 $h 0000002c $o
			done "hello"`},
		{name: "v1 void arm", opts: v1only, steps: settleV1 + `
			call PAIR 0 2000 into 3000 into 2000
			< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00000bb8 $o:8 00000001 00000001 $i 000007d0 $p:8 00000000 00000000 call:PAIR 00000000 000007d0
			write $h $o "the second"
			> $x 00000001 00000020 00000000 00000000 00000001 00000001 $h 0000000a $o 00000001 00000001 $i 00000000 $p 00000000 00000000 accepted:0 00000000 0000000a
			done "the second"`},
		{name: "v1 empty result uses up its chunk", opts: v1only, steps: settleV1 + `
			call PAIR 3000 2000 into 3000 into 2000
			< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00000bb8 $o:8 00000001 00000001 $i 000007d0 $p:8 00000000 00000000 call:PAIR 00000bb8 000007d0
			write $i $p "the second"
			> $x 00000001 00000020 00000000 00000000 00000001 00000001 $h 00000000 $o 00000001 00000001 $i 0000000a $p 00000000 00000000 accepted:0 00000001 00000000 0000000a
			done "the second"`},
		{name: "v1 an item moved without leave", opts: v1only, steps: settleV1 + `
			// the first result may not be moved: the second one's chunk holds it
			call MIX into 5000
			< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00001388 $o:8 00000000 00000000 call:MIX
			write $h $o "12345678"
			> $x 00000001 00000020 00000000 00000000 00000001 00000001 $h 00000008 $o 00000000 00000000 accepted:0 00000008 00000004 "abcd"
			fails Garbled`},
		{name: "v1 reply chunk", opts: v1only, steps: settleV1 + `
			call ECHO "x" max 5000
			< $x 00000001 00000040 00000000 00000000 00000000 00000001 00000001 $h 00001530 $o:8 call:ECHO 00000001 "x" 000000
			write $h $o accepted:0@$x 00001000 p:4096
			> $x 00000001 00000020 00000001 00000000 00000000 00000001 00000001 $h 0000101c $o
			done p:4096`},
		{name: "v1 short reply beside a reply chunk", opts: v1only, steps: settleV1 + `
			call ECHO "x" max 5000
			< $x 00000001 00000040 00000000 00000000 00000000 00000001 00000001 $h 00001530 $o:8 call:ECHO 00000001 "x" 000000
			write $h $o ffffffff
			> $x 00000001 00000020 00000000 00000000 00000000 00000001 00000001 $h 00000000 $o accepted:0 00000001 "x" 000000
			done "x"
			call ECHO "y" max 5000
			< $y 00000001 00000040 00000000 00000000 00000000 00000001 00000001 $i 00001530 $p:8 call:ECHO 00000001 "y" 000000
			> $y 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "y" 000000
			done "y"`},
		{name: "v1 reply chunk with a message inline", opts: v1only, steps: settleV1 + `
			call ECHO "x" max 5000
			< $x 00000001 00000040 00000000 00000000 00000000 00000001 00000001 $h 00001530 $o:8 call:ECHO 00000001 "x" 000000
			> $x 00000001 00000020 00000000 00000000 00000000 00000001 00000001 $h 00000004 $o accepted:0 00000001 "x" 000000
			fails BadReply`},
		{name: "v1 NOMSG reply without its chunk", opts: v1only, steps: settleV1 + `
			call ECHO "x"
			< $x 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "x" 000000
			> $x 00000001 00000020 00000001 00000000 00000000 00000000 accepted:0 00000001 "x" 000000
			count Dropped 1
			> $x 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "x" 000000
			done "x"
			call ECHO "y" max 5000
			< $y 00000001 00000040 00000000 00000000 00000000 00000001 00000001 $i 00001530 $p:8 call:ECHO 00000001 "y" 000000
			> $y 00000001 00000020 00000001 00000000 00000000 00000001 00000001 $i 00000000 $p
			fails BadReply`},
		{name: "v1 chunks nobody offered", opts: v1only, steps: settleV1 + `
			call ECHO "x"
			< $x 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "x" 000000
			> $x 00000001 00000020 00000000 00000000 00000001 00000001 00001234 00000004 0000000000000000 00000000 00000000 accepted:0 00000001 "x" 000000
			fails BadReply
			call ECHO "y"
			< $y 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "y" 000000
			> $y 00000001 00000020 00000000 00000000 00000000 00000001 00000001 00001234 00000000 0000000000000000 accepted:0 00000001 "y" 000000
			fails BadReply`},
		{name: "v1 more than was offered", opts: v1only, steps: settleV1 + `
			call READ 5000 into 5000
			< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00001388 $o:8 00000000 00000000 call:READ 00001388
			> $x 00000001 00000020 00000000 00000000 00000001 00000001 $h 00001389 $o 00000000 00000000 accepted:0 00001389
			fails BadReply`},
		{name: "v1 another key than was offered", opts: v1only, steps: settleV1 + `
			call READ 5000 into 5000
			< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00001388 $o:8 00000000 00000000 call:READ 00001388
			> $x 00000001 00000020 00000000 00000000 00000001 00000001 00001234 00000005 $o 00000000 00000000 accepted:0 00000005
			fails BadReply`},
		{name: "v1 memory is fenced before the caller goes on", opts: v1only, steps: settleV1 + `
			call READ 5000 into 5000
			< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00001388 $o:8 00000000 00000000 call:READ 00001388
			> $x 00000001 00000020 00000000 00000000 00000001 00000001 $h 00000000 $o 00000000 00000000 accepted:0 00000000
			done
			count LocalInv 1
			write $h $o ffffffff
			closed`},
		{name: "v1 a cancelled call keeps its credit", opts: v1only, steps: `
			call ECHO "a"
			peer
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000001 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done "a"
			call ECHO "b"
			< $b 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "b" 000000
			cancel
			fails Cancelled
			call ECHO "c"
			quiet
			> $b 00000001 00000001 00000000 00000000 00000000 00000000 accepted:0 00000001 "b" 000000
			< $c 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "c" 000000
			> $c 00000001 00000001 00000000 00000000 00000000 00000000 accepted:0 00000001 "c" 000000
			done "c"`},
		{name: "v1 invalidated by a server with R clear", private: clientPrivate, opts: v1only, steps: settleV1 + `
			// Linux does it, and the key is the call's
			call READ 5000 into 5000
			< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00001388 $o:8 00000000 00000000 call:READ 00001388
			>inv $h $x 00000001 00000020 00000000 00000000 00000001 00000001 $h 00000000 $o 00000000 00000000 accepted:0 00000000
			done
			count RemoteInv 1
			count LocalInv 0`},
	}
}

// settleV1 is a first call, answered.
const settleV1 = `
	call NULL
	peer
	< $n 00000001 00000040 00000000 00000000 00000000 00000000 call:NULL
	> $n 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0
	done`
