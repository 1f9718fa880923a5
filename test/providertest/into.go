package providertest

import (
	"errors"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// foreign is a domain that is not the provider's.
type foreign struct{ verbs.Domain }

var intoChecks = []check{
	{name: "a Request is accepted into another domain of the provider, whose memory and receives serve", run: func(w *world) {
		a, b, _ := w.acceptInto()
		w.ping(a, b)
		r := w.alloc(b.dom, 4096)
		win := b.expose(r, 0, 4096, verbs.RemoteWrite)
		data := pattern(3, 4096)
		a.do(write(win, 0, a.mem(data)), send())
		b.message(1)
		w.same("the other domain's memory", r.Bytes(), data)
	}},
	{name: "a connection outlives the listener's domain if it was accepted into another", run: func(w *world) {
		a, b, listening := w.acceptInto()
		w.hang("Domain.Close", func() { listening.Close() })
		w.ping(a, b)
	}},
	{name: "a connection ends with the domain that it was accepted into", run: func(w *world) {
		a, b, _ := w.acceptInto()
		w.hang("Domain.Close", func() { b.dom.Close() })
		b.disconnected()
		a.disconnected()
	}},
	{name: "a pool of the listener's domain is none of another's", run: func(w *world) {
		d := w.open()
		pool, err := d.NewRecvPool(4, 64)
		if err != nil {
			w.Skip(err)
		}
		w.Cleanup(func() { pool.Close() })
		w.notAccepted(d, w.end("b", w.open(), &link{}, pool), nil)
	}},
	{name: "a domain that is not the provider's is an error of Accept", run: func(w *world) {
		d := w.open()
		b := w.end("b", w.open(), &link{}, nil)
		b.dom = foreign{b.dom}
		w.notAccepted(d, b, verbs.ErrForeignDomain)
	}},
}

// acceptInto makes a pair whose accepting end b is in another domain than the listener.
func (w *world) acceptInto() (a, b *end, listening verbs.Domain) {
	w.Helper()
	listening = w.open()
	l := w.listen(listening)
	a, b = w.end("a", w.open(), &link{}, nil), w.end("b", w.open(), &link{}, nil)
	dialled := make(chan error, 1)
	go func() { dialled <- a.dial(w.ctx, l.Addr().String(), verbs.Options{}) }()
	if err := b.acceptRequest(w.ctx, w.request(l), verbs.Options{Domain: b.dom}); err != nil {
		w.Fatalf("Accept into another domain: %v", err)
	}
	if err := among(w, "Dial", dialled); err != nil {
		w.Fatal(err)
	}
	return a, b, listening
}

// notAccepted fails the check unless b cannot accept a request of a listener of d, and the dialler is rejected.
func (w *world) notAccepted(d verbs.Domain, b *end, want error) {
	w.Helper()
	l := w.listen(d)
	a := w.end("a", w.open(), &link{}, nil)
	dialled := make(chan error, 1)
	go func() { dialled <- a.dial(w.ctx, l.Addr().String(), verbs.Options{}) }()
	err := b.acceptRequest(w.ctx, w.request(l), verbs.Options{Domain: b.dom})
	if err == nil || want != nil && !errors.Is(err, want) {
		w.Errorf("Accept: %v, want an error that wraps %v", err, want)
	}
	var re *verbs.RejectedError
	if err := among(w, "Dial", dialled); !errors.As(err, &re) {
		w.Errorf("Dial: %v, want a RejectedError", err)
	}
}
