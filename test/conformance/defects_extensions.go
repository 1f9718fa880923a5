package main

// Where the defects of extensions and properties lie.
const (
	fileOperation = "core/engine/operation.go"
	fileOutbound  = "core/engine/outbound.go"
	fileControl   = "core/engine/control.go"
	fileExtConn   = "core/engine/extconn.go"
	fileGating    = "core/engine/gating.go"
	fileDeclare   = "core/ext/set.go"
	fileSession   = "core/ext/session.go"
	fileWrap      = "core/wire/wrap.go"
	fileExchange  = "props/exchange.go"
	fileAsking    = "props/asking.go"
	fileAnswering = "props/answering.go"
	fileBasic     = "props/basic.go"
	filePropSet   = "props/set.go"
	filePropValue = "props/value.go"
	filePropOps   = "props/ops.go"
	filePropIDs   = "props/id.go"
)

// One script of TestProperties and TestOperations each.
func propAtServer(script string) string { return propServer(script)[0] }
func propAtClient(script string) string { return propClient(script)[0] }
func opAtServer(script string) string   { return opServer(script)[0] }
func opAtClient(script string) string   { return opClient(script)[0] }

// defectsOfExtensions break operations of extensions, their windows and their credits.
func defectsOfExtensions() []Defect {
	return []Defect{
		{"answers always as procedures", "D-1", fileOperation,
			"b := appendOperation(sb, &h, op, q.msg.Optional, info)", "b := appendOperation(sb, &h, op, false, info)",
			opAtServer("as an option")},
		{"INVALID_PROC is not taken for no support", "D-2", fileSession,
			"return c == InvalidProc || c == InvalidOption", "return c == InvalidOption",
			propAtClient("UPDPROP is not supported")},
		{"INVALID_OPTION is not taken for no support", "D-2", fileSession,
			"return c == InvalidProc || c == InvalidOption", "return c == InvalidProc",
			propAtClient("REQPROP is not supported")},
		{"a server's gate lets calls through", "D-3/gate", fileGating,
			"return c.gated() && !isNull(stream)", "return c.gated() && len(stream) == 0",
			opAtServer("gate")},
		{"a client's gate lets calls through", "D-3/gate", fileGating,
			"func (c *Conn) gated() bool { return c.ext != nil && c.ext.gates.Load() > 0 }",
			"func (c *Conn) gated() bool { return c.ext != nil && c.ext.gates.Load() > 0 && !c.client }",
			opAtClient("gate")},
		{"two of an operation unconsumed", "D-8", fileControl,
			"return c.ops[op].out < c.ops[op].window", "return c.ops[op].out <= c.ops[op].window",
			opAtClient("one at a time")},
		{"the reply to an earlier call proves consumption", "D-8", fileControl,
			"return s.seq <= ev.seq", "return s.seq <= ev.seq+1",
			opAtClient("one at a time")},
		{"as many calls as granted prove consumption", "D-8", fileControl,
			"return ev.calls-s.calls > ev.grant", "return ev.calls-s.calls >= ev.grant",
			propAtServer("updates when many calls have come")},
		{"a server speaks first", "D-8", fileOutbound,
			"if !x.c.client {\n\t\t\t\tcontinue\n\t\t\t}\n", "",
			opAtServer("no server speaks first")},
		{"an operation to a stranger takes no credit", "D-8", fileOutbound,
			"if !x.takeCredit() {\n\t\t\t\tx.out.starved = true\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\to.credit = true\n", "",
			propAtClient("CONNPROP takes a credit until the peer is known")},
		{"five receives beyond the credits", "D-8", fileConfig,
			"const controlReceives = 6", "const controlReceives = 5",
			answered("v1 more calls than granted")},
		{"credits of UPDPROP honoured", "D-9", fileOperation,
			"if m.Reply && (op.Credit || isGrant(op)) { // D-9", "if m.Reply || isPropertyOp(op) { // D-9",
			propAtClient("credits")},
		{"credits of RESPROP ignored", "D-9", fileOperation,
			"if m.Reply && (op.Credit || isGrant(op)) { // D-9", "if m.Reply && op.Credit && !isGrant(op) { // D-9",
			propAtClient("credits")},
		{"RESPROP taken for a call", "D-10", fileOperation,
			"m.Reply = m.Optional && h.Direction == wire.Reply || !m.Optional && r.Op.Reply", "m.Reply = m.Optional && h.Direction == wire.Reply",
			propAtServer("RESPROP to nothing that was asked")},
		{"malformed RESPROP answered by ERROR", "D-12", fileFixed,
			"case RespProp:\n\t\treturn Reply, true", "case RespProp:\n\t\treturn Call, true",
			propAtServer("RESPROP to nothing that was asked")},
		{"XIDs of operations from elsewhere", "D-20", fileOutbound,
			"xid := x.c.cfg.NextXID()", "xid := x.c.cfg.NextXID() ^ 1<<31",
			propAtClient("XIDs")},
		{"ERROR not looked up among operations", "D-20", fileOperation,
			"if x == nil || len(x.out.known)+len(x.ctl.sent) == 0 {", "if x == nil || len(x.out.known) >= 0 {",
			propAtClient("XIDs")},
		{"octets behind an option ignored", "D-26", fileOperation,
			"case surplus:", "case surplus && m.Reply:",
			opAtServer("octets behind it")},
		{"what is late is not supported", "D-38", fileDeclare,
			"op.Late = Verdict{Kind: Refuse, Code: System}", "op.Late = Verdict{Kind: Refuse, Code: InvalidOption}",
			opAtServer("falls")},
		{"nobody's operation waits", "D-38", fileOperation,
			"case state == sessionAbsent, !x.may(r, mine):", "case !x.may(r, mine):",
			opAtServer("all or none")},
		{"answers say CALL", draft + "/6.2.2/4", fileOperation,
			"Credit: c.granted.Load(), Direction: wire.Reply}", "Credit: c.granted.Load()}",
			opAtServer("as an option")},
		{"two directions taken", draft + "/6.2.2/3", fileWrap,
			"case h.Direction != dir:", "case h.Direction > Reply:",
			opAtServer("carries an RPC message of another direction")},
		{"what cannot be parsed is dropped", draft + "/5.1.1/1", fileOperation,
			"case err != nil:\n\t\tin.refuseOperation(h, m.Reply, wire.BadXDR)", "case err != nil:\n\t\tin.drop(h.XID)",
			propAtServer("beyond the message")},
	}
}

// defectsOfProperties break the exchange of properties.
func defectsOfProperties() []Defect {
	return []Defect{
		{"CONNPROP always as a procedure", "D-1", fileExchange,
			"x.form = m.Optional", "x.form = false",
			propAtServer("CONNPROP as an option")},
		{"option types 1 to 4 not known", "D-1", filePropOps,
			"ext.Op{Name: name, Type: t, Proc", "ext.Op{Name: name, Type: t &^ 7, Proc",
			propAtServer("REQPROP as an option")},
		{"UPDPROP not held back", "D-8", fileExchange,
			"if x.state != open || x.updating || x.deaf {", "if x.state != open || x.deaf {",
			propAtServer("update")},
		{"surplus octets of a value ignored", "D-13", filePropValue,
			"if err := r.Done(); err != nil {", "if err := r.Err(); err != nil {",
			propAtServer("values that do not decode")},
		{"malformed values taken", "D-13", filePropSet,
			"if err := Check(p, v.Data); err != nil {\n\t\t\t\treturn err", "if err := Check(p, v.Data); err != nil {\n\t\t\t\treturn nil",
			propAtServer("values that do not decode")},
		{"unknown properties are an error", "D-14", filePropSet,
			"if p, ok := t[v.ID]; ok {", "if p, ok := t[v.ID]; ok || v.ID > 0 {",
			propAtServer("unknown properties")},
		{"the first of two counts", "D-15", filePropSet,
			"kept[j] = g", "kept[j].fixed = g.fixed",
			propAtServer("a property twice")},
		{"both of two requests done", "D-15", fileAnswering,
			"case seen[v.ID]:", "case seen[v.ID] && v.ID == 0:",
			propAtServer("asked for twice")},
		{"no octets are no value", "D-16", filePropValue,
			"if len(data) == 0 {\n\t\treturn nil\n\t}\n\tbad :=", "if len(data) == 0 && p.Lenient {\n\t\treturn nil\n\t}\n\tbad :=",
			propAtServer("no octets")},
		{"bits of a subset from the other end, read", "D-17", fileV2,
			"s[n/32]&(1<<(n%32)) != 0", "s[n/32]&(1<<(31-n%32)) != 0",
			propAtServer("rdma_nochg at position 32")},
		{"bits of a subset from the other end, written", "D-17", fileV2,
			"(*s)[n/32] |= 1 << (n % 32)", "(*s)[n/32] |= 1 << (31 - n%32)",
			propAtServer("position 32")},
		{"rdma_nochg says what may change", "D-18", fileExchange,
			"if l.fixed {\n\t\t\th.NoChange.Add(i)", "if !l.fixed {\n\t\t\th.NoChange.Add(i)",
			propAtServer("ours that will not change")},
		{"rdma_nochg not looked at", "D-18", fileAsking,
			"case t.fixed:", "case t.fixed && !t.listed:",
			propAtServer("theirs that will not change")},
		{"overlap is done", "D-19", fileAsking,
			"case in != 1:", "case in == 0:",
			propAtClient("answers that overlap")},
		{"a gap is another value", "D-19", fileAsking,
			"case in != 1:", "case in > 1:",
			propAtClient("answers that leave out")},
		{"foreign items believed", "D-19", fileAsking,
			"x.count.Foreign++\n\t\t\tcontinue", "x.count.Foreign++\n\t\t\tx.now(v.ID, bytes.Clone(v.Data))\n\t\t\tcontinue",
			propAtClient("answers about what was not asked")},
		{"a second CONNPROP starts anew", "D-21", fileExchange,
			"if x.state == open { // a second one: an update (D-21)", "if x.state == alone { // a second one: an update (D-21)",
			propAtServer("a second CONNPROP")},
		{"small sizes not honoured", "D-22", fileBasic,
			"case id == RBSIZ && v < minSendLimit:", "case id == RBSIZ && v < DefaultReceiveSize:",
			propAtServer("RBSIZ counts the whole Send")},
		{"a larger size promised before it is true", "D-22", fileBasic,
			"return ReceiveSize.Instead(b.size), b.receives(to)", "return ReceiveSize.Instead(to), b.receives(to)",
			propAtServer("RBSIZ raised")},
		{"a size below 4096", "D-22", fileBasic,
			"to := max(want, DefaultReceiveSize)", "to := max(want, minSendLimit)",
			propAtServer("RBSIZ lowered")},
		{"asks for less and sends more", "D-22", fileBasic,
			"b.wanted = max(size, minSendLimit)", "b.wanted = 0 * size",
			propAtClient("asking for less")},
		{"BRS not heeded", "D-23", fileBasic,
			"return ext.BackwardLevel(v), true", "return nil, true",
			propAtServer("BRS is NONE")},
		{"BRS is NONE unless said otherwise", "D-23", filePropIDs,
			"\"brs\", ext.BackwardInline,", "\"brs\", ext.BackwardNone,",
			propAtServer("BRS is INLINE")},
		{"a client that serves nothing says INLINE", "D-23", fileExtConn,
			"l > BackwardNone && (!c.client || c.allows() > 0)", "l > BackwardNone",
			propAtClient("BRS of a client that serves nothing")},
		{"asks for what was left out", "D-24", fileAsking,
			"case t == nil || !t.listed:", "case t == nil:",
			propAtServer("left out")},
		{"updates of what was left out not believed", "D-24", fileExchange,
			"if t := x.of(g.id, len(g.data)); t != nil && !(", "if t := x.of(g.id, len(g.data)); t != nil && t.listed && !(",
			propAtServer("left out")},
		{"changes what was left out", "D-24", fileAnswering,
			"case l == nil || l.fixed || x.announced && !l.listed:", "case l != nil && l.fixed:",
			propAtServer("of ours left out")},
	}
}
