package providertest

import (
	"bytes"
	"context"
	"errors"

	"github.com/rpcrdma/rpcrdma/core/verbs"
)

func private(b []byte) func(verbs.Caps, []byte) []byte {
	return func(verbs.Caps, []byte) []byte { return b }
}

var privateChecks = []check{
	{name: "it travels both ways, and the accepting side answers knowing the other's", run: func(w *world) {
		var dialSaw, acceptSaw []byte
		dialSaw = []byte("not called")
		a, b := w.connect(link{
			a: verbs.Options{Private: func(c verbs.Caps, peer []byte) []byte {
				dialSaw = peer
				return []byte("from the dialler")
			}},
			b: verbs.Options{Private: func(c verbs.Caps, peer []byte) []byte {
				acceptSaw = bytes.Clone(peer)
				return []byte("to the dialler")
			}},
		})
		if dialSaw != nil {
			w.Errorf("dialling, Private got %q, want nil", dialSaw)
		}
		w.carries("Private of the accepting side", a.conn.Caps(), acceptSaw, "from the dialler")
		w.carries("PeerPrivateData there", b.conn.Caps(), b.conn.PeerPrivateData(), "from the dialler")
		w.carries("PeerPrivateData here", a.conn.Caps(), a.conn.PeerPrivateData(), "to the dialler")
	}},
	{name: "as long as Caps.PrivateDial and Caps.PrivateAccept it passes", run: func(w *world) {
		asked, answered := pattern(1, w.caps().PrivateDial), pattern(2, w.caps().PrivateAccept)
		a, b := w.connect(link{a: verbs.Options{Private: private(asked)}, b: verbs.Options{Private: private(answered)}})
		w.carries("dialler's", a.conn.Caps(), b.conn.PeerPrivateData(), string(asked))
		w.carries("acceptor's", a.conn.Caps(), a.conn.PeerPrivateData(), string(answered))
	}},
	{name: "longer than Caps.PrivateDial it is an error of Dial with the limit", run: func(w *world) {
		most := w.caps().PrivateDial
		d := w.open()
		l := w.listen(d)
		a, b := w.end("a", w.open(), &link{}, nil), w.end("b", d, &link{}, nil)
		ctx, cancel := context.WithCancel(w.ctx)
		accepted := make(chan error, 1)
		go func() { accepted <- b.accept(ctx, l, verbs.Options{}) }()
		w.tooLong("Dial", a.dial(w.ctx, l.Addr().String(), verbs.Options{Private: private(make([]byte, most+1))}), "dial", most)
		cancel()
		among(w, "Accept", accepted)
	}},
	{name: "longer than Caps.PrivateAccept it is an error of Accept with the limit, and the dialler is rejected", run: func(w *world) {
		most := w.caps().PrivateAccept
		_, _, errs := w.tryConnectBoth(&link{b: verbs.Options{Private: private(make([]byte, most+1))}})
		w.tooLong("Accept", errs[1], "accept", most)
		var re *verbs.RejectedError
		if !errors.As(errs[0], &re) || len(bytes.Trim(re.Private, "\x00")) > 0 {
			w.Errorf("Dial: %v, want a RejectedError without private data", errs[0])
		}
	}},
	{name: "Reject refuses with it", run: func(w *world) {
		d := w.open()
		l := w.listen(d)
		a := w.end("a", w.open(), &link{}, nil)
		dialled := make(chan error, 1)
		go func() { dialled <- a.dial(w.ctx, l.Addr().String(), verbs.Options{}) }()
		if err := w.request(l).Reject([]byte("no, thanks")); err != nil {
			w.Fatalf("Reject: %v", err)
		}
		err := among(w, "Dial", dialled)
		var re *verbs.RejectedError
		if !errors.As(err, &re) {
			w.Fatalf("Dial: %v, want a RejectedError", err)
		}
		w.carries("RejectedError.Private", d.Caps(), re.Private, "no, thanks")
		b := w.end("b", d, &link{}, nil)
		a2 := w.end("a2", a.dom, &link{}, nil)
		w.join(a2, b, l)
	}},
	{name: "as long as Caps.PrivateReject it passes", run: func(w *world) {
		text := pattern(3, w.caps().PrivateReject)
		re, err := w.reject(text)
		if err != nil {
			w.Errorf("Reject: %v", err)
		}
		w.carries("RejectedError.Private", w.caps(), re.Private, string(text))
	}},
	{name: "longer than Caps.PrivateReject it is an error of Reject with the limit, and the dialler is rejected without it", run: func(w *world) {
		most := w.caps().PrivateReject
		re, err := w.reject(bytes.Repeat([]byte{1}, most+1))
		w.tooLong("Reject", err, "reject", most)
		w.carries("RejectedError.Private", w.caps(), re.Private, "")
	}},
}

// tooLong fails the check unless err is the error of private data that one step cannot carry.
func (w *world) tooLong(what string, err error, step string, most int) {
	w.Helper()
	var pe *verbs.PrivateDataError
	if !errors.As(err, &pe) || *pe != (verbs.PrivateDataError{Step: step, Len: most + 1, Max: most}) {
		w.Errorf("%s with %d bytes of private data: %v, want a PrivateDataError with the limit %d", what, most+1, err, most)
	}
}

// reject rejects a request with private data; it returns what Dial and Reject returned.
func (w *world) reject(private []byte) (*verbs.RejectedError, error) {
	w.Helper()
	l := w.listen(w.open())
	a := w.end("a", w.open(), &link{}, nil)
	dialled := make(chan error, 1)
	go func() { dialled <- a.dial(w.ctx, l.Addr().String(), verbs.Options{}) }()
	rejected := w.request(l).Reject(private)
	err := among(w, "Dial", dialled)
	var re *verbs.RejectedError
	if !errors.As(err, &re) {
		w.Fatalf("Dial: %v, want a RejectedError", err)
	}
	return re, rejected
}

// carries compares private data; received data may be padded.
func (w *world) carries(what string, c verbs.Caps, got []byte, want string) {
	w.Helper()
	if c.PadsPrivate && len(got) > len(want) && len(bytes.TrimLeft(got[len(want):], "\x00")) == 0 {
		got = got[:len(want)]
	}
	if string(got) != want {
		w.Errorf("%s is %q, want %q", what, got, want)
	}
}
