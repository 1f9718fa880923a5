package capture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Packet is a link-layer frame of a capture.
type Packet struct {
	Number int // from 1, as Wireshark counts
	Time   time.Time
	Link   uint32 // LINKTYPE
	Data   []byte // valid until the next
	Whole  bool   // nothing was cut off when it was captured
}

// maxPacket bounds one block of a file; a longer one is no capture of a network.
const maxPacket = 1 << 20

// ErrFormat is a file that is neither pcap nor pcapng, or that breaks off.
var ErrFormat = errors.New("no pcap or pcapng file")

// Reader reads pcap and pcapng files of either byte order.
type Reader struct {
	r     *bufio.Reader
	order binary.ByteOrder
	n     int
	buf   []byte
	ng    bool

	link uint32   // pcap
	unit uint64   // pcap: ticks of the fraction per second
	ifs  []ngFace // pcapng, of this section
}

type ngFace struct {
	link uint32
	unit uint64 // ticks per second
}

// NewReader reads the head of a file.
func NewReader(r io.Reader) (*Reader, error) {
	d := &Reader{r: bufio.NewReaderSize(r, 1<<16)}
	magic, err := d.r.Peek(4)
	switch {
	case err == io.EOF:
		return nil, fmt.Errorf("%w: %d bytes", ErrFormat, len(magic))
	case err != nil:
		return nil, err
	}
	switch le, be := binary.LittleEndian.Uint32(magic), binary.BigEndian.Uint32(magic); {
	case le == blockSection:
		d.ng = true
		return d, nil
	case le == 0xa1b2c3d4, le == 0xa1b23c4d:
		d.order, d.unit = binary.LittleEndian, 1_000_000
		if le == 0xa1b23c4d {
			d.unit = 1_000_000_000
		}
	case be == 0xa1b2c3d4, be == 0xa1b23c4d:
		d.order, d.unit = binary.BigEndian, 1_000_000
		if be == 0xa1b23c4d {
			d.unit = 1_000_000_000
		}
	default:
		return nil, fmt.Errorf("%w: it begins with %x", ErrFormat, magic)
	}
	head, err := d.take(24)
	if err != nil {
		return nil, err
	}
	d.link = d.order.Uint32(head[20:]) & 0x0fffffff // the rest tells of a frame check sequence
	return d, nil
}

func (d *Reader) take(n int) ([]byte, error) {
	if n > maxPacket {
		return nil, fmt.Errorf("%w: a block of %d bytes", ErrFormat, n)
	}
	if n > cap(d.buf) {
		d.buf = make([]byte, max(n, 1<<16))
	}
	b := d.buf[:n]
	k, err := io.ReadFull(d.r, b)
	if k > 0 && err != nil {
		return nil, fmt.Errorf("%w: it breaks off in packet %d", ErrFormat, d.n+1)
	}
	return b, err
}

// Next is the next packet; io.EOF after the last.
func (d *Reader) Next() (Packet, error) {
	if d.ng {
		return d.nextBlock()
	}
	h, err := d.take(16)
	if err != nil {
		return Packet{}, err
	}
	sec, frac, n, orig := d.order.Uint32(h), d.order.Uint32(h[4:]), d.order.Uint32(h[8:]), d.order.Uint32(h[12:])
	data, err := d.take(int(n))
	if errors.Is(err, io.EOF) && n > 0 {
		err = fmt.Errorf("%w: it breaks off in packet %d", ErrFormat, d.n+1)
	}
	if err != nil && n > 0 {
		return Packet{}, err
	}
	d.n++
	return Packet{d.n, time.Unix(int64(sec), int64(uint64(frac)*(1_000_000_000/d.unit))), d.link, data, n >= orig}, nil
}

func (d *Reader) nextBlock() (Packet, error) {
	for {
		h, err := d.take(8)
		if err != nil {
			return Packet{}, err
		}
		if binary.LittleEndian.Uint32(h) == blockSection { // the same in both orders
			mark, err := d.r.Peek(4)
			if err != nil {
				return Packet{}, fmt.Errorf("%w: it breaks off in a section's head", ErrFormat)
			}
			d.order, d.ifs = binary.LittleEndian, nil
			if binary.BigEndian.Uint32(mark) == byteOrder {
				d.order = binary.BigEndian
			}
		}
		kind, n := d.order.Uint32(h), int64(d.order.Uint32(h[4:]))
		if n < 12 || n%4 != 0 || n > maxPacket {
			return Packet{}, fmt.Errorf("%w: a block of %d bytes", ErrFormat, n)
		}
		b, err := d.take(int(n) - 8)
		if err != nil {
			return Packet{}, fmt.Errorf("%w: it breaks off behind packet %d", ErrFormat, d.n)
		}
		b = b[:len(b)-4]
		switch {
		case kind == blockInterface && len(b) >= 8:
			d.ifs = append(d.ifs, ngFace{uint32(d.order.Uint16(b)), d.resolution(b[8:])})
		case kind == blockPacket && len(b) >= 20:
			return d.enhanced(b)
		case kind == blockSimple && len(b) >= 4:
			if len(d.ifs) == 0 {
				return Packet{}, fmt.Errorf("%w: a packet of no interface", ErrFormat)
			}
			orig := int(d.order.Uint32(b))
			d.n++
			return Packet{d.n, time.Time{}, d.ifs[0].link, b[4 : 4+min(orig, len(b)-4)], orig <= len(b)-4}, nil
		}
	}
}

func (d *Reader) enhanced(b []byte) (Packet, error) {
	at := uint64(d.order.Uint32(b[4:]))<<32 | uint64(d.order.Uint32(b[8:]))
	n, orig := int64(d.order.Uint32(b[12:])), int64(d.order.Uint32(b[16:]))
	i := int64(d.order.Uint32(b))
	if i >= int64(len(d.ifs)) || n > int64(len(b)-20) {
		return Packet{}, fmt.Errorf("%w: packet %d names interface %d and %d bytes", ErrFormat, d.n+1, i, n)
	}
	f := d.ifs[i]
	d.n++
	sec, rest := at/f.unit, at%f.unit
	return Packet{d.n, time.Unix(int64(sec), int64(float64(rest)/float64(f.unit)*1e9)), f.link, b[20 : 20+n], n >= orig}, nil
}

// resolution is the ticks per second that an interface's options tell.
func (d *Reader) resolution(b []byte) uint64 {
	for len(b) >= 4 {
		code, n := d.order.Uint16(b), int(d.order.Uint16(b[2:]))
		if b = b[4:]; code == optionEnd || n > len(b) {
			break
		}
		if code == optionTSRes && n == 1 {
			unit := uint64(1)
			for range b[0] & 0x7f {
				if b[0]&0x80 != 0 {
					unit *= 2
				} else {
					unit *= 10
				}
			}
			return max(unit, 1) // a power beyond 64 bits makes no times
		}
		b = b[min((n+3)&^3, len(b)):]
	}
	return 1_000_000
}
