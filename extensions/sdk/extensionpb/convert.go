package extensionpb

import (
	"math"
	"net/netip"
	"time"

	"github.com/rpcrdma/rpcrdma/core/ext"
)

// FromDeclaration is a declaration as a message.
func FromDeclaration(d ext.Declaration) *Declaration {
	m := &Declaration{
		Name: d.Name, Version: d.Version, Class: uint32(d.Class), Document: d.Document, Needs: d.Needs,
		Carrier: d.Carrier, Gate: d.Gate, LimitInfo: word(d.Limits.Info), LimitQueue: word(d.Limits.Queue),
		Props: FromProps(d.Props),
	}
	for _, o := range d.Ops {
		m.Ops = append(m.Ops, &Op{
			Name: o.Name, Type: o.Type, Proc: o.Proc, From: uint32(o.From), Answer: o.Answer, Reply: o.Reply,
			Payload: uint32(o.Payload), Info: word(o.Info), Credit: o.Credit, Window: word(o.Window),
			DeadlineNs: int64(o.Deadline), Late: FromVerdict(o.Late), Proves: o.Proves,
		})
	}
	return m
}

// Ext is a message as a declaration. What does not fit becomes the largest, which its Check refuses.
func (m *Declaration) Ext() ext.Declaration {
	d := ext.Declaration{
		Name: m.GetName(), Version: m.GetVersion(), Class: ext.Class(small(m.GetClass())), Document: m.GetDocument(), Needs: m.GetNeeds(),
		Carrier: m.GetCarrier(), Gate: m.GetGate(), Limits: ext.Limits{Info: int(m.GetLimitInfo()), Queue: int(m.GetLimitQueue())},
		Props: ToProps(m.GetProps()),
	}
	for _, o := range m.GetOps() {
		d.Ops = append(d.Ops, ext.Op{
			Name: o.GetName(), Type: o.GetType(), Proc: o.GetProc(), From: ext.Sender(small(o.GetFrom())), Answer: o.GetAnswer(),
			Reply: o.GetReply(), Payload: ext.PayloadRule(small(o.GetPayload())), Info: int(o.GetInfo()), Credit: o.GetCredit(),
			Window: int(o.GetWindow()), Deadline: time.Duration(o.GetDeadlineNs()), Late: o.GetLate().Ext(), Proves: o.GetProves(),
		})
	}
	return d
}

// FromProps are properties as messages.
func FromProps(props []ext.Prop) (m []*Prop) {
	for _, p := range props {
		m = append(m, &Prop{Id: p.ID, Name: p.Name, Type: uint32(p.Type), Default: p.Default, Min: p.Min, Max: p.Max,
			Lenient: p.Lenient, MaxLen: word(p.MaxLen), Mutable: p.Mutable})
	}
	return m
}

// ToProps are messages as properties.
func ToProps(m []*Prop) (props []ext.Prop) {
	for _, p := range m {
		props = append(props, ext.Prop{ID: p.GetId(), Name: p.GetName(), Type: ext.PropType(small(p.GetType())), Default: p.GetDefault(),
			Min: p.GetMin(), Max: p.GetMax(), Lenient: p.GetLenient(), MaxLen: int(p.GetMaxLen()), Mutable: p.GetMutable()})
	}
	return props
}

// FromVerdict is a verdict as a message.
func FromVerdict(v ext.Verdict) *Verdict {
	if v.Kind == ext.Default {
		return nil
	}
	return &Verdict{Kind: uint32(v.Kind), Info: v.Info, Code: uint32(v.Code)}
}

// Ext is a message as a verdict. A nil one is the default.
func (m *Verdict) Ext() ext.Verdict {
	return ext.Verdict{Kind: ext.VerdictKind(small(m.GetKind())), Info: m.GetInfo(), Code: ext.Code(m.GetCode())}
}

// FromChange is a change as a message.
func FromChange(c ext.Change) *Change { return &Change{Kind: uint32(c.Kind), Value: c.Value} }

// Ext is a message as a change.
func (m *Change) Ext() ext.Change {
	return ext.Change{Kind: ext.ChangeKind(small(m.GetKind())), Value: m.GetValue()}
}

// FromFacts are facts as a message.
func FromFacts(f ext.Facts) *Facts {
	return &Facts{Id: f.ID, Client: f.Client, Version: f.Version, Local: address(f.Local), Remote: address(f.Remote), SendLimit: word(f.SendLimit),
		RecvSize: word(f.RecvSize), MaxRecv: word(f.MaxRecv), Credits: word(f.Credits), Backward: uint32(f.Backward), Gated: f.Gated}
}

// Ext is a message as facts.
func (m *Facts) Ext() ext.Facts {
	f := ext.Facts{ID: m.GetId(), Client: m.GetClient(), Version: m.GetVersion(), SendLimit: int(m.GetSendLimit()), RecvSize: int(m.GetRecvSize()),
		MaxRecv: int(m.GetMaxRecv()), Credits: int(m.GetCredits()), Backward: ext.BackwardLevel(small(m.GetBackward())), Gated: m.GetGated()}
	f.Local, _ = netip.ParseAddrPort(m.GetLocal())
	f.Remote, _ = netip.ParseAddrPort(m.GetRemote())
	return f
}

// FromOutcome is an outcome as a message.
func FromOutcome(call uint64, o ext.Outcome) *Outcome {
	return &Outcome{Call: call, Kind: uint32(o.Kind), Xid: o.XID, Code: uint32(o.Code), Info: o.Info, Credit: o.Credit, Optional: o.Optional}
}

// Ext is a message as an outcome.
func (m *Outcome) Ext() ext.Outcome {
	return ext.Outcome{Kind: ext.OutcomeKind(small(m.GetKind())), XID: m.GetXid(), Code: ext.Code(m.GetCode()), Info: m.GetInfo(),
		Credit: m.GetCredit(), Optional: m.GetOptional()}
}

// FromRequest is a request as a message; nil: it is none of this protocol's.
func FromRequest(call uint64, r ext.Request) *Request {
	m := &Request{Call: call}
	switch r := r.(type) {
	case ext.SendLimit:
		m.Kind = &Request_SendLimit{int64(r)}
	case ext.ReceiveSize:
		m.Kind = &Request_ReceiveSize{int64(r)}
	case ext.BackwardLevel:
		m.Kind = &Request_BackwardLevel{uint32(r)}
	case ext.Invalidation:
		m.Kind = &Request_Invalidation{bool(r)}
	case ext.CreditAlgorithm:
		m.Kind = &Request_CreditAlgorithm{uint32(r)}
	case ext.ExtraReceives:
		m.Kind = &Request_ExtraReceives{int64(r)}
	case ext.Silence:
		m.Kind = &Request_SilenceNs{int64(r)}
	case ext.GrantChange:
		m.Kind = &Request_GrantChange{true}
	default:
		return nil
	}
	return m
}

// Ext is a message as a request; nil: it is none. The engine checks its value.
func (m *Request) Ext() ext.Request {
	switch k := m.GetKind().(type) {
	case *Request_SendLimit:
		return ext.SendLimit(k.SendLimit)
	case *Request_ReceiveSize:
		return ext.ReceiveSize(k.ReceiveSize)
	case *Request_BackwardLevel:
		return ext.BackwardLevel(small(k.BackwardLevel))
	case *Request_Invalidation:
		return ext.Invalidation(k.Invalidation)
	case *Request_CreditAlgorithm:
		return ext.CreditAlgorithm(small(k.CreditAlgorithm))
	case *Request_ExtraReceives:
		return ext.ExtraReceives(k.ExtraReceives)
	case *Request_SilenceNs:
		return ext.Silence(k.SilenceNs)
	case *Request_GrantChange:
		return ext.GrantChange{}
	}
	return nil
}

func address(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// word and small keep what does not fit recognisable as too large.
func word(n int) uint32 {
	if n < 0 || n > math.MaxUint32 {
		return math.MaxUint32
	}
	return uint32(n)
}

func small(n uint32) uint8 { return uint8(min(n, math.MaxUint8)) }
