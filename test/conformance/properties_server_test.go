package main

import (
	"fmt"
	"strings"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/props"
)

// began is a first call, after which the peer sends its CONNPROP and gets the server's: what it says of RBSIZ.
const began = `
	good 2
	> 00000201 00000002 00000020 00000006 00000001 00000001 00000004 00001000 00000000
	< $s 00000002 00000008 00000006 00000001 00000001 00000004 00001000 00000000`

// propertiesServer: the peer exchanges properties with our server.
func propertiesServer() []script {
	return withProps(
		script{name: "CONNPROP", steps: began + `
			value 00000001 00001000
			over <nil>
			good 2
			count ControlRecv 1
			count ControlSent 1`},
		script{name: "CONNPROP as an option", steps: `
			// answered in the form in which it came, direction CALL
			good 2
			> 00000201 00000002 00000020 00000005 00000000 00000001 00000014 00000001 00000001 00000004 00001000 00000000
			< * 00000002 00000008 00000005 00000000 00000001 00000014 00000001 00000001 00000004 00001000 00000000
			value 00000001 00001000`},
		script{name: "none unasked", steps: `
			good 2
			quiet
			good 2
			quiet
			count ControlSent 0`},
		script{name: "before the version stands", steps: `
			// as if there were none: nothing begins before the first call
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=2048") + " " + nobody + `
			< 00000201 00000002 00000040 00000004 00000003
			> 00000202 00000002 00000020 00000005 00000000 00000001 00000014 ` + set("rbsiz=2048") + " " + nobody + `
			< 00000202 00000002 00000040 00000004 00000009` + began},
		script{name: "REQPROP", trial: &trial{offers: true}, steps: withDepth + `
			> 00000203 00000002 00000020 00000007 ` + set("depth=5") + `
			< 00000203 00000002 00000040 00000008 ` + bits(0) + " " + nobody + ` 00000000
			good 2`},
		script{name: "REQPROP as an option", trial: &trial{offers: true}, steps: withDepth + `
			> 00000203 00000002 00000020 00000005 00000000 00000002 00000010 ` + set("depth=5") + `
			< 00000203 00000002 00000040 00000005 00000001 00000003 00000010 ` + bits(0) + " " + nobody + ` 00000000
			// and the next one in the other form, in that form
			> 00000204 00000002 00000020 00000007 ` + set("depth=6") + `
			< 00000204 00000002 00000040 00000008 ` + bits(0) + " " + nobody + ` 00000000`},
		script{name: "REQPROP of which each has its own fate", trial: &trial{offers: true}, steps: withDepth + `
			// fixed: rejected; depth 9: 8 instead; unknown: rejected; the size as it is: done
			> 00000203 00000002 00000020 00000007 ` + set("strict=0", "depth=9", "99=1", "rbsiz=4096") + `
			< 00000203 00000002 00000040 00000008 ` + bits(3) + " " + bits(0, 2) + " " + set("depth=8")},
		script{name: "REQPROP in direction REPLY", steps: began + `
			> 00000203 00000002 00000020 00000005 00000001 00000002 00000010 ` + set("rbsiz=4096") + `
			good 2
			count Dropped 1`},
		script{name: "RESPROP to nothing that was asked", steps: began + `
			// never answered, well formed or not, in either form
			> 00000203 00000002 00000020 00000008 00000000 00000000 00000000
			> 00000204 00000002 00000020 00000008 00000000 00000000 00000001
			> 00000205 00000002 00000020 00000008 00000000 00000000 ` + set("rbsiz=4096") + ` 00000000
			> 00000206 00000002 00000020 00000005 00000001 00000003 0000000c 00000000 00000000 00000000
			good 2
			quiet
			props Strays 2
			count Dropped 2`},
		script{name: "beyond the message", steps: began + `
			// of 8 octets there are 4; nothing of what stands before it is applied
			> 00000203 00000002 00000020 00000006 00000002 00000001 00000004 00000800 00000002 00000008 00000001
			< 00000203 00000002 00000040 00000004 00000002
			> 00000204 00000002 00000020 00000009 00000002 00000001 00000004 00000800 00000002 ffffffff 00000001
			< 00000204 00000002 00000040 00000004 00000002
			> 00000205 00000002 00000020 00000007 00000002 00000001 00000004 00000800 00000002 00000004
			< 00000205 00000002 00000040 00000004 00000002
			> 00000206 00000002 00000020 00000009 00000002 00000001 00000004 00000800
			< 00000206 00000002 00000040 00000004 00000002
			limit 4096
			value 00000001 00001000
			good 2`},
		script{name: "values that do not decode", steps: began + `
			// too short, too long, no value of the enum, outside its bounds
			> 00000203 00000002 00000020 00000009 00000002 00000001 00000004 00000800 00000002 00000003 00000000
			< 00000203 00000002 00000040 00000004 00000002
			> 00000204 00000002 00000020 00000009 00000002 00000001 00000004 00000800 00000002 00000008 00000001 00000001
			< 00000204 00000002 00000040 00000004 00000002
			> 00000205 00000002 00000020 00000007 ` + set("rbsiz=8192", "brs=3") + `
			< 00000205 00000002 00000040 00000004 00000002
			> 00000206 00000002 00000020 00000009 ` + set("rbsiz=2048", "depth=65") + `
			< 00000206 00000002 00000040 00000004 00000002
			limit 4096
			props Malformed 4
			good 2`},
		script{name: "rdma_nochg of more than there is", steps: `
			good 2
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=2048") + " " + bits(1) + `
			< 00000201 00000002 00000040 00000004 00000002
			limit 4096
			> 00000202 00000002 00000020 00000006 ` + set("rbsiz=2048") + ` 00000002 00000001 00000000
			< * 00000002 00000008 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			value 00000001 00000800 fixed`},
		script{name: "unknown properties", steps: `
			// with whatever in them, before and behind what is known
			good 2
			> 00000201 00000002 00000020 00000006 00000003 00000063 00000005 "abcde" 000000 00000001 00000004 00000800 0000004d 00000000 00000000
			< * 00000002 00000008 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			value 00000001 00000800
			> 00000202 00000002 00000020 00000009 00000002 00000063 00000003 "xyz" 00 00000001 00000004 00000900
			value 00000001 00000900
			good 2
			props Malformed 0`},
		script{name: "unknown properties asked for", steps: began + `
			> 00000203 00000002 00000020 00000007 00000002 00000063 00000005 "abcde" 000000 00000001 00000004 00001000
			< 00000203 00000002 00000040 00000008 ` + bits(1) + " " + bits(0) + ` 00000000`},
		script{name: "any order", steps: `
			good 2
			> 00000201 00000002 00000020 00000006 ` + set("depth=3", "brs=1", "rbsiz=2048") + " " + nobody + `
			< * 00000002 00000008 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			value 00000001 00000800
			value 00000002 00000001
			value ffffff10 00000003`},
		script{name: "a property twice", steps: `
			good 2
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=3000", "brs=1", "rbsiz=2048") + " " + nobody + `
			< * 00000002 00000008 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			value 00000001 00000800
			limit 2048
			> 00000202 00000002 00000020 00000009 ` + set("rbsiz=2048", "rbsiz=3000") + `
			limit 3000
			props Duplicates 2`},
		script{name: "asked for twice", trial: &trial{offers: true}, steps: withDepth + `
			> 00000203 00000002 00000020 00000007 ` + set("depth=5", "rbsiz=4096", "depth=6") + `
			< 00000203 00000002 00000040 00000008 ` + bits(0, 1) + " " + bits(2) + ` 00000000
			props Duplicates 1`},
		script{name: "no octets", steps: `
			good 2
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=2048", "depth=") + " " + nobody + `
			< * 00000002 00000008 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			limit 2048
			value ffffff10 00000001 default
			> 00000202 00000002 00000020 00000009 ` + set("rbsiz=") + `
			limit 4096
			value 00000001 00001000 default`},
		script{name: "no octets asked for", trial: &trial{offers: true}, steps: withDepth + `
			// the default is what is asked for
			> 00000203 00000002 00000020 00000007 ` + set("depth=") + `
			< 00000203 00000002 00000040 00000008 ` + bits(0) + " " + nobody + ` 00000000`},
		script{name: "position 32", steps: began + `
			// 34 properties, of which the last but one is known: bit 0 of the second word
			> 00000203 00000002 00000020 00000007 ` + thirtyFour() + `
			< 00000203 00000002 00000040 00000008 00000002 00000000 00000001 00000002 ffffffff 00000002 00000000`},
		script{name: "rdma_nochg at position 32", steps: `
			good 2
			> 00000201 00000002 00000020 00000006 ` + thirtyFour() + ` 00000002 00000000 00000001
			< * 00000002 00000008 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			value 00000001 00001000 fixed
			value 00000064 default
			value 00000085 default`},
		script{name: "ours that will not change", trial: &trial{offers: true}, steps: `
			// rbsiz, depth, strict: bit 2
			good 2
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			< * 00000002 00000008 00000006 ` + set("rbsiz=4096", "depth=4", "strict=1") + " " + bits(2)},
		script{name: "theirs that will not change", steps: `
			// is not asked for
			good 2
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=2048", "depth=3") + " " + bits(1) + `
			< * 00000002 00000008 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			value ffffff10 00000003 fixed
			value 00000001 00000800
			ask ffffff10 00000002
			ended 1 rejected: not asked
			ask 00000001 00001000
			< $q 00000002 00000008 00000007 ` + set("rbsiz=4096") + `
			> $q 00000002 00000020 00000008 ` + bits(0) + " " + nobody + ` 00000000
			ended 2 done 00001000
			// but an update of it is believed
			> 00000203 00000002 00000020 00000009 ` + set("depth=6") + `
			value ffffff10 00000006 fixed`},
		script{name: "a second CONNPROP", steps: began + `
			// an update of what it lists, and not answered by another one
			> 00000203 00000002 00000020 00000006 ` + set("rbsiz=2048") + " " + nobody + `
			limit 2048
			> 00000204 00000002 00000020 00000006 ` + set("depth=3") + " " + nobody + `
			value ffffff10 00000003
			limit 2048
			quiet
			good 2
			props Seconds 2`},
		script{name: "left out", steps: `
			good 2
			> 00000201 00000002 00000020 00000006 00000000 00000000
			< * 00000002 00000008 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			value 00000001 00001000 default
			value 00000002 00000001 default
			value ffffff10 00000001 default
			ask 00000001 00002000
			ended 1 not supported: not asked
			quiet
			// but an update of it is believed
			> 00000202 00000002 00000020 00000009 ` + set("rbsiz=2048", "depth=9") + `
			limit 2048
			value ffffff10 00000009`},
		script{name: "of ours left out", steps: began + `
			// its owner changes it all the same: the peer is not told
			offer ffffff10 00000009
			props BadOffers 1
			> 00000203 00000002 00000020 00000007 ` + set("depth=3") + `
			< 00000203 00000002 00000040 00000008 ` + nobody + " " + bits(0) + ` 00000000
			quiet`},
		script{name: "update", trial: &trial{offers: true}, steps: withDepth + `
			offer ffffff10 00000009
			< $u 00000002 00000008 00000009 ` + set("depth=9") + `
			// one at a time: what changes meanwhile goes when it is known that this one was consumed
			offer ffffff10 0000000a
			quiet
			offer ffffff10 0000000b
			quiet
			> 00000203 00000002 00000020 00000007 ` + set("rbsiz=4096") + `
			< 00000203 00000002 00000040 00000008 ` + bits(0) + " " + nobody + ` 00000000
			quiet
			> $u 00000002 00000020 00000004 0000000a
			< * 00000002 00000008 00000009 ` + set("depth=11") + `
			good 2`},
		script{name: "updates when many calls have come", opts: []rpc.ClientOption{rpc.WithCredits(2)}, trial: &trial{offers: true}, steps: strings.ReplaceAll(withDepth, "00000040", "00000002") + `
			// more than could be under way when it was sent
			offer ffffff10 00000009
			< * 00000002 00000008 00000009 ` + set("depth=9") + `
			offer ffffff10 0000000a
			good 2
			good 2
			quiet
			> 00000301 00000002 00000020 00000000 00000000 00000000 00000000 00000000 00000000 call:HOLD 00000000
			held 1
			< * 00000002 00000008 00000009 ` + set("depth=10")},
		script{name: "RBSIZ counts the whole Send", steps: `
			// 36 + 24 + 4 + 1984 = 2048 octets and no more
			good 2
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=2048") + " " + nobody + `
			< * 00000002 00000008 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			limit 2048
			> 00000101 00000002 00000020 00000000 00000000 00000000 00000000 00000000 00000000 call:READ 000007c0
			< 00000101 00000002 00000040 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 000007c0 p:1984
			> 00000102 00000002 00000020 00000000 00000000 00000000 00000000 00000000 00000000 call:READ 000007c1
			< 00000102 00000002 00000040 00000004 00000008 000007e0`},
		script{name: "RBSIZ above the default", steps: `
			good 2
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=8192") + " " + nobody + `
			< * 00000002 00000008 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			limit 8192
			> 00000101 00000002 00000020 00000000 00000000 00000000 00000000 00000000 00000000 call:READ 00001388
			< 00000101 00000002 00000040 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00001388 p:5000`},
		script{name: "RBSIZ too small", steps: `
			// below 1024 it is ignored
			good 2
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=1023") + " " + nobody + `
			< * 00000002 00000008 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			over <nil>
			limit 4096
			props TooSmall 1
			> 00000202 00000002 00000020 00000009 ` + set("rbsiz=1024") + `
			limit 1024
			> 00000203 00000002 00000020 00000009 ` + set("rbsiz=0") + `
			props TooSmall 2
			limit 1024`},
		script{name: "RBSIZ raised", steps: began + `
			// what is in force now, and an update when it is true: 5000 octets are too many before, and served then
			> 00000203 00000002 00000020 00000007 ` + set("rbsiz=8192") + `
			< 00000203 00000002 00000040 00000008 ` + nobody + " " + nobody + " " + set("rbsiz=4096") + `
			< $u 00000002 00000008 00000009 ` + set("rbsiz=8192") + `
			> 00000102 00000002 00000020 00000000 00000000 00000000 00000000 00000000 00000000 call:ECHO 00000005 "hello" 000000
			< 00000102 00000002 00000040 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000005 "hello" 000000
			mem A 5100 w
			> 00000101 00000002 00000020 00000000 00000000 00000000 00000000 00000000 00000001 00000001 seg:A:5100 call:ECHO 00001388 p:5000
			< 00000101 00000002 00000040 00000001 00000001 00000000 00000000 00000000 00000001 00000001 seg:A:5028`},
		script{name: "RBSIZ raised beyond what there is", props: &props.Options{MaxReceiveSize: 6000}, steps: began + `
			> 00000203 00000002 00000020 00000007 ` + set("rbsiz=8192") + `
			< 00000203 00000002 00000040 00000008 ` + nobody + " " + nobody + " " + set("rbsiz=4096") + `
			< $u 00000002 00000008 00000009 ` + set("rbsiz=6000") + `
			> $u 00000002 00000020 00000004 0000000a
			> 00000204 00000002 00000020 00000007 ` + set("rbsiz=8192") + `
			< 00000204 00000002 00000040 00000008 ` + nobody + " " + bits(0) + ` 00000000`},
		script{name: "RBSIZ lowered", opts: []rpc.ClientOption{rpc.WithInline(8192)}, steps: `
			// done at once, but never below 4096
			good 2
			> 00000201 00000002 00000020 00000006 00000000 00000000
			< * 00000002 00000008 00000006 ` + set("rbsiz=8192") + " " + nobody + `
			> 00000202 00000002 00000020 00000007 ` + set("rbsiz=6000") + `
			< 00000202 00000002 00000040 00000008 ` + bits(0) + " " + nobody + ` 00000000
			> 00000203 00000002 00000020 00000007 ` + set("rbsiz=1024") + `
			< 00000203 00000002 00000040 00000008 ` + nobody + " " + nobody + " " + set("rbsiz=4096") + `
			> 00000204 00000002 00000020 00000007 ` + set("rbsiz=1024") + `
			< 00000204 00000002 00000040 00000008 ` + nobody + " " + bits(0) + ` 00000000
			good 2`},
		script{name: "BRS is INLINE", steps: boundV2 + `
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			< * 00000002 00000008 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			value 00000002 00000001 default
			back ECHO "back"
			< $x 00000002 00000008 00000000 00000000 00000000 00000000 00000000 00000000 call:ECHO 00000004 "back"
			> $x 00000002 00000002 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000004 "back"
			done "back"
			back ECHO p:5000
			fails NotSent`},
		script{name: "BRS is NONE", steps: boundV2 + `
			> 00000201 00000002 00000020 00000006 ` + set("brs=0") + " " + nobody + `
			< * 00000002 00000008 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			level 0
			value 00000002 00000000
			back ECHO "back"
			fails NotSent
			quiet
			good 2
			> 00000202 00000002 00000020 00000009 ` + set("brs=1") + `
			level 1
			value 00000002 00000001
			back ECHO "back"
			< $x 00000002 00000008 00000000 00000000 00000000 00000000 00000000 00000000 call:ECHO 00000004 "back"
			> $x 00000002 00000002 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000004 "back"
			done "back"`},
		script{name: "BRS is GENL", opts: []rpc.ClientOption{rpc.WithBackwardChunks()}, steps: boundV2 + `
			> 00000201 00000002 00000020 00000006 ` + set("brs=2") + " " + nobody + `
			< * 00000002 00000008 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			level 2
			value 00000002 00000002
			back ECHO p:5000
			< $x 00000002 00000008 00000001 00000000 $h 00000001 00000000 $h 000013b4 $o:8 00000000 00000000 00000000
			read $h $o call:ECHO@$x 00001388 p:5000
			> $x 00000002 00000002 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000001 "x" 000000
			done "x"`},
		script{name: "octets behind an operation", steps: began + `
			> 00000203 00000002 00000020 00000006 00000000 00000000 "more"
			< 00000203 00000002 00000040 00000004 00000002
			> 00000204 00000002 00000020 00000007 00000000 "more"
			< 00000204 00000002 00000040 00000004 00000002
			> 00000205 00000002 00000020 00000009 ` + set("rbsiz=2048") + ` "more"
			< 00000205 00000002 00000040 00000004 00000002
			> 00000206 00000002 00000020 00000005 00000000 00000004 00000010 ` + set("rbsiz=2048") + ` "more"
			< 00000206 00000002 00000040 00000004 00000002
			limit 4096
			good 2`},
		script{name: "receives for operations when all credits are used", opts: []rpc.ClientOption{rpc.WithCredits(2)}, trial: &trial{offers: true}, steps: strings.ReplaceAll(withDepth, "00000040", "00000002") + `
			> 00000301 00000002 00000020 00000000 00000000 00000000 00000000 00000000 00000000 call:HOLD 00000000
			> 00000302 00000002 00000020 00000000 00000000 00000000 00000000 00000000 00000000 call:HOLD 00000000
			held 2
			> 00000203 00000002 00000020 00000007 ` + set("depth=2") + `
			> 00000204 00000002 00000020 00000009 ` + set("rbsiz=2048") + `
			> 00000205 00000002 00000020 00000006 ` + set("brs=1") + " " + nobody + `
			< 00000203 00000002 00000002 00000008 ` + bits(0) + " " + nobody + ` 00000000
			value 00000002 00000001
			limit 2048
			release
			< * 00000002 00000002 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000000
			< * 00000002 00000002 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000000
			good 2`},
	)
}

// withDepth is began with a property of the extension's.
var withDepth = `
	good 2
	> 00000201 00000002 00000020 00000006 ` + set("rbsiz=4096") + " " + nobody + `
	< $s 00000002 00000008 00000006 ` + set("rbsiz=4096", "depth=4", "strict=1") + " " + bits(2)

// withProps loads props into those that do not say how.
func withProps(all ...script) []script {
	for i := range all {
		if all[i].props == nil {
			all[i].props = new(props.Options)
		}
	}
	return all
}

// thirtyFour is a set of 34 properties, that at position 32 RBSIZ, the others known to nobody.
func thirtyFour() string {
	var all []string
	for i := range 34 {
		v := fmt.Sprintf("%d=", 100+i)
		if i == 32 {
			v = "rbsiz=4096"
		}
		all = append(all, v)
	}
	return set(all...)
}
