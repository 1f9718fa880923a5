package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/loopback"
	"github.com/rpcrdma/rpcrdma/test/faults"
)

// lingering is a provider whose dialled connections say that they have ended when end is closed, not before.
type lingering struct {
	verbs.Provider
	end chan struct{}
}

type lingeringDomain struct {
	verbs.Domain
	end chan struct{}
}

type lingeringHandler struct {
	verbs.Handler
	end chan struct{}
}

func (p lingering) Open(ctx context.Context, local string, options map[string]string) (verbs.Domain, error) {
	d, err := p.Provider.Open(ctx, local, options)
	return lingeringDomain{d, p.end}, err
}

func (d lingeringDomain) Dial(ctx context.Context, addr string, o verbs.Options) (verbs.Conn, error) {
	o.Handler = lingeringHandler{o.Handler, d.end}
	return d.Domain.Dial(ctx, addr, o)
}

func (h lingeringHandler) Disconnected(err error) {
	<-h.end
	h.Handler.Disconnected(err)
}

// TestFailedInvalidateHoldsTheCall: where memory cannot be invalidated the connection ends, and until it has
// ended the call has not (RFC 8166 §4.5.4): its caller would use memory that the peer can still write.
func TestFailedInvalidateHoldsTheCall(t *testing.T) {
	end := make(chan struct{})
	scheme := fmt.Sprint("lingering", servers.Add(1))
	verbs.Register(scheme, lingering{faults.Wrap(t, loopback.Provider{}, faults.Plan{
		Judge: func(_ int, w *verbs.Work) faults.Verdict {
			if w.Op == verbs.OpInvalidate {
				return faults.Fail
			}
			return faults.Pass
		},
	}), end})
	dom := openDomain(t, "loopback")
	x := &session{t: t, s: &script{}, vars: make(map[string][]byte), mems: make(map[string]*exposed)}
	x.door = listenPeer(t, "loopback", dom, nil)
	var err error
	if x.client, err = rpc.NewClient(strings.Replace(x.door.url, "loopback", scheme, 1), v1only...); err != nil {
		t.Fatal(err)
	}
	defer x.client.Close()
	for _, line := range strings.Split(settleV1+`
		call READ 5000 into 5000
		< $x 00000001 00000040 00000000 00000000 00000001 00000001 $h 00001388 $o:8 00000000 00000000 call:READ 00001388
		> $x 00000001 00000020 00000000 00000000 00000001 00000001 $h 00000000 $o 00000000 00000000 accepted:0 00000000`, "\n") {
		if x.line = strings.TrimSpace(line); x.line != "" {
			x.step()
		}
	}
	select {
	case <-x.peer.gone: // so the Invalidate has failed
	case <-time.After(patience):
		t.Fatal("the connection lives")
	}
	call := x.calls[1]
	select {
	case <-call.done:
		t.Error("the call ended before its connection")
	case <-time.After(20 * time.Millisecond):
	}
	close(end)
	select {
	case <-call.done: // with its reply, or as lost: nothing can touch the memory now
	case <-time.After(patience):
		t.Error("the call has no end")
	}
}
