package main

import (
	"github.com/rpcrdma/rpcrdma/core/ext"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/props"
)

// introduced is a first call and our client's CONNPROP, its XID the next one.
var introduced = settleV2 + `
	< $n+1 00000002 00000040 00000006 ` + set("rbsiz=4096", "brs=0") + " " + nobody

// acquainted is that and the peer's CONNPROP: a size of 4096 and a depth of 3, both of which may change.
var acquainted = introduced + `
	> 00000201 00000002 00000020 00000006 ` + set("rbsiz=4096", "depth=3") + " " + nobody + `
	value ffffff10 00000003
	over <nil>`

// echoes is a call of our client's, answered.
const echoes = `
	call ECHO "a"
	< $a 00000002 00000040 00000000 00000000 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
	> $a 00000002 00000020 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
	done "a"`

// propertiesClient: the peer exchanges properties with our client.
func propertiesClient() []script {
	inline := ext.BackwardInline
	return withProps(
		script{name: "CONNPROP", steps: `
			// the first message is a call; once that is answered CONNPROP follows
			call ECHO "x"
			peer
			< $n 00000002 00000040 00000000 00000000 00000000 00000000 00000000 00000000 call:ECHO 00000001 "x" 000000
			quiet
			> $n 00000002 00000020 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000001 "x" 000000
			done "x"
			< $n+1 00000002 00000040 00000006 ` + set("rbsiz=4096", "brs=0") + " " + nobody + `
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=4096", "depth=3") + " " + nobody + `
			value ffffff10 00000003
			value ffffff11 00000000 default
			over <nil>
			quiet`},
		script{name: "CONNPROP as an option", props: &props.Options{Optional: true}, steps: settleV2 + `
			< $n+1 00000002 00000040 00000005 00000000 00000001 00000020 ` + set("rbsiz=4096", "brs=0") + " " + nobody + `
			// answered in the other form
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=4096", "depth=3") + " " + nobody + `
			over <nil>
			ask ffffff10 00000005
			< $q 00000002 00000040 00000005 00000000 00000002 00000010 ` + set("depth=5") + `
			> $q 00000002 00000020 00000005 00000001 00000003 00000010 ` + bits(0) + " " + nobody + ` 00000000
			ended 1 done 00000005`},
		script{name: "CONNPROP with properties of extensions", trial: &trial{offers: true}, serves: true, steps: settleV2 + `
			// that of strict will not change
			< $n+1 00000002 00000040 00000006 ` + set("rbsiz=4096", "brs=1", "depth=4", "strict=1") + " " + bits(3)},
		script{name: "version 1", opts: v1only, steps: settleV1 + `
			quiet` + `
			call ECHO "a"
			< $a 00000001 00000040 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			> $a 00000001 00000020 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done "a"`},
		script{name: "INVALID_PROC", steps: introduced + `
			> $n+1 00000002 00000020 00000004 00000003
			over the peer does not support transport properties (RDMA2_ERR_INVALID_PROC)
			ask 00000001 00000800
			ended 1 not supported: not asked
			value ffffff10 00000001 default
			limit 4096` + echoes},
		script{name: "INVALID_OPTION", steps: introduced + `
			// the same of the same
			> $n+1 00000002 00000020 00000004 00000009
			over the peer does not support transport properties (RDMA2_ERR_INVALID_OPTION)
			ask 00000001 00000800
			ended 1 not supported: not asked` + echoes},
		script{name: "REQPROP is not supported", steps: acquainted + `
			ask ffffff10 00000005
			< $q 00000002 00000040 00000007 ` + set("depth=5") + `
			> $q 00000002 00000020 00000004 00000009
			ended 1 not supported: not asked
			// nor asked again
			ask ffffff10 00000006
			ended 2 not supported: not asked
			quiet
			value ffffff10 00000003` + echoes},
		script{name: "UPDPROP is not supported", trial: &trial{offers: true}, steps: settleV2 + `
			< $n+1 00000002 00000040 00000006 ` + set("rbsiz=4096", "brs=0", "depth=4", "strict=1") + " " + bits(3) + `
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			over <nil>
			offer ffffff10 00000009
			< $u 00000002 00000040 00000009 ` + set("depth=9") + `
			> $u 00000002 00000020 00000004 00000003
			props Refused 1
			offer ffffff10 0000000a
			quiet` + echoes},
		script{name: "credits", steps: acquainted + `
			// the peer's CONNPROP, REQPROP and UPDPROP grant nothing, its RESPROP and RDMA_ERROR do
			count Granted 32
			> 00000202 00000002 00000003 00000009 ` + set("depth=4") + `
			value ffffff10 00000004
			> 00000203 00000002 00000004 00000007 ` + set("rbsiz=4096") + `
			< 00000203 00000002 00000001 00000008 ` + bits(0) + " " + nobody + ` 00000000
			> 00000204 00000002 00000000 00000006 ` + set("depth=5") + " " + nobody + `
			value ffffff10 00000005
			count Granted 32
			count ZeroCredit 0
			ask ffffff10 00000006
			< $q 00000002 00000040 00000007 ` + set("depth=6") + `
			> $q 00000002 00000005 00000008 ` + bits(0) + " " + nobody + ` 00000000
			ended 1 done 00000006
			count Granted 5
			ask ffffff10 00000007
			< $r 00000002 00000040 00000007 ` + set("depth=7") + `
			> $r 00000002 00000006 00000004 0000000a
			ended 2 rejected: not asked
			count Granted 6
			ask ffffff10 00000008
			< $s 00000002 00000040 00000007 ` + set("depth=8") + `
			> $s 00000002 00000000 00000008 ` + bits(0) + " " + nobody + ` 00000000
			ended 3 done 00000008
			count Granted 1
			count ZeroCredit 1`},
		script{name: "credits of options", steps: acquainted + `
			> 00000202 00000002 00000003 00000005 00000000 00000004 00000010 ` + set("depth=4") + `
			value ffffff10 00000004
			count Granted 32
			ask ffffff10 00000006
			< $q 00000002 00000040 00000007 ` + set("depth=6") + `
			> $q 00000002 00000005 00000005 00000001 00000003 00000010 ` + bits(0) + " " + nobody + ` 00000000
			ended 1 done 00000006
			count Granted 5`},
		script{name: "CONNPROP takes a credit until the peer is known", opts: []rpc.ClientOption{rpc.WithCredits(2)}, steps: `
			call NULL
			peer
			< $n 00000002 00000002 00000000 00000000 00000000 00000000 00000000 00000000 call:NULL
			> $n 00000002 00000020 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0
			done
			< $n+1 00000002 00000002 00000006 ` + set("rbsiz=4096", "brs=0") + " " + nobody + `
			call ECHO "a"
			< $a 00000002 00000002 00000000 00000000 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			call ECHO "b"
			quiet
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			< $b 00000002 00000002 00000000 00000000 00000000 00000000 00000000 00000000 call:ECHO 00000001 "b" 000000
			> $a 00000002 00000020 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			> $b 00000002 00000020 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000001 "b" 000000
			done 2 "a"
			done 3 "b"`},
		script{name: "XIDs", steps: introduced + `
			// from those of the calls: CONNPROP, a call, REQPROP, a call
			call ECHO "a"
			< $a 00000002 00000040 00000000 00000000 00000000 00000000 00000000 00000000 call:ECHO 00000001 "a" 000000
			// the XIDs of the peer's are its own: one that a call of ours has touches nothing
			> $a 00000002 00000020 00000006 ` + set("rbsiz=4096", "depth=3") + " " + nobody + `
			over <nil>
			> $a 00000002 00000020 00000009 ` + set("depth=4") + `
			value ffffff10 00000004
			> $a 00000002 00000020 00000007 ` + set("rbsiz=4096") + `
			< $a 00000002 00000001 00000008 ` + bits(0) + " " + nobody + ` 00000000
			> $a 00000002 00000020 00000009 00000001
			< $a 00000002 00000001 00000004 00000002
			ask ffffff10 00000005
			< $a+1 00000002 00000040 00000007 ` + set("depth=5") + `
			call ECHO "b"
			< $b 00000002 00000040 00000000 00000000 00000000 00000000 00000000 00000000 call:ECHO 00000001 "b" 000000
			> $a+1 00000002 00000020 00000004 0000000a
			ended 1 rejected: not asked
			> $b 00000002 00000020 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000001 "b" 000000
			> $a 00000002 00000020 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000001 "a" 000000
			done 2 "a"
			done 3 "b"`},
		script{name: "an answer to another XID", steps: acquainted + `
			ask ffffff10 00000005
			< $q 00000002 00000040 00000007 ` + set("depth=5") + `
			> $q+1 00000002 00000020 00000008 ` + bits(0) + " " + nobody + ` 00000000
			pending 1
			value ffffff10 00000003
			> $q 00000002 00000020 00000008 ` + nobody + " " + bits(0) + ` 00000000
			ended 1 rejected
			quiet
			props Strays 1`},
		script{name: "one REQPROP at a time", steps: acquainted + `
			// each property once in it; what is asked meanwhile is in the next one
			ask ffffff10 00000005
			< $q 00000002 00000040 00000007 ` + set("depth=5") + `
			ask ffffff10 00000006
			quiet
			> $q 00000002 00000020 00000008 ` + bits(0) + " " + nobody + ` 00000000
			ended 1 done 00000005
			< $r 00000002 00000040 00000007 ` + set("depth=6") + `
			> $r 00000002 00000020 00000008 ` + nobody + " " + nobody + " " + set("depth=2") + `
			ended 2 another value 00000002
			value ffffff10 00000002`},
		script{name: "answers that overlap", steps: acquainted + `
			ask ffffff10 00000005
			< $q 00000002 00000040 00000007 ` + set("depth=5") + `
			> $q 00000002 00000020 00000008 ` + bits(0) + " " + bits(0) + ` 00000000
			ended 1 rejected
			ask ffffff10 00000006
			< $r 00000002 00000040 00000007 ` + set("depth=6") + `
			> $r 00000002 00000020 00000008 ` + bits(0) + " " + nobody + " " + set("depth=7") + `
			ended 2 rejected
			ask ffffff10 00000006
			< $s 00000002 00000040 00000007 ` + set("depth=6") + `
			> $s 00000002 00000020 00000008 ` + nobody + " " + nobody + " " + set("depth=7", "depth=8") + `
			ended 3 rejected
			value ffffff10 00000003
			props Mismatches 3
			quiet`},
		script{name: "answers that leave out", steps: acquainted + `
			ask ffffff10 00000005
			< $q 00000002 00000040 00000007 ` + set("depth=5") + `
			> $q 00000002 00000020 00000008 ` + nobody + " " + nobody + ` 00000000
			ended 1 rejected
			value ffffff10 00000003
			props Mismatches 1
			quiet`},
		script{name: "answers about what was not asked", steps: acquainted + `
			// ignored: the size stays
			ask ffffff10 00000005
			< $q 00000002 00000040 00000007 ` + set("depth=5") + `
			> $q 00000002 00000020 00000008 ` + bits(0) + " " + nobody + " " + set("rbsiz=2048", "99=1") + `
			ended 1 done 00000005
			limit 4096
			value 00000001 00001000
			props Foreign 2
			ask ffffff10 00000006
			< $r 00000002 00000040 00000007 ` + set("depth=6") + `
			> $r 00000002 00000020 00000008 ` + bits(0, 40) + " " + nobody + ` 00000000
			ended 2 done 00000006
			quiet`},
		script{name: "a malformed answer", steps: acquainted + `
			// not answered, and nothing of it taken
			ask ffffff10 00000005
			< $q 00000002 00000040 00000007 ` + set("depth=5") + `
			> $q 00000002 00000020 00000008 ` + nobody + " " + nobody + " " + set("depth=6", "rbsiz=4096", "brs=7") + `
			ended 1 rejected: not asked
			value ffffff10 00000003
			ask ffffff10 00000006
			< $r 00000002 00000040 00000007 ` + set("depth=6") + `
			> $r 00000002 00000020 00000008 ` + bits(0) + " " + nobody + ` 00000000 "more"
			quiet
			pending 2
			> $r 00000002 00000020 00000008 ` + bits(0) + " " + nobody + ` 00000000
			ended 2 done 00000006
			props Malformed 1
			count Dropped 1`},
		script{name: "what is not asked", steps: introduced + `
			// fixed, and left out
			> 00000201 00000002 00000020 00000006 ` + set("depth=3") + " " + bits(0) + `
			over <nil>
			ask ffffff10 00000005
			ended 1 rejected: not asked
			ask 00000001 00002000
			ended 2 not supported: not asked
			quiet`},
		script{name: "asking for less", steps: acquainted + `
			// 2048 is the limit as soon as it is asked for, and until it is rejected
			ask 00000001 00000800
			< $q 00000002 00000040 00000007 ` + set("rbsiz=2048") + `
			limit 2048
			call ECHO p:3000
			< $x 00000002 00000040 00000001 00000000 $h 00000001 00000000 $h 00000be4 $o:8 00000000 00000000 00000000
			> $x 00000002 00000020 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000001 "x" 000000
			done "x"
			> $q 00000002 00000020 00000008 ` + nobody + " " + bits(0) + ` 00000000
			ended 1 rejected
			limit 4096
			call ECHO p:3000
			< $y 00000002 00000040 00000000 00000000 00000000 00000000 00000000 00000000 call:ECHO 00000bb8 p:3000
			> $y 00000002 00000020 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000001 "y" 000000
			done "y"`},
		script{name: "asking for more", steps: acquainted + `
			// only when it is true
			ask 00000001 00002000
			< $q 00000002 00000040 00000007 ` + set("rbsiz=8192") + `
			> $q 00000002 00000020 00000008 ` + nobody + " " + nobody + " " + set("rbsiz=4096") + `
			ended 1 another value 00001000
			limit 4096
			> 00000202 00000002 00000020 00000009 ` + set("rbsiz=8192") + `
			limit 8192
			call ECHO p:5000
			< $y 00000002 00000040 00000000 00000000 00000000 00000000 00000000 00000000 call:ECHO 00001388 p:5000
			> $y 00000002 00000020 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000001 "y" 000000
			done "y"`},
		script{name: "RBSIZ as configured", props: &props.Options{ReceiveSize: 8192}, steps: introduced + `
			// 4096 fits everybody; the update comes when it is true and the peer takes updates
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			< * 00000002 00000040 00000009 ` + set("rbsiz=8192")},
		script{name: "never below 4096", opts: []rpc.ClientOption{rpc.WithInline(8192)}, props: &props.Options{ReceiveSize: 4096}, steps: introduced + `
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			> 00000202 00000002 00000020 00000007 ` + set("rbsiz=1024") + `
			< 00000202 00000002 00000001 00000008 ` + nobody + " " + bits(0) + ` 00000000`},
		script{name: "BRS", serves: true, props: &props.Options{Backward: &inline}, steps: settleV2 + `
			< * 00000002 00000040 00000006 ` + set("rbsiz=4096", "brs=1") + " " + nobody + `
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			> 00000101 00000002 00000020 00000000 00000000 00000000 00000000 00000000 00000000 call:ECHO 00000004 "back"
			< 00000101 00000002 00000008 00000000 00000001 00000000 00000000 00000000 00000000 accepted:0 00000004 "back"`},
		script{name: "BRS of a client that serves nothing", steps: acquainted + `
			> 00000202 00000002 00000020 00000007 ` + set("brs=1") + `
			< 00000202 00000002 00000001 00000008 ` + nobody + " " + bits(0) + ` 00000000
			> 00000101 00000002 00000020 00000000 00000000 00000000 00000000 00000000 00000000 call:ECHO 00000004 "back"
			quiet
			count Dropped 1`},
		script{name: "update", trial: &trial{offers: true}, steps: settleV2 + `
			< * 00000002 00000040 00000006 ` + set("rbsiz=4096", "brs=0", "depth=4", "strict=1") + " " + bits(3) + `
			> 00000201 00000002 00000020 00000006 ` + set("rbsiz=4096") + " " + nobody + `
			over <nil>
			offer ffffff10 00000009
			< $u 00000002 00000040 00000009 ` + set("depth=9") + `
			offer ffffff10 0000000a
			quiet` + echoes + `
			// the reply to a call sent later proves that it was consumed
			< * 00000002 00000040 00000009 ` + set("depth=10")},
	)
}
