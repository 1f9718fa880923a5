package wire

import (
	"fmt"
	"strings"
)

// String is the header in one line, with the field names of the XDR.
func (h *Header) String() string { return h.Text(nil) }

// Names are what numbers stand for that extensions have given to their operations and properties.
type Names struct {
	Options, Properties map[uint32]string
}

func (n *Names) option(t uint32) string {
	if n == nil {
		return numbered(t, "")
	}
	return numbered(t, n.Options[t])
}

func (n *Names) property(id uint32) string {
	if n == nil {
		return numbered(id, "")
	}
	return numbered(id, n.Properties[id])
}

// numbered is a number, and its name beside it if it has one.
func numbered(n uint32, name string) string {
	if name == "" {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d (%s)", n, name)
}

// Text is String with names beside the numbers; nil: there are none.
func (h *Header) Text(names *Names) string {
	var b strings.Builder
	fmt.Fprintf(&b, "xid 0x%08x vers %d credit %d %v", h.XID, h.Version, h.Credit, h.Proc)
	v2 := h.Version == Version2
	switch h.Proc {
	case MsgP:
		fmt.Fprintf(&b, " align %d thresh %d%v", h.Align, h.Thresh, &h.Lists)
	case Msg, NoMsg:
		if v2 {
			fmt.Fprintf(&b, " %v", h.Direction)
			if h.InvHandle != 0 {
				fmt.Fprintf(&b, " inv_handle 0x%08x", h.InvHandle)
			}
		}
		b.WriteString(h.Lists.String())
	case ErrorMsg:
		fmt.Fprintf(&b, " %s", h.Err.Text(h.Version))
	case Optional:
		fmt.Fprintf(&b, " %v opttype %s optinfo %d bytes", h.Direction, names.option(h.OptType), len(h.OptInfo))
	case ConnProp:
		fmt.Fprintf(&b, " start %v nochg %v", props{h.Props, names}, h.NoChange)
	case ReqProp:
		fmt.Fprintf(&b, " want %v", props{h.Props, names})
	case RespProp:
		fmt.Fprintf(&b, " done %v rejected %v other %v", h.DoneSet, h.Rejected, props{h.Props, names})
	case UpdProp:
		fmt.Fprintf(&b, " now %v", props{h.Props, names})
	}
	return b.String()
}

// String is a list of chunks: " reads {position: segments} writes [segments] reply
// [segments]", lists that are not present left out.
func (l *Lists) String() string {
	var b strings.Builder
	for i, s := range l.Reads {
		switch {
		case i == 0:
			fmt.Fprintf(&b, " reads {%d:", s.Position)
		case s.Position != l.Reads[i-1].Position:
			fmt.Fprintf(&b, ", %d:", s.Position)
		}
		fmt.Fprintf(&b, " %v", s.Segment)
	}
	if len(l.Reads) > 0 {
		b.WriteByte('}')
	}
	for i, c := range l.Writes {
		if i == 0 {
			b.WriteString(" writes")
		}
		fmt.Fprintf(&b, " %v", []Segment(c))
	}
	if l.HasReply {
		fmt.Fprintf(&b, " reply %v", []Segment(l.Reply))
	}
	return b.String()
}

// String is length@handle:offset.
func (s Segment) String() string {
	return fmt.Sprintf("%d@0x%08x:0x%x", s.Length, s.Handle, s.Offset)
}

// String lists the positions in the subset.
func (s Subset) String() string {
	in := []int{}
	for i := range len(s) * 32 {
		if s.Has(i) {
			in = append(in, i)
		}
	}
	return fmt.Sprint(in)
}

type props struct {
	all   []Property
	names *Names
}

func (ps props) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, p := range ps.all {
		if i > 0 {
			b.WriteString(", ")
		}
		if len(p.Data) == 0 {
			fmt.Fprintf(&b, "%s: default", ps.names.property(p.ID))
		} else {
			fmt.Fprintf(&b, "%s: %x", ps.names.property(p.ID), p.Data)
		}
	}
	b.WriteByte('}')
	return b.String()
}

// Text is the error with its name and numbers in a version.
func (e ErrorBody) Text(version uint32) string {
	name := e.Code.Name(version)
	switch {
	case e.Code == ErrVers:
		return fmt.Sprintf("%s supports %d..%d", name, e.Low, e.High)
	case version != Version2:
		return name
	}
	switch e.Code {
	case ErrReadChunks, ErrWriteChunks:
		return fmt.Sprintf("%s at most %d chunks", name, e.Max)
	case ErrSegments:
		return fmt.Sprintf("%s at most %d segments", name, e.Max)
	case ErrWriteResource:
		if e.Index == 0 {
			return name + " chunk not known"
		}
		return fmt.Sprintf("%s chunk %d needs %d bytes", name, e.Index, e.Needed)
	case ErrReplyResource:
		return fmt.Sprintf("%s needs %d bytes", name, e.Needed)
	}
	return name
}

// String is Text in version 2, whose codes include version 1's.
func (e ErrorBody) String() string { return e.Text(Version2) }
