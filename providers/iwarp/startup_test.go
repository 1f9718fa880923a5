package iwarp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rpcrdma/rpcrdma/core/verbs"
	"github.com/rpcrdma/rpcrdma/providers/iwarp/mpa"
	"github.com/rpcrdma/rpcrdma/test/memory"
)

// TestAccepting: what the acceptor answers to the requests of Linux and others.
func TestAccepting(t *testing.T) {
	private := []byte{0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3}
	for _, c := range []struct {
		name    string
		options map[string]string
		asked   string
		want    mpa.Frame
		reads   int
	}{
		{"Linux's NFS client, which serves 128 Reads and makes none", map[string]string{"crc": "false"}, "mpa.request",
			mpa.Frame{Reply: true, Revision: 2, Enhanced: true, Depths: mpa.Depths{ORD: 64}, Private: private}, 64},
		{"RFC 5044 §7.1.1: CRC as asked", map[string]string{"crc": "false"}, "mpa.request.crc",
			mpa.Frame{Reply: true, Revision: 2, CRC: true, Enhanced: true, Depths: mpa.Depths{ORD: 64}, Private: private}, 64},
		{"CRC as our option asks", nil, "mpa.request",
			mpa.Frame{Reply: true, Revision: 2, CRC: true, Enhanced: true, Depths: mpa.Depths{ORD: 64}, Private: private}, 64},
		{"depths of both", map[string]string{"crc": "false", "reads": "4"}, "mpa.request.bare",
			mpa.Frame{Reply: true, Revision: 2, Enhanced: true, Depths: mpa.Depths{IRD: 4, ORD: 4}, Private: private}, 4},
		{"revision 1 in revision 1", map[string]string{"crc": "false", "reads": "7"}, "mpa.request.rev1",
			mpa.Frame{Reply: true, Revision: 1, Private: private}, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, c.options, func(t *testing.T, n *memory.Network, o *ours) {
				opt := o.options(1)
				opt.Private = func(caps verbs.Caps, peer []byte) []byte { return private }
				p, got := dialled(t, n, o.listen(t, opt), siw(t, c.asked))
				if !bytes.Equal(got.Append(nil), c.want.Append(nil)) {
					t.Errorf("replied %+v, want %+v", got, c.want)
				}
				synctest.Wait()
				if reads := o.conn.Caps().MaxReads; reads != c.reads {
					t.Errorf("MaxReads %d, want %d", reads, c.reads)
				}
				_ = p.s.Close()
				o.wantGone(t, nil)
			})
		})
	}
}

// TestRefusing: requests that never surface at Accept.
func TestRefusing(t *testing.T) {
	for _, c := range []struct {
		name string
		says []byte
		hear string // our reply
		end  error
		took time.Duration
	}{
		{"markers", siw(t, "mpa.request.markers"), "mpa.reject", io.EOF, 0},
		{"another protocol", []byte("GET / HTTP/1.1\r\n"), "", syscall.ECONNRESET, 0},
		{"revision 3", append(bytes.Clone(siw(t, "mpa.request")[:17]), 3, 0, 0), "", syscall.ECONNRESET, 0},
		{"a Reply", siw(t, "mpa.reply"), "", syscall.ECONNRESET, 0},
		{"silence", nil, "", syscall.ECONNRESET, 10 * time.Second},
		{"a request that stops", siw(t, "mpa.request")[:25], "", syscall.ECONNRESET, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
				addr := o.listen(t, o.options(1))
				s, err := n.Dial(t.Context(), "", addr)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				p := &peer{t: t, s: s}
				p.raw(c.says)
				if c.hear != "" {
					if got, want := p.octets(24), siw(t, c.hear); !bytes.Equal(got, want) {
						t.Errorf("replied %x, want %x", got, want)
					}
				}
				p.ends(c.end)
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				_ = s.Close()
			})
		})
	}
}

// TestBacklog: who stalls gives way to who comes later.
func TestBacklog(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
		l, err := o.dom.Listen(t.Context(), "127.0.0.1:0", verbs.ListenOptions{Backlog: 3})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if _, err := n.Dial(t.Context(), "", l.Addr().String()); err != nil {
				t.Fatal(err)
			}
		}
		s, err := n.Dial(t.Context(), "", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		(&peer{t: t, s: s}).raw(request(true))
		r, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Accept(t.Context(), o.options(0)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestBacklogIsShared: a flood of half-done set-ups from one address, of which each is younger than the
// honest one from another, does not push that out.
func TestBacklogIsShared(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
		l, err := o.dom.Listen(t.Context(), "127.0.0.1:0", verbs.ListenOptions{Backlog: 8})
		if err != nil {
			t.Fatal(err)
		}
		from := func(addr string) *peer {
			s, err := n.Dial(t.Context(), addr, l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return &peer{t: t, s: s}
		}
		honest := from("192.0.2.1")
		honest.raw(request(true)[:10]) // the rest is under way
		for range 50 {
			from("192.0.2.2")
		}
		for i := range 5 { // the backlog is full: those of whom there are most give way
			from("198.51.100." + strconv.Itoa(i))
		}
		honest.raw(request(true)[10:])
		r, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.RemoteAddr() != honest.s.LocalAddr() {
			t.Errorf("the request of %v surfaced, want %v's", r.RemoteAddr(), honest.s.LocalAddr())
		}
		if _, err := r.Accept(t.Context(), o.options(0)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestBytePerSecond: a request that trickles in is given up when its time is over, however lively it looks.
func TestBytePerSecond(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
		s, err := n.Dial(t.Context(), "", o.listen(t, o.options(0)))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		for _, b := range request(true) {
			if _, err = s.Writev([][]byte{{b}}); err != nil {
				break
			}
			time.Sleep(time.Second)
		}
		if d := time.Since(start); err == nil || d > 11*time.Second {
			t.Errorf("after %v: %v, want the stream's end after 10 s", d, err)
		}
	})
}

// TestGivenUp: a peer that has left, or speaks before it was answered, does not surface.
func TestGivenUp(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
		l, err := o.dom.Listen(t.Context(), "127.0.0.1:0", verbs.ListenOptions{Backlog: 3})
		if err != nil {
			t.Fatal(err)
		}
		var last *peer
		for i := range 6 {
			s, err := n.Dial(t.Context(), "", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			last = &peer{t: t, s: s}
			last.raw(request(true))
			switch {
			case i == 5:
			case i%3 == 0:
				_ = s.Reset()
			case i%3 == 1:
				_ = s.CloseWrite()
			default:
				last.raw([]byte{0})
			}
			synctest.Wait()
		}
		r, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.RemoteAddr() != last.s.LocalAddr() {
			t.Errorf("the request of %v surfaced, want %v's", r.RemoteAddr(), last.s.LocalAddr())
		}
		if err := r.Reject(nil); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDialling: what the initiator makes of an answer.
func TestDialling(t *testing.T) {
	rejected := mpa.Refusal(mpa.Frame{Revision: 2, Enhanced: true}, []byte("full")).Append(nil)
	for _, c := range []struct {
		name   string
		answer []byte
		close  bool
		want   error
		took   time.Duration
	}{
		{"another protocol", []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), false, verbs.ErrProtocol, 0},
		{"a Request", siw(t, "mpa.request"), false, mpa.ErrKey, 0},
		{"revision 1", mpa.Frame{Reply: true, Revision: 1}.Append(nil), false, mpa.ErrRevision, 0},
		{"markers", mpa.Frame{Reply: true, Revision: 2, Markers: true}.Append(nil), false, mpa.ErrMarkers, 0},
		{"the end", nil, true, verbs.ErrProtocol, 0},
		{"the end within the reply", siw(t, "mpa.reply")[:21], true, io.ErrUnexpectedEOF, 0},
		{"silence", nil, false, os.ErrDeadlineExceeded, 5 * time.Second},
		{"a reply that stops", siw(t, "mpa.reply")[:21], false, os.ErrDeadlineExceeded, 5 * time.Second},
		{"a refusal", rejected, false, nil, 0},
		{"Linux's refusal", siw(t, "mpa.reject"), false, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
				l, err := n.Listen(t.Context(), ":7", nil)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					s, err := l.Accept()
					if err != nil {
						return
					}
					p := &peer{t: t, s: s}
					p.octets(24)
					p.raw(c.answer)
					if c.close {
						s.Close()
					}
				}()
				began := time.Now()
				_, err = o.dom.Dial(t.Context(), "there:7", o.options(1))
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				var re *verbs.RejectedError
				switch {
				case c.want != nil:
					if !errors.Is(err, c.want) {
						t.Errorf("%v, want %v", err, c.want)
					}
				case !errors.As(err, &re):
					t.Errorf("%v, want a RejectedError", err)
				case !bytes.HasSuffix(c.answer, re.Private):
					t.Errorf("RejectedError.Private %q", re.Private)
				}
				_ = l.Close()
			})
		})
	}
}

func TestDiallingGivenUp(t *testing.T) {
	bubble(t, nil, func(t *testing.T, n *memory.Network, o *ours) {
		l, err := n.Listen(t.Context(), ":7", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := o.dom.Dial(ctx, "there:7", o.options(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the context's error", err)
		}
	})
}

func TestOptions(t *testing.T) {
	for _, c := range []struct{ key, value string }{
		{"colour", "red"}, {"crc", "maybe"}, {"mpa", "3"}, {"mtu", "100"}, {"reads", "0"}, {"linger", "-1s"}, {"sndbuf", "x"}, {"setup", "0s"},
	} {
		p, _ := verbs.Lookup("iwarp")
		_, err := p.Open(t.Context(), "", map[string]string{c.key: c.value})
		var oe *verbs.OptionError
		if !errors.As(err, &oe) || oe.Key != c.key || oe.Provider != "iwarp" {
			t.Errorf("%s=%s: %v", c.key, c.value, err)
		}
	}
	p, _ := verbs.Lookup("iwarp")
	info, err := p.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range info.Options {
		d, err := p.Open(t.Context(), "127.0.0.1", map[string]string{o.Key: o.Default})
		if err != nil {
			t.Errorf("the default of %s: %v", o.Key, err)
			continue
		}
		d.Close()
	}
}
