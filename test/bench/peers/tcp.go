package peers

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"

	"github.com/rpcrdma/rpcrdma/test/bench/load"
)

// Raw TCP: a connection for each caller, a header of 16 bytes {op, length}, no RPC layer,
// no copy that a program could do without. It is what any stack on TCP can reach.
func init() {
	register("tcp", Stack{Serve: serveTCP, Client: func() load.Peer { return new(tcpPeer) },
		About: "raw sockets, one connection a caller: the limit"})
}

const (
	headerLen = 16
	small     = 16 << 10 // up to here one write of header and payload beats a gathering one
)

var opCodes = map[load.Op]uint32{load.Echo: 1, load.Read: 2, load.Write: 3}

var errAnswer = errors.New("the server answers that the payload was wrong")

func putHeader(b []byte, op uint32, n int) {
	binary.LittleEndian.PutUint32(b, op)
	binary.LittleEndian.PutUint64(b[8:], uint64(n))
}

func serveTCP() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveTCPConn(c)
		}
	}()
	return l.Addr().String(), nil
}

// serveTCPConn answers one connection until it ends. The client waits for each
// answer, so at most one request lies in the buffer.
func serveTCPConn(c net.Conn) {
	defer c.Close()
	in, out := make([]byte, 64<<10), make([]byte, 64<<10)
	var sink []byte
	have := 0
	fill := func(n int) error {
		for have < n {
			k, err := c.Read(in[have:])
			if err != nil {
				return err
			}
			have += k
		}
		return nil
	}
	for {
		if fill(headerLen) != nil {
			return
		}
		op, n := binary.LittleEndian.Uint32(in), int(binary.LittleEndian.Uint64(in[8:]))
		var err error
		switch op {
		case opCodes[load.Echo]:
			if fill(headerLen+n) != nil {
				return
			}
			have = 0
			_, err = c.Write(out[:copy(out, in[:headerLen+n])])
		case opCodes[load.Read]:
			have = 0
			putHeader(out, op, n)
			if n <= small {
				copy(out[headerLen:], load.Pattern(n))
				_, err = c.Write(out[:headerLen+n])
			} else {
				v := net.Buffers{out[:headerLen], load.Pattern(n)}
				_, err = v.WriteTo(c)
			}
		case opCodes[load.Write]:
			sink = load.Memory(sink, n)
			k := copy(sink[:n], in[headerLen:have])
			have = 0
			if _, err = io.ReadFull(c, sink[k:n]); err != nil {
				return
			}
			if load.Check(sink[:n], n) != nil {
				n = -1
			}
			putHeader(out, op, n)
			_, err = c.Write(out[:headerLen])
		default:
			return
		}
		if err != nil {
			return
		}
	}
}

type tcpCaller struct {
	net.Conn
	buf []byte // headers and small payloads
	mem []byte // where the caller wants its data
}

type tcpPeer struct {
	addr    string
	callers [load.MaxCallers]*tcpCaller
	idle    []net.Conn
}

func (p *tcpPeer) Connect(_ context.Context, addr string) error {
	p.addr = addr
	return nil
}

func (p *tcpPeer) Close() error {
	for _, c := range p.callers {
		if c != nil {
			c.Conn.Close()
		}
	}
	for _, c := range p.idle {
		c.Close()
	}
	return nil
}

// Idle keeps connections that have carried a call of no bytes.
func (p *tcpPeer) Idle(ctx context.Context, n int) error {
	for range n {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", p.addr)
		if err != nil {
			return err
		}
		p.idle = append(p.idle, c)
		var header [headerLen]byte
		putHeader(header[:], opCodes[load.Echo], 0)
		if _, err := c.Write(header[:]); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, header[:]); err != nil {
			return err
		}
	}
	return nil
}

func (p *tcpPeer) Do(ctx context.Context, op load.Op, w, n int) error {
	c := p.callers[w]
	if c == nil {
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", p.addr)
		if err != nil {
			return err
		}
		c = &tcpCaller{Conn: nc, buf: make([]byte, 64<<10)}
		p.callers[w] = c
	}
	putHeader(c.buf, opCodes[op], n)
	switch op {
	case load.Echo:
		copy(c.buf[headerLen:], load.Pattern(n))
		if _, err := c.Write(c.buf[:headerLen+n]); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, c.buf[:headerLen+n]); err != nil {
			return err
		}
		return load.Check(c.buf[headerLen:headerLen+n], n)
	case load.Read:
		return c.read(n)
	default:
		v := net.Buffers{c.buf[:headerLen], load.Pattern(n)}
		if _, err := v.WriteTo(c.Conn); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, c.buf[:headerLen]); err != nil {
			return err
		}
		if binary.LittleEndian.Uint64(c.buf[8:]) != uint64(n) {
			return errAnswer
		}
		return nil
	}
}

func (c *tcpCaller) read(n int) error {
	c.mem = load.Memory(c.mem, n)
	if _, err := c.Write(c.buf[:headerLen]); err != nil {
		return err
	}
	if n <= small {
		if _, err := io.ReadFull(c, c.buf[:headerLen+n]); err != nil {
			return err
		}
		copy(c.mem, c.buf[headerLen:headerLen+n])
		return load.Check(c.mem[:n], n)
	}
	if _, err := io.ReadFull(c, c.buf[:headerLen]); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, c.mem[:n]); err != nil {
		return err
	}
	return load.Check(c.mem[:n], n)
}
