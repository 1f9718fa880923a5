package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rpcrdma/rpcrdma/cli/capture"
	"github.com/rpcrdma/rpcrdma/core/verbs"
)

// The rule for captures: tshark complains of nothing but what it complains of between two kernels
// (the case kernel-to-kernel counts that), and each complaint is put down to one of these.
const (
	// READ's data travels by RDMA Write; tshark does not put it back into the reply that it then misses it in.
	readReply = "READ replies whose data travelled by Write chunk"
	// tshark 4.0 loses its way in a TCP stream when an FPDU lies across two segments, and when a bridge
	// shows segments in another order than they were sent in. So each capture is judged a second time with the same
	// FPDUs, one a segment: there only the first is left.
	split = "frames after an FPDU that lies across segments, or after segments out of order"
	// It remembers MPA by pair of ports, and takes the set-up of a later connection with the same pair for FPDUs.
	reused = "set-ups of connections whose pair of ports had another before"
)

// fieldNames are what is asked of tshark, in this order.
var fieldNames = []string{"frame.number", "ip.src", "ipv6.src", "tcp.srcport", "tcp.dstport", "tcp.seq", "rpcordma.xid", "rpcordma.version", "rpcordma.flow_control", "rpcordma.msg_type",
	"rpcordma.reads_count", "rpcordma.writes_count", "rpcordma.reply_count", "rpcordma.rdma_handle", "rpcordma.rdma_length", "rpcordma.rdma_offset", "rpcordma.position",
	"nfs.procedure_v3", "_ws.malformed", "_ws.expert.message", "_ws.expert.severity"}

// sharkFrame is one packet as tshark sees it.
type sharkFrame struct {
	number int
	fields map[string][]string
}

func (f *sharkFrame) first(name string) string {
	if v := f.fields[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// tshark reads the frames that hold RPC-over-RDMA, or that tshark finds fault with. Ports are chosen by
// the system, and tshark takes some for another protocol's: so it is told to look at contents first.
func tshark(file string) (frames []sharkFrame, err error) {
	args := []string{"-n", "-r", file, "-o", "tcp.try_heuristic_first:TRUE", "-d", "tcp.port==20048,rpc",
		"-Y", "rpcordma || _ws.malformed || _ws.expert.severity >= 0x600000", "-T", "fields", "-E", "occurrence=a", "-E", "separator=\t", "-E", "aggregator=|"}
	for _, n := range fieldNames {
		args = append(args, "-e", n)
	}
	c := exec.Command("tshark", args...)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("tshark: %w: %s", err, errs.String())
	}
	for line := range strings.Lines(string(out)) {
		cols := strings.Split(strings.TrimRight(line, "\n"), "\t")
		f := sharkFrame{fields: map[string][]string{}}
		for i, n := range fieldNames {
			if i < len(cols) && cols[i] != "" {
				f.fields[n] = strings.Split(cols[i], "|")
			}
		}
		f.number, _ = strconv.Atoi(f.first("frame.number"))
		frames = append(frames, f)
	}
	return frames, nil
}

// verdict is what a capture's judgement found.
type verdict struct {
	headers   int // version 1 headers that both decoders show alike
	explained map[string]int
	other     []string // complaints without an explanation
	totals    decoded
}

// decoded is what rpcrdma decode shows of a capture.
type decoded struct {
	headers  map[string]int // version 1, by text of all fields
	versions map[uint32]int
	setUps   []setUp
	sends    []send
	problems []string
	reads    int
}

type setUp struct {
	Reply    bool   `json:"reply"`
	Rejected bool   `json:"rejected"`
	IRD      int    `json:"ird"`
	ORD      int    `json:"ord"`
	Private  bool   `json:"private_data"`
	R        bool   `json:"remote_invalidate"`
	SendSize int    `json:"send_size"`
	RecvSize int    `json:"receive_size"`
	From     string `json:"-"`
}

type send struct {
	conn        int
	from, op    string
	length      int
	invalidates string
	header      header
	program     int
}

type header struct {
	XID    string  `json:"rdma_xid"`
	Vers   uint32  `json:"rdma_vers"`
	Credit uint32  `json:"rdma_credit"`
	Proc   string  `json:"rdma_proc"`
	Err    string  `json:"rdma_err"`
	Reads  []rseg  `json:"rdma_reads"`
	Writes [][]seg `json:"rdma_writes"`
	Reply  *[]seg  `json:"rdma_reply"`
}

type seg struct {
	Handle string `json:"handle"`
	Length uint32 `json:"length"`
	Offset string `json:"offset"`
}

type rseg struct {
	Position uint32 `json:"position"`
	seg
}

// ours runs rpcrdma decode on a capture.
func (l *lab) decode(file string) (*decoded, error) {
	c := exec.Command(filepath.Join(l.bin, "rpcrdma"), "decode", "--json", file)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("rpcrdma decode: %w: %s", err, errs.String())
	}
	d := &decoded{headers: map[string]int{}, versions: map[uint32]int{}}
	for line := range bytes.Lines(out) {
		var e struct {
			Connection  int
			From        string
			MPA         *setUp `json:"mpa"`
			Op          string
			Length      int
			Invalidates string
			Refused     string
			Problem     string
			Message     *struct {
				Header header
				RPC    *struct{ Program int }
			}
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("rpcrdma decode prints %s: %w", line, err)
		}
		switch {
		case e.MPA != nil:
			e.MPA.From = e.From
			d.setUps = append(d.setUps, *e.MPA)
		case e.Refused != "":
			d.problems = append(d.problems, e.Refused)
		case e.Message != nil:
			n := send{e.Connection, e.From, e.Op, e.Length, e.Invalidates, e.Message.Header, 0}
			if e.Message.RPC != nil {
				n.program = e.Message.RPC.Program
			}
			d.sends = append(d.sends, n)
			d.versions[n.header.Vers]++
			if n.header.Vers == 1 {
				d.headers[n.header.text(e.From)]++
			}
		case e.Op == "Read Request":
			d.reads++
		case e.Problem != "":
			d.problems = append(d.problems, e.Op+" "+e.Problem)
		}
	}
	return d, nil
}

var procNumbers = map[string]string{"RDMA_MSG": "0", "RDMA_NOMSG": "1", "RDMA_MSGP": "2", "RDMA_DONE": "3", "RDMA_ERROR": "4"}

// text puts all fields of a version 1 header in a row, as sharkText does.
func (h *header) text(from string) string {
	var positions, handles, lengths, offsets []string
	add := func(s seg) {
		handles, lengths, offsets = append(handles, s.Handle), append(lengths, fmt.Sprint(s.Length)), append(offsets, s.Offset)
	}
	for _, r := range h.Reads {
		positions = append(positions, fmt.Sprint(r.Position))
		add(r.seg)
	}
	for _, w := range h.Writes {
		for _, s := range w {
			add(s)
		}
	}
	reply := 0
	if h.Reply != nil {
		reply = 1
		for _, s := range *h.Reply {
			add(s)
		}
	}
	writes := len(h.Writes)
	return line(from, h.XID, "1", fmt.Sprint(h.Credit), procNumbers[h.Proc], fmt.Sprint(len(h.Reads)), fmt.Sprint(writes), fmt.Sprint(reply), positions, handles, lengths, offsets)
}

func line(from, xid, vers, credit, proc, reads, writes, reply string, positions, handles, lengths, offsets []string) string {
	if proc == "4" {
		reads, writes, reply = "", "", ""
	}
	return fmt.Sprintf("%s xid %s vers %s credit %s proc %s reads %s writes %s reply %s positions %v handles %v lengths %v offsets %v",
		from, num(xid), vers, credit, proc, reads, writes, reply, positions, nums(handles), lengths, nums(offsets))
}

// num makes of a hexadecimal or decimal number a decimal one.
func num(s string) string {
	if n, err := strconv.ParseUint(s, 0, 64); err == nil {
		return strconv.FormatUint(n, 10)
	}
	return s
}

func nums(l []string) (n []string) {
	for _, s := range l {
		n = append(n, num(s))
	}
	return n
}

// header is the frame's header as text, "" if there is none.
func (f *sharkFrame) header() string {
	if f.first("rpcordma.xid") == "" {
		return ""
	}
	src := f.first("ip.src")
	if six := f.first("ipv6.src"); six != "" {
		src = "[" + six + "]"
	}
	return line(src+":"+f.first("tcp.srcport"), f.first("rpcordma.xid"), f.first("rpcordma.version"), f.first("rpcordma.flow_control"), f.first("rpcordma.msg_type"),
		f.first("rpcordma.reads_count"), f.first("rpcordma.writes_count"), f.first("rpcordma.reply_count"),
		f.fields["rpcordma.position"], f.fields["rpcordma.rdma_handle"], f.fields["rpcordma.rdma_length"], f.fields["rpcordma.rdma_offset"])
}

// judge applies the rule, and compares tshark's reading of version 1 with ours.
func (t *T) judge(file string) {
	v, err := t.judgement(file)
	t.check(err)
	t.note("capture: %d version 1 headers alike in tshark and rpcrdma decode; explained: %v; connections %d, versions %v, problems %v",
		v.headers, v.explained, len(v.totals.setUps)/2, v.totals.versions, v.totals.problems)
	if len(v.other) > 0 {
		t.fatal("%d complaints without an explanation:\n%s", len(v.other), strings.Join(v.other[:min(8, len(v.other))], "\n"))
	}
	if len(v.totals.problems) > 0 && !t.c.faulty {
		t.fatal("rpcrdma decode: %s", strings.Join(v.totals.problems[:min(8, len(v.totals.problems))], "\n"))
	}
	for _, u := range v.totals.setUps {
		if !u.Private || u.SendSize != 4096 || u.RecvSize != 4096 {
			t.fatal("private data of %s: %+v", u.From, u)
		}
	}
	for _, s := range v.totals.sends {
		if s.length > 4096 {
			t.fatal("a Send of %d bytes from %s: more than was agreed", s.length, s.from)
		}
	}
	if t.c.after != nil {
		t.c.after(t, &v.totals)
	}
}

func (l *lab) judgement(file string) (*verdict, error) {
	d, err := l.decode(file)
	if err != nil {
		return nil, err
	}
	v := &verdict{explained: map[string]int{}, totals: *d}
	whole, lost, err := align(file)
	if err != nil {
		return nil, err
	}
	if err := v.raw(file, lost); err != nil {
		return nil, err
	}
	return v, v.aligned(whole)
}

// raw judges the packets as they were captured. lost is, by pair of ports, the first packet after which
// tshark cannot follow.
func (v *verdict) raw(file string, lost map[string]int) error {
	frames, err := tshark(file)
	known := map[string]bool{}
	for _, f := range frames {
		pair := f.first("tcp.srcport") + " " + f.first("tcp.dstport")
		if known[pair] && f.complaint() && f.first("tcp.seq") == "1" {
			v.explained[reused]++
			continue
		}
		known[pair] = true
		if at, ok := lost[pair]; ok && f.number >= at {
			if f.complaint() {
				v.explained[split]++
			}
			continue
		}
		v.explain(&f, "")
	}
	return err
}

// explain puts a complaint down to READ, or among those that nothing explains.
func (v *verdict) explain(f *sharkFrame, where string) {
	switch {
	case !f.complaint():
	case slices.Contains(f.fields["nfs.procedure_v3"], "6") && len(f.fields["rpcordma.xid"]) > 0:
		v.explained[readReply+where]++
	default:
		v.other = append(v.other, fmt.Sprintf("packet %d%s: %s", f.number, where, strings.Join(append(f.fields["_ws.expert.message"], f.fields["_ws.malformed"]...), "; ")))
	}
}

// aligned judges the same frames, each in a segment of its own: tshark must show what
// rpcrdma decode does, header by header and field by field.
func (v *verdict) aligned(files []string) error {
	const where = ", one FPDU a segment"
	left := map[string]int{}
	for k, n := range v.totals.headers {
		left[k] = n
	}
	for _, file := range files {
		frames, err := tshark(file)
		if err != nil {
			return err
		}
		for _, f := range frames {
			v.explain(&f, where)
			text := f.header()
			switch {
			case text == "":
			case left[text] > 0:
				left[text]--
				v.headers++
			case f.first("rpcordma.version") == "1":
				v.other = append(v.other, fmt.Sprintf("packet %d%s: only tshark shows %s", f.number, where, text))
			}
		}
		_ = os.Remove(file)
	}
	for k, n := range left {
		if n > 0 {
			v.other = append(v.other, fmt.Sprintf("%d times only rpcrdma decode shows %s", n, k))
		}
	}
	return nil
}

// complaint tells whether tshark finds fault; what is less than an error is a note on a connection's ordinary life.
func (f *sharkFrame) complaint() bool {
	return f.first("_ws.malformed") != "" || slices.ContainsFunc(f.fields["_ws.expert.severity"], func(s string) bool {
		n, _ := strconv.ParseUint(s, 0, 32)
		return n >= 0x800000
	})
}

// align writes the MPA frames of a capture, each in a segment of its own, to files beside it: one, or more where
// a pair of ports is used again. lost is as raw wants it.
func align(name string) (files []string, lost map[string]int, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	r, err := capture.NewReader(f)
	if err != nil {
		return nil, nil, err
	}
	lost = map[string]int{}
	var outs []*capture.File
	used := map[string]int{} // connections by pair of ports
	place := map[int]int{}   // connection to file
	find := capture.NewFinder(func(capture.Event) {})
	find.Frame = func(e capture.Event, b []byte, begun int) {
		key := fmt.Sprint(e.From.Port(), " ", e.To.Port())
		if at, ok := lost[key]; begun != e.Packet && (!ok || begun < at) {
			lost[key] = begun
		}
		i, ok := place[e.Conn]
		if !ok {
			pair := fmt.Sprint(e.From, e.To)
			i = used[pair]
			used[pair]++
			place[e.Conn] = i
			if i == len(outs) {
				file := fmt.Sprintf("%s.aligned-%d.pcapng", name, i)
				o, cerr := capture.Create(file)
				if cerr != nil {
					err = cerr
					return
				}
				files, outs = append(files, file), append(outs, o)
			}
		}
		local, remote := e.From, e.To
		if !e.Asked {
			local, remote = remote, local
		}
		outs[i].Frame(verbs.Frame{Link: verbs.LinkTCP, Local: unmapped(local), Remote: unmapped(remote), Sent: e.Asked, Parts: [][]byte{b}})
	}
	for err == nil {
		var p capture.Packet
		if p, err = r.Next(); err == nil {
			find.Packet(p)
		}
	}
	if err == io.EOF {
		err = nil
	}
	for _, o := range outs {
		if cerr := o.Close(); err == nil {
			err = cerr
		}
	}
	return files, lost, err
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
