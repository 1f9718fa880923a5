package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/rpcrdma/rpcrdma/core/obs"
)

// Report is the outcome, as --json prints it.
type Report struct {
	OK      bool    `json:"ok"`
	Listen  string  `json:"listen"`
	Tree    string  `json:"tree,omitempty"` // "": made from the seed
	Seed    uint64  `json:"seed,omitempty"`
	Kept    string  `json:"kept,omitempty"` // where the trees were left
	Seconds float64 `json:"seconds"`
	Passes  []Pass  `json:"passes"`
	// Extended is what was shown of extensions.
	Extended *Extended `json:"extensions,omitempty"`
}

// Pass is one tree moved there and back by one version.
type Pass struct {
	Name         string   `json:"name"`
	Version      uint32   `json:"rpcrdma_version"`
	Files        int      `json:"files"`
	Links        int      `json:"links"`
	Dirs         int      `json:"dirs"`
	Bytes        int64    `json:"bytes"`
	ListSeconds  float64  `json:"list_seconds"`
	ReadSeconds  float64  `json:"read_seconds"`
	WriteSeconds float64  `json:"write_seconds"`
	Echoes       int      `json:"echoes"`
	Credits      uint64   `json:"credits"`
	Client       Counters `json:"client"`
	Server       Counters `json:"server"`
	Checks       []Check  `json:"checks"`
}

// Counters are a side's totals; in JSON in lower case, with underscores.
type Counters obs.Counters

// MarshalJSON gives the counters the names of their fields.
func (c Counters) MarshalJSON() ([]byte, error) {
	m := map[string]uint64{}
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		m[snake(v.Type().Field(i).Name)] = v.Field(i).Uint()
	}
	return json.Marshal(m)
}

// snake turns ReadBytes into read_bytes.
func snake(s string) string {
	var b strings.Builder
	for i, r := range s {
		if unicode.IsUpper(r) {
			if i > 0 {
				b.WriteByte('_')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Check is one thing that was said and looked at.
type Check struct {
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"` // why not
}

func newCheck(what string, ok bool, format string, args ...any) Check {
	c := Check{What: what, OK: ok}
	if !ok {
		c.Detail = fmt.Sprintf(format, args...)
	}
	return c
}

// allHeld tells whether there are checks and none has failed.
func allHeld(checks []Check) bool {
	return len(checks) > 0 && !slices.ContainsFunc(checks, func(c Check) bool { return !c.OK })
}

func (p *Pass) check(what string, ok bool, format string, args ...any) {
	p.Checks = append(p.Checks, newCheck(what, ok, format, args...))
}

// judge holds what came out against what was said.
func (p *Pass) judge(pl plan, source, received, stored Digest) {
	p.check(fmt.Sprintf("version %d settled", pl.want), p.Version == pl.want, "version %d was", p.Version)
	diff := source.Diff(received)
	p.check("the client received what the source holds (SHA-256)", diff == nil, "%v", diff)
	diff = source.Diff(stored)
	p.check("the server stored what the source holds (SHA-256)", diff == nil, "%v", diff)

	// READs whose replies fit inline as a whole come inline; the rest by RDMA Write. All data of
	// WRITE and all targets of SYMLINK went by RDMA Read, but for items of one byte.
	data, big, one := moves(source, pl.inline)
	s, c := &p.Server, &p.Client
	if pl.echo {
		p.check("4 echoes answered", p.Echoes == 4, "%d were", p.Echoes)
		p.check("a backward call went to the client and was answered", c.BackCallsRecv == 1 && c.BackRepliesSent == 1 && s.BackRepliesRecv == 1,
			"client %d calls, %d replies; server %d replies", c.BackCallsRecv, c.BackRepliesSent, s.BackRepliesRecv)
		p.check("2 Long Calls and 2 Long Replies at least", c.Long+c.LongMore >= 4, "%d long messages", c.Long+c.LongMore)
	}
	p.check("what was read and is not small came by RDMA Write", s.WriteBytes >= big, "%d of %d bytes did", s.WriteBytes, big)
	p.check("every byte written went by RDMA Read", s.ReadBytes+one >= data, "%d of %d bytes did", s.ReadBytes, data)
	p.check("Read, Write and Reply chunks were used", (c.ReadChunks > 0 || data == one) && (c.WriteChunks > 0 || big == 0) && (c.ReplyChunks > 0 || !pl.echo),
		"%d, %d and %d", c.ReadChunks, c.WriteChunks, c.ReplyChunks)
	p.check("every call got one reply", c.CallsSent == c.RepliesRecv && s.CallsRecv == s.RepliesSent,
		"client %d calls, %d replies; server %d calls, %d replies", c.CallsSent, c.RepliesRecv, s.CallsRecv, s.RepliesSent)
	p.check("credits were granted", p.Credits > 0, "none")
	bad := s.ErrorsSent + s.ErrorsRecv + s.Dropped + s.ZeroCredit + s.BadInvalidate + c.ErrorsSent + c.ErrorsRecv + c.Dropped + c.ZeroCredit + c.BadInvalidate
	p.check("no transport errors, nothing dropped", bad == 0, "client %s; server %s", faults(c), faults(s))
}

// moves is how many bytes a tree's files and links come to; how many of these are in files too
// large to be inline; and how many items have one byte.
func moves(d Digest, inline int) (data, big, one uint64) {
	for _, e := range d {
		n := uint64(e.Size)
		if e.Kind == "link" {
			n = uint64(len(e.Sum))
		}
		if data += n; n == 1 {
			one++
		}
		if e.Kind == "file" && n > uint64(inline) {
			big += n
		}
	}
	return data, big, one
}

func faults(c *Counters) string {
	return fmt.Sprintf("errors sent %d received %d, dropped %d, zero credits %d, bad invalidations %d", c.ErrorsSent, c.ErrorsRecv, c.Dropped, c.ZeroCredit, c.BadInvalidate)
}

// Print is the outcome for people. Messages and chunks are those of the client, which sees both
// directions; bytes moved are those of the server, which moves them.
func (r *Report) Print(w io.Writer) {
	fmt.Fprintf(w, "Two processes over %s: listed, read, written back, compared by SHA-256.\n\n", scheme(r.Listen))
	row := func(cells ...any) { fmt.Fprintf(w, "%-8s%-13s%7v%8v%12s%22s%22s  %s\n", cells...) }
	row("version", "tree", "files", "others", "size", "read", "written", "")
	for i := range r.Passes {
		p := &r.Passes[i]
		held := "all checks held"
		if !allHeld(p.Checks) {
			held = "FAILED"
		}
		row(fmt.Sprint(p.Version), p.Name, p.Files, p.Links+p.Dirs, bytesText(uint64(p.Bytes)), rate(p.Bytes, p.ReadSeconds), rate(p.Bytes, p.WriteSeconds), held)
	}
	row = func(cells ...any) { fmt.Fprintf(w, "%-8s%8v%9v%7v%13s%12s%12s%8v%7v%7v%9v\n", cells...) }
	fmt.Fprintf(w, "\n%-8s%24s%37s%22s\n", "", "messages ", "bytes ", "chunks ")
	row("version", "inline", "chunked", "long", "inline", "RDMA Read", "RDMA Write", "Read", "Write", "Reply", "credits")
	for i := range r.Passes {
		p := &r.Passes[i]
		s, c := &p.Server, &p.Client
		row(fmt.Sprint(p.Version), c.Inline, c.Chunked, c.Long+c.LongMore, bytesText(c.InlineBytes), bytesText(s.ReadBytes), bytesText(s.WriteBytes),
			c.ReadChunks, c.WriteChunks, c.ReplyChunks, p.Credits)
	}
	fmt.Fprintln(w)
	n := 0
	for i := range r.Passes {
		for _, c := range r.Passes[i].Checks {
			if n++; !c.OK {
				fmt.Fprintf(w, "FAILED pass %d, %s: %s: %s\n", i+1, r.Passes[i].Name, c.What, c.Detail)
			}
		}
	}
	if x := r.Extended; x != nil {
		x.print(w)
		for _, c := range x.Checks {
			if n++; !c.OK {
				fmt.Fprintf(w, "FAILED extensions: %s: %s\n", c.What, c.Detail)
			}
		}
	}
	if r.Kept != "" {
		fmt.Fprintf(w, "kept in %s\n", r.Kept)
	}
	if r.OK {
		fmt.Fprintf(w, "ok: %d checks held, %.1f s\n", n, r.Seconds)
	}
}

// print tells what was exchanged, asked and killed.
func (x *Extended) print(w io.Writer) {
	c := &x.Client
	var answers []string
	for _, a := range append(slices.Clone(c.Asked), c.Larger...) {
		answers = append(answers, a.What+": "+a.Answer)
	}
	fmt.Fprintf(w, "properties  the server's: %s\n", strings.Join(c.Server, ", "))
	fmt.Fprintf(w, "            the client's: %s\n", strings.Join(c.Client, ", "))
	fmt.Fprintf(w, "request     %s\n", strings.Join(answers, ", "))
	fmt.Fprintf(w, "update      receives of %d bytes, then %d; %d calls meanwhile, %d failed\n", c.Before, c.After, c.Raise.Made, c.Raise.Failed)
	fmt.Fprintf(w, "plugin      %s, process %d killed, then %d; %d calls meanwhile, %d failed\n\n", x.Plugin, x.Killed, x.Next, c.Kill.Made, c.Kill.Failed)
}

func scheme(url string) string {
	s, _, _ := strings.Cut(url, "://")
	return s
}

func bytesText(n uint64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

func rate(n int64, seconds float64) string {
	return fmt.Sprintf("%.2f s, %.0f MiB/s", seconds, float64(n)/(1<<20)/max(seconds, 1e-9))
}
