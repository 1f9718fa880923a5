package ext

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Ids that drafts reserve.
const (
	// ExperimentalFirst to the largest uint32 are property ids for experiments (v2 draft §5.4.2). No such range
	// is given to operation types; by our own convention it is the same.
	ExperimentalFirst = 4294967040
	// MinProc is the first rdma_proc of an extension: those of the property operations, which are a carrier's (v2 draft §6.2).
	MinProc, maxPropProc = 6, 9
	maxPropType          = 4 // v2 draft §5.3, Table 2
	maxPropID            = 2 // v2 draft §5.2, Table 1
)

// Limits of declarations.
const (
	maxName     = 32
	MaxOps      = 64
	MaxProps    = 256
	MaxInfo     = 64 << 10
	MaxQueue    = 4096
	MaxWindow   = 256
	MaxDeadline = time.Minute
)

// Set is the extensions that a program has loaded: each whole, no id claimed twice. It does not change.
type Set struct {
	exts  []Extension
	decls []Declaration
	ops   []OpRef
	types map[uint32]int // rdma_opttype to index in ops
	procs map[uint32]int // rdma_proc to index in ops
	props map[uint32]PropRef
}

// OpRef is an operation and whose it is.
type OpRef struct {
	Ext int // index of its extension
	Op  Op
	// Answer is the index of the operation that answers it, or -1.
	Answer int
}

// PropRef is a property and whose it is.
type PropRef struct {
	Ext  int
	Prop Prop
}

// DeclareError is a declaration that cannot be loaded.
type DeclareError struct {
	Name string // the extension's
	Why  string
}

func (e *DeclareError) Error() string { return fmt.Sprintf("extension %q: %s", e.Name, e.Why) }

// ClashError is two extensions that claim the same.
type ClashError struct {
	What string // "opttype 4294967041", "property 3"
	A, B string // their names
}

func (e *ClashError) Error() string {
	return fmt.Sprintf("extensions %q and %q both claim %s: load one of them", e.A, e.B, e.What)
}

// NewSet checks the declarations of exts, each by itself and against each other. The error joins all that is
// wrong: *DeclareError, *ClashError.
func NewSet(exts ...Extension) (*Set, error) {
	s := &Set{types: make(map[uint32]int), procs: make(map[uint32]int), props: make(map[uint32]PropRef)}
	var errs []error
	for _, x := range exts {
		d := x.Declare()
		d.setDefaults()
		s.exts, s.decls = append(s.exts, x), append(s.decls, d)
		if err := d.Check(); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		errs = s.join()
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// join fills the tables, and finds what is claimed twice or missing.
func (s *Set) join() (errs []error) {
	clash := func(what string, a, b int) {
		errs = append(errs, &ClashError{what, s.decls[a].Name, s.decls[b].Name})
	}
	names := make(map[string]int)
	carrier := -1
	for i, d := range s.decls {
		if j, ok := names[d.Name]; ok {
			clash("the name "+d.Name, j, i)
		}
		names[d.Name] = i
		if d.Carrier {
			if carrier >= 0 {
				clash("the role of property carrier", carrier, i)
			}
			carrier = i
		}
		first := len(s.ops)
		for _, op := range d.Ops {
			at := len(s.ops)
			for _, id := range []struct {
				in   map[uint32]int
				id   uint32
				what string
			}{{s.types, op.Type, "opttype"}, {s.procs, op.Proc, "rdma_proc"}} {
				if id.id == 0 {
					continue
				}
				if j, ok := id.in[id.id]; ok {
					clash(fmt.Sprintf("%s %d", id.what, id.id), s.ops[j].Ext, i)
					continue
				}
				id.in[id.id] = at
			}
			s.ops = append(s.ops, OpRef{i, op, -1})
		}
		for j := range d.Ops {
			if answer := d.Ops[j].Answer; answer != "" {
				s.ops[first+j].Answer = first + slices.IndexFunc(d.Ops, func(o Op) bool { return o.Name == answer })
			}
		}
		for _, p := range d.Props {
			if o, ok := s.props[p.ID]; ok {
				clash(fmt.Sprintf("property %d", p.ID), o.Ext, i)
				continue
			}
			s.props[p.ID] = PropRef{i, p}
		}
	}
	for _, d := range s.decls {
		for _, n := range d.Needs {
			if _, ok := names[n]; !ok {
				errs = append(errs, &DeclareError{d.Name, fmt.Sprintf("it needs the extension %q, which is not loaded", n)})
			}
		}
	}
	return errs
}

func (d *Declaration) setDefaults() {
	d.Ops, d.Props = slices.Clone(d.Ops), slices.Clone(d.Props)
	if d.Limits.Info == 0 {
		d.Limits.Info = 4096
	}
	if d.Limits.Queue == 0 {
		d.Limits.Queue = 64
	}
	for i := range d.Ops {
		op := &d.Ops[i]
		if op.Window == 0 {
			op.Window = 1
		}
		if op.Deadline == 0 {
			op.Deadline = time.Second
		}
		if op.Info == 0 {
			op.Info = d.Limits.Info
		}
		if op.Late.Kind == Default && op.Answer != "" {
			op.Late = Verdict{Kind: Refuse, Code: System}
		}
	}
	for i := range d.Props {
		if p := &d.Props[i]; p.Type == Opaque && p.MaxLen == 0 {
			p.MaxLen = 1024
		}
	}
}

// Check tells what is wrong with a declaration by itself, as a *DeclareError.
func (d *Declaration) Check() error {
	bad := func(format string, args ...any) error { return &DeclareError{d.Name, fmt.Sprintf(format, args...)} }
	switch {
	case !validName(d.Name):
		return bad("its name must be 1 to %d lower-case letters, digits or '-'", maxName)
	case d.Class > Payload:
		return bad("class %d does not exist", d.Class)
	case len(d.Ops) > MaxOps || len(d.Props) > MaxProps:
		return bad("%d operations and %d properties; at most %d and %d", len(d.Ops), len(d.Props), MaxOps, MaxProps)
	case d.Limits.Info < 0 || d.Limits.Info > MaxInfo || d.Limits.Queue < 0 || d.Limits.Queue > MaxQueue:
		return bad("its limits are 0 to %d bytes of optinfo and 0 to %d messages waiting", MaxInfo, MaxQueue)
	}
	names := make(map[string]bool)
	for i := range d.Ops {
		op := &d.Ops[i]
		if why := d.checkOp(op); why != "" {
			return bad("operation %q: %s", op.Name, why)
		}
		if names[op.Name] {
			return bad("operation %q is declared twice", op.Name)
		}
		names[op.Name] = true
	}
	for i := range d.Props {
		if why := d.checkProp(&d.Props[i]); why != "" {
			return bad("property %d: %s", d.Props[i].ID, why)
		}
	}
	return nil
}

func (d *Declaration) checkOp(op *Op) string {
	switch {
	case op.Name == "":
		return "it has no name"
	case op.Type == 0 && op.Proc == 0:
		return "it has neither an opttype nor an rdma_proc"
	case op.Proc != 0 && op.Proc < MinProc:
		return fmt.Sprintf("rdma_proc %d is the base protocol's", op.Proc)
	case (op.Proc != 0 && op.Proc <= maxPropProc || op.Type != 0 && op.Type <= maxPropType) && !d.Carrier:
		return "its id is reserved to the property operations (v2 draft §5.3, §6.2)"
	case d.Document == "" && (op.Type != 0 && op.Type < ExperimentalFirst || op.Proc != 0 && op.Proc < ExperimentalFirst):
		return fmt.Sprintf("ids below %d are assigned by documents; name yours, or take one from %d to 4294967295", uint32(ExperimentalFirst), uint32(ExperimentalFirst))
	case op.From > Server || op.Payload > Part:
		return "unknown sender or payload rule"
	case op.Payload != NoPayload && (op.Proc != 0 || op.Answer != "" || op.Reply):
		return "one that carries an RPC message has an opttype only, and the RPC's answer"
	case op.Payload == Part && d.Class != Payload:
		return "only an extension of class payload cuts RPC messages"
	case op.Payload == Part && !op.Proves:
		return "replies in pieces wait for places in its window: its extension must prove what has been consumed"
	case op.Answer == op.Name && op.Proc != 0:
		return "an rdma_proc has no direction that would tell its answer from it: name another operation as its answer"
	case op.Window < 0 || op.Window > MaxWindow:
		return fmt.Sprintf("a window is 1 to %d", MaxWindow)
	case op.Deadline < 0 || op.Deadline > MaxDeadline:
		return fmt.Sprintf("a deadline is at most %v", MaxDeadline)
	case op.Info < 0 || op.Info > MaxInfo:
		return fmt.Sprintf("at most %d bytes of optinfo", MaxInfo)
	case op.Late.Kind > Refuse || op.Late.Kind == Refuse && !op.Late.Code.refusal():
		return "its late verdict does not exist"
	}
	if op.Answer != "" && op.Answer != op.Name {
		i := slices.IndexFunc(d.Ops, func(o Op) bool { return o.Name == op.Answer })
		switch {
		case i < 0:
			return fmt.Sprintf("its answer %q is not declared", op.Answer)
		case !d.Ops[i].Reply:
			return fmt.Sprintf("its answer %q is not declared as a reply", op.Answer)
		case (op.Type == 0) != (d.Ops[i].Type == 0) || (op.Proc == 0) != (d.Ops[i].Proc == 0):
			return fmt.Sprintf("it and its answer %q have different encodings", op.Answer)
		}
	}
	return ""
}

func (d *Declaration) checkProp(p *Prop) string {
	switch {
	case p.ID == 0:
		return "0 is no id"
	case p.ID <= maxPropID && !d.Carrier:
		return "its id is reserved to the basic properties (v2 draft §5.2)"
	case p.ID < ExperimentalFirst && d.Document == "":
		return fmt.Sprintf("ids below %d are assigned by documents; name yours, or take one from %d to 4294967295", uint32(ExperimentalFirst), uint32(ExperimentalFirst))
	case p.Name == "":
		return "it has no name"
	case p.Type < Uint32 || p.Type > Opaque:
		return "its type is none of uint32, bool, enum and opaque"
	case p.Min > p.Max:
		return "its least value is above its greatest"
	case p.MaxLen < 0 || p.MaxLen > MaxInfo:
		return fmt.Sprintf("at most %d bytes", MaxInfo)
	}
	return ""
}

func (c Code) refusal() bool { return c == BadXDR || c == InvalidOption || c == System }

func validName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// Len is the number of extensions; At and Declared are one of them. A nil Set has none.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return len(s.exts)
}

func (s *Set) At(i int) Extension { return s.exts[i] }

// Declared is the declaration of extension i, defaults filled in.
func (s *Set) Declared(i int) *Declaration { return &s.decls[i] }

// Ops are all operations; an index of Type and Proc points into it.
func (s *Set) Ops() []OpRef { return s.ops }

// Type finds the operation of an rdma_opttype.
func (s *Set) Type(t uint32) (i int, ok bool) { i, ok = s.types[t]; return i, ok }

// Proc finds the operation of an rdma_proc.
func (s *Set) Proc(p uint32) (i int, ok bool) { i, ok = s.procs[p]; return i, ok }

// Prop finds the property of an id.
func (s *Set) Prop(id uint32) (PropRef, bool) { p, ok := s.props[id]; return p, ok }

// Gated tells whether an extension gates connections.
func (s *Set) Gated() bool {
	return s != nil && slices.ContainsFunc(s.decls, func(d Declaration) bool { return d.Gate })
}
