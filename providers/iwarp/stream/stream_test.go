package stream_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rpcrdma/rpcrdma/providers/iwarp/stream"
	"github.com/rpcrdma/rpcrdma/test/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// networks are what must behave alike.
var networks = map[string]func() stream.Network{
	"TCP":               func() stream.Network { return stream.TCP{NoDelay: true} },
	"TCP, thread":       func() stream.Network { return stream.TCP{NoDelay: true, Thread: true} },
	"TCP, spinning":     func() stream.Network { return stream.TCP{NoDelay: true, Spin: 50 * time.Microsecond} },
	"TCP, both":         func() stream.Network { return stream.TCP{NoDelay: true, Thread: true, Spin: 50 * time.Microsecond} },
	"TCP small buffers": func() stream.Network { return stream.TCP{SendBuf: 4096, RecvBuf: 4096} },
	"memory":            func() stream.Network { return &memory.Network{} },
	"memory with delay": func() stream.Network { return &memory.Network{Delay: time.Millisecond, Buffer: 5000} },
}

// pair is a connected pair of streams, closed with the test.
func pair(t testing.TB, n stream.Network) (a, b stream.Stream) {
	t.Helper()
	l, err := n.Listen(context.Background(), "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = n.Dial(context.Background(), "", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func readv(s stream.Stream, v ...[]byte) (n int, err error) {
	e := s.Read(func() bool { n, err = s.Readv(v); return err != stream.ErrAgain })
	return n, errors.Join(e, err)
}

func writev(s stream.Stream, v ...[]byte) (n int, err error) {
	e := s.Write(func() bool { n, err = s.Writev(v); return err != stream.ErrAgain })
	return n, errors.Join(e, err)
}

func TestStream(t *testing.T) {
	for name, network := range networks {
		t.Run(name, func(t *testing.T) {
			if n, ok := network().(stream.TCP); ok && n.Thread && !stream.Threads {
				t.Skip("threads that wait in the kernel need Linux")
			}
			t.Run("bytes go through in order, by pieces of any number", func(t *testing.T) {
				a, b := pair(t, network())
				sent := make([]byte, 300_000)
				for i := range sent {
					sent[i] = byte(i * 31 >> 4)
				}
				go func() {
					for rest := sent; len(rest) > 0; {
						var v [][]byte
						for off := 0; off < len(rest); off += 100 { // more than the kernel takes
							v = append(v, rest[off:min(off+100, len(rest))], nil)
						}
						n, err := writev(a, v...)
						if err != nil {
							t.Error(err)
							return
						}
						rest = rest[n:]
					}
					a.CloseWrite()
				}()
				var got []byte
				for {
					x, y := make([]byte, 10), make([]byte, 1000)
					n, err := readv(b, x, nil, y)
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						t.Fatal(err)
					}
					got = append(append(got, x[:min(n, 10)]...), y[:max(n-10, 0)]...)
				}
				if !bytes.Equal(got, sent) {
					t.Errorf("%d bytes came, not the %d that were sent", len(got), len(sent))
				}
			})
			t.Run("a deadline ends a wait, and every later one until it is set anew", func(t *testing.T) {
				a, b := pair(t, network())
				go func() {
					time.Sleep(5 * time.Millisecond)
					a.SetReadDeadline(time.Unix(1, 0))
				}()
				for range 2 {
					if _, err := readv(a, make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Fatal(err)
					}
				}
				a.SetReadDeadline(time.Time{})
				if _, err := writev(b, []byte("x")); err != nil {
					t.Fatal(err)
				}
				if n, err := readv(a, make([]byte, 4)); n != 1 || err != nil {
					t.Error(n, err)
				}
				a.SetReadDeadline(time.Now().Add(2 * time.Millisecond))
				if _, err := readv(a, make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error(err)
				}
			})
			t.Run("a full stream does not take more, and says so at once", func(t *testing.T) {
				a, b := pair(t, network())
				for full := false; !full; {
					var err error
					a.Write(func() bool { _, err = a.Writev([][]byte{make([]byte, 1<<20)}); return true })
					if full = err == stream.ErrAgain; err != nil && !full {
						t.Fatal(err)
					}
				}
				a.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
				var err error
				for err == nil { // the kernel may take more from the buffered stream a moment later
					_, err = writev(a, make([]byte, 1<<20))
				}
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error(err)
				}
				_ = b.Reset()
			})
			t.Run("Close ends our own wait", func(t *testing.T) {
				a, _ := pair(t, network())
				go func() {
					time.Sleep(5 * time.Millisecond)
					a.Close()
				}()
				if _, err := readv(a, make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			})
			t.Run("Reset is an error at the peer, Close is not", func(t *testing.T) {
				a, b := pair(t, network())
				_ = a.Reset()
				if _, err := readv(b, make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Error(err)
				}
				a, b = pair(t, network())
				_ = a.Close()
				if _, err := readv(b, make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Error(err)
				}
			})
			t.Run("addresses are each other's", func(t *testing.T) {
				a, b := pair(t, network())
				if a.LocalAddr() != b.RemoteAddr() || a.RemoteAddr() != b.LocalAddr() || !a.LocalAddr().IsValid() {
					t.Error(a.LocalAddr(), a.RemoteAddr(), b.LocalAddr(), b.RemoteAddr())
				}
				if a.MSS() < 256 {
					t.Error("MSS", a.MSS())
				}
			})
		})
	}
}

// What was written before Close arrives, also where the stream holds it itself.
func TestWrittenBeforeClose(t *testing.T) {
	for name, network := range networks {
		t.Run(name, func(t *testing.T) {
			if n, ok := network().(stream.TCP); ok && n.Thread && !stream.Threads {
				t.Skip("threads that wait in the kernel need Linux")
			}
			for _, half := range []bool{false, true} {
				a, b := pair(t, network())
				sent := 0
				a.Write(func() bool { // as much as it takes
					for {
						n, err := a.Writev([][]byte{make([]byte, 50_000)})
						sent += n
						if err == stream.ErrAgain {
							return true
						}
						if err != nil {
							t.Error(err)
							return true
						}
					}
				})
				if half {
					a.CloseWrite()
				} else {
					a.Close()
				}
				got, buf := 0, make([]byte, 100_000)
				for {
					n, err := readv(b, buf)
					got += n
					if err != nil {
						if !errors.Is(err, io.EOF) {
							t.Error(err)
						}
						break
					}
				}
				if got != sent || sent < 4000 {
					t.Errorf("%d bytes came of %d", got, sent)
				}
			}
		})
	}
}

func TestDialNobody(t *testing.T) {
	for name, network := range networks {
		if _, err := network().Dial(t.Context(), "", "127.0.0.1:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
