package main

import "slices"

// Where the defects lie.
const (
	fileAnswer    = "core/wire/errs.go"
	filePrivate   = "core/wire/privdata.go"
	fileLists     = "core/wire/lists.go"
	fileFixed     = "core/wire/fixed.go"
	fileV1        = "core/wire/v1.go"
	fileV2        = "core/wire/v2.go"
	filePlan      = "core/chunk/plan.go"
	fileReply     = "core/chunk/reply.go"
	fileCheck     = "core/chunk/check.go"
	fileJoin      = "core/chunk/join.go"
	fileChunkErr  = "core/chunk/errors.go"
	fileMoved     = "core/xdr/moved.go"
	fileReader    = "core/xdr/reader.go"
	fileCredits   = "core/engine/credits.go"
	fileNegotiate = "core/engine/negotiate.go"
	fileRecv      = "core/engine/recv.go"
	fileResponder = "core/engine/responder.go"
	fileRequester = "core/engine/requester.go"
	fileReplan    = "core/engine/replan.go"
	fileFence     = "core/engine/fence.go"
	fileExpose    = "core/engine/expose.go"
	fileConn      = "core/engine/conn.go"
	fileConfig    = "core/engine/config.go"
	fileEndpoint  = "core/engine/endpoint.go"
	filePost      = "core/engine/post.go"
	fileRequest   = "core/rpc/request.go"
)

// allDefects is every defect.
func allDefects() []Defect {
	return slices.Concat(defectsOfTexts(), defectsOfBackward(), defectsOfDecisions(), defectsOfExtensions(), defectsOfProperties(), defectsOfTraps())
}

// answered and asked are a script of TestResponder and of TestRequester.
func answered(script string) string { return responder(script)[0] }
func asked(script string) string    { return requester(script)[0] }

// defectsOfBackward break backward calls.
func defectsOfBackward() []Defect {
	return []Defect{
		{"everything that comes to a client taken for a reply", rfc8167 + "/2.4/1", fileRecv,
			"case isReply:\n\t\t\treturn toRequester", "case isReply || in.c.client:\n\t\t\treturn toRequester",
			asked("v1 serves a call back with the XID of its own")},
		{"backward calls ask for forward credits", rfc8167 + "/4.1/1", fileExpose,
			"uint32(c.asks())", "uint32(c.cfg.Credits)",
			answered("v1 calls back")},
		{"chunks taken backward", rfc8167 + "/5.3/1", fileResponder,
			"if c.client && c.inlineOnly(h.Version, level) && (", "if c.client && c.inlineOnly(h.Version, level) && h.XID == 0 && (",
			asked("v1 takes no chunks backward")},
	}
}

// defectsOfDecisions break the protocol decisions.
func defectsOfDecisions() []Defect {
	return []Defect{
		{"unknown option answered with INVALID_PROC", "D-2", fileAnswer,
			"return ErrorBody{Code: ErrInvalidOption}", "return ErrorBody{Code: ErrInvalidProc}",
			answered("v2 unknown option")},
		{"unknown procedure answered with BAD_XDR", "D-2", fileAnswer,
			"return ErrorBody{Code: ErrInvalidProc}", "return ErrorBody{Code: ErrBadXDR}",
			answered("v2 unknown procedure")},
		{"first message as long as any", "D-3", fileRequester,
			"send = min(send, ProbeSize)", "send = min(send, 4*ProbeSize)",
			asked("v2 first message of 1024")},
		{"executed before the gate is open", "D-3/gate", fileResponder,
			"case c.bars(r.Stream):", "case c.client && c.bars(r.Stream):",
			"core/rpc TestGateAtTheServer"},
		{"read before the gate is open", "D-3/gate", fileResponder,
			"case c.gated(): // nothing is read for it", "case c.gated() && c.client: // nothing is read for it",
			"core/rpc TestGateAndRawPeers"},
		{"version 1 through the gate", "D-3/gate", "core/engine/gating.go",
			"c.MinVersion = wire.Version2", "c.MinVersion = max(c.MinVersion, wire.Version1)",
			"core/rpc TestGateAndRawPeers"},
		{"credits lost where the algorithm changes", "D-11", fileCredits,
			"r.told = min(now, r.asked)", "r.told = now",
			"core/engine TestCreditSwitch"},
		{"any version at any time", "D-4", fileResponder,
			"case stands != 0 && h.Version != stands: // D-4", "case stands > 9 && h.Version != stands: // D-4",
			answered("v2 latched")},
		{"version judged before the error is read", "D-5", fileV1,
			"case h.Err.Code == ErrVers:", "case h.Err.Code == ErrVers && h.Version == Version1:",
			asked("v2 falls back to version 1")},
		{"fall back with another XID", "D-5", fileNegotiate,
			"n.Version = v\n\t\treturn n, NegProbe", "n.Version = v\n\t\treturn n, NegFail",
			asked("v2 falls back to version 1")},
		{"small receives until the version stands", "D-6", fileEndpoint,
			"errors.Is(pool.Resize(cfg.Inline), errors.ErrUnsupported)", "errors.Is(pool.Resize(cfg.Inline/4), errors.ErrUnsupported)",
			answered("v2 takes 4096 from the start")},
		{"the profile is not asked", "D-7", fileFixed,
			"case h.Version == 0 || h.Version > p.MaxVersion():", "case h.Version == 0 || h.Version > Version2:",
			"core/wire TestV1Profile"},
		{"grant of 0 believed", "D-11", fileCredits,
			"c.limit, zero = 1, true", "c.limit, zero = 0, true",
			asked("v1 grant of zero")},
		{"grant of 0 not counted", "D-11", fileCredits,
			"if c.rule.take(&c.credits, word, answered) {\n\t\tc.counters.ZeroCredit++\n\t}", "c.rule.take(&c.credits, word, answered)",
			asked("v1 grant of zero")},
		{"OPTIONAL reply answered by ERROR", "D-12", fileAnswer,
			"e.Proc == ErrorMsg, as != Call:", "e.Proc == ErrorMsg:",
			answered("v2 unknown option as a reply")},
		{"any handle invalidated", "D-25", fileResponder,
			"if h.HasHandle(h.InvHandle) {", "if h.InvHandle != 0 {",
			answered("v2 invalidates no key of another call")},
		{"another call's handle believed to be gone", "D-25", fileFence,
			"if w.w.Key != key {", "if w.w.Key == 0 {",
			asked("v2 the key of another call is invalidated")},
		{"invalidates although R is clear", "D-25", fileResponder,
			"if !c.peer.RemoteInvalidate || !c.local.RemoteInvalidate {", "if !c.local.RemoteInvalidate {",
			answered("v1 plain Send to a peer with R clear")},
		{"octets behind NOMSG ignored", "D-26", fileCheck,
			"return badList(\"position-zero read chunk in a message with payload\")\n\tcase long && payload > 0 &&", "return badList(\"position-zero read chunk in a message with payload\")\n\tcase long && payload > 99 &&",
			answered("v2 octets behind NOMSG")},
		{"direction not compared", "D-27", fileResponder,
			"case isReply: // D-27", "case isReply && xid == 0: // D-27",
			answered("v2 a reply in a header that says CALL")},
		{"Read chunk with round-up refused", "D-28", fileMoved,
			"if len(d) != n && len(d) != n+(-n&3) {", "if len(d) != n {",
			answered("v1 read chunk with round-up")},
		{"several Read chunks to version 1", "D-29", fileConfig,
			"def(&c.ReadChunks, 1)", "def(&c.ReadChunks, 4)",
			asked("v1 one read chunk to a version 1 peer")},
		{"empty Write chunk to version 1", "D-30", filePlan,
			"if few && (l.Version != wire.Version1 || !slices.Contains(writes, 0)) {", "if few && l.Version <= wire.Version2 {",
			asked("v1 no empty write chunk")},
		{"Reply chunk returned as it came", "D-31", fileReply,
			"s.Length = 0", "s.Length += 0",
			answered("v1 reply chunk not used")},
		{"no Reply chunk for replies that may be long", "D-32", filePlan,
			"header+stream <= recv ||", "header+stream <= 4*recv ||",
			asked("v1 reply chunk")},
		{"index of the short chunk from 0", "D-33", fileChunkErr,
			"Code: wire.ErrWriteResource, Index: e.Write,", "Code: wire.ErrWriteResource, Index: e.Write - 1,",
			answered("v2 write chunk too small")},
		{"more room without leave", "D-33", fileReplan,
			"int64(e.Needed) > int64(call.Grow) {\n\t\t\treturn false\n\t\t}\n\t\tcall.growWrite", "int64(call.Grow) < 0 {\n\t\t\treturn false\n\t\t}\n\t\tcall.growWrite",
			asked("v2 no more room without leave")},
		{"Read chunks although the peer takes none", "D-34", filePlan,
			"if !move || l.MaxReads == 0 ||", "if !move ||",
			asked("v2 no read chunks")},
		{"undecodable error ends the call", "D-35", fileV2,
			"default:\n\t\treturn UnknownCode", "default:\n\t\treturn 0",
			asked("v2 replies to nobody")},
		{"short version 1 headers believed", "D-36", fileFixed,
			"const minV1 = 28", "const minV1 = 16",
			answered("v1 short")},
		{"chunks that disagree with the arguments answered with ERR_CHUNK", "D-37", fileCheck,
			"return ErrPayload", "return badList(\"read chunk beyond the end\")",
			answered("v1 chunk and arguments disagree")},
		{"no pause after the set-up", "D-39", fileConn,
			"if !c.peer.RemoteInvalidate {\n", "if c.peer.SendSize == 0 {\n",
			asked("v2 waits after the set-up")},
		{"pause for everyone", "D-39", fileConn,
			"if !c.peer.RemoteInvalidate {\n", "if c.peer.SendSize != 0 {\n",
			asked("v2 waits for no peer with R")},
		{"DONE answered", "D-40", fileAnswer,
			"case e.Proc == Done:", "case e.Proc == 77:",
			answered("v1 DONE")},
		{"refused memory forgotten", "D-41", fileResponder,
			"if s == verbs.RemoteAccess {", "if s == verbs.RemoteAccess && r == nil {",
			answered("v2 key that is none")},
	}
}

// defectsOfTraps repeat what others did.
func defectsOfTraps() []Defect {
	return []Defect{
		{"grant 0", "T-1", fileResponder,
			"r.Header.Version, c.granted.Load(), wire.Msg", "r.Header.Version, 0, wire.Msg",
			answered("v1 grants what it has")},
		{"grant 0 in errors", "T-1", fileResponder,
			"Credit: c.granted.Load(), Proc: wire.ErrorMsg", "Proc: wire.ErrorMsg",
			answered("v1 MSGP")},
		{"grant what is asked", "T-2", fileResponder,
			"r.Header.Version, c.granted.Load(), wire.Msg", "r.Header.Version, r.Header.Credit, wire.Msg",
			answered("v1 grants what it has")},
		{"grant above our receives believed", "T-3", fileCredits,
			"c.limit = c.slots", "c.limit = 1 << 20",
			asked("v1 grant above what was asked")},
		{"word before the Reply chunk counted twice", "T-4", fileLists,
			"n += 4 + len(l.Reply)*segLen", "n += 8 + len(l.Reply)*segLen",
			"core/wire TestGolden"},
		{"inline data taken for the chunk's", "T-5", fileMoved,
			"case m.Position == r.Position():", "case m.Position != InOrder:",
			answered("v1 second item moved, first inline")},
		{"pad written", "T-6", fileReply,
			"p.fill(WriteOp{Chunk: i, Bulk: i, N: len(it.Data)}", "p.fill(WriteOp{Chunk: i, Bulk: i, N: len(it.Data) + -len(it.Data)&3}",
			answered("v1 two write chunks")},
		{"round-up in a Read chunk refused", "T-7", fileMoved,
			"if len(d) != n && len(d) != n+(-n&3) {", "if len(d) != n {",
			answered("v1 read chunk with round-up of its own")},
		{"position ignored", "T-8", fileJoin,
			"dst = append(dst, xdr.Moved{Position: c.Position, Data: data[i]})", "dst = append(dst, xdr.Moved{Position: xdr.InOrder, Data: data[i]})",
			answered("v1 second item moved, first inline")},
		{"order of positions not looked at", "T-8", fileCheck,
			"case uint64(at) < end || i < len(h.Reads) && h.Reads[i].Position < at:", "case end > 1<<40:",
			answered("v1 positions decrease")},
		{"round-up of a moved item not counted in positions", "T-8", fileMoved,
			"r.extra += n + (-n & 3)", "r.extra += n",
			answered("v1 two read chunks")},
		{"Read chunks beside position zero to version 1", "T-9", filePlan,
			"if !l.LongMore {", "if l.MaxReads == 99 {",
			asked("v1 long call has one chunk")},
		{"other chunks counted from elsewhere beside position zero", "T-10", fileJoin,
			"xdr.Moved{Position: c.Position, Data: data[i]}", "xdr.Moved{Position: c.Position - 4*c.First, Data: data[i]}",
			answered("v1 position zero and a read chunk")},
		{"Write chunks matched from the last", "T-11", fileJoin,
			"m.Data = writes[i][:returned.Writes[i].Len()]", "m.Data = writes[len(returned.Writes)-1-i][:returned.Writes[i].Len()]",
			asked("v1 two write chunks")},
		{"NOMSG not served", "T-12", fileResponder,
			"case wire.Msg, wire.NoMsg:\n\tcase wire.Optional:", "case wire.Msg:\n\tcase wire.Optional:",
			answered("v1 position zero")},
		{"returned lengths ignored", "T-13", fileJoin,
			"m.Data = writes[i][:returned.Writes[i].Len()]", "m.Data = writes[i]",
			asked("v1 shorter result than offered")},
		{"long result cut in silence", "T-13", fileReply,
			"if uint64(len(it.Data)) > lists.Writes[i].Len() {\n", "if n := lists.Writes[i].Len(); uint64(len(it.Data)) > n {\n\t\t\tit.Data = it.Data[:n]\n\t\t}\n\t\tif uint64(len(it.Data)) > lists.Writes[i].Len() {\n",
			answered("v1 write chunk too small")},
		{"empty Write chunk refused", "T-14", fileLists,
			"if n > MaxSegments {", "if n == 0 || n > MaxSegments {",
			answered("v1 empty write chunk")},
		{"chunk that disagrees is a fault of the system", "T-15", fileRequest,
			"errors.Is(err, xdr.ErrChunk), ", "",
			answered("v1 chunk and arguments disagree")},
		{"version judged last", "T-16", fileRecv,
			"he.Reason = wire.BadVersion // the", "he.Proc += 0 // the",
			answered("v1 latched")},
		{"ERROR answered by ERROR", "T-17", fileRecv,
			"c.mu.Unlock()\n\t\tin.drop(h.XID)\n\t\treturn false\n\tcase h.Proc == wire.ErrorMsg:", "c.mu.Unlock()\n\t\tc.sendError(nil, h.XID, h.Version, wire.ErrorBody{Code: wire.ErrChunk})\n\t\treturn false\n\tcase h.Proc == wire.ErrorMsg:",
			answered("v1 RDMA_ERROR to a responder")},
		{"private data looked for at the start only", "T-18", filePrivate,
			"if at < 0 || len(b)-at < PrivateLen {", "if at != 0 || len(b)-at < PrivateLen {",
			answered("v1 private data behind another layer's")},
		{"version of private data not looked at", "T-18", filePrivate,
			"if d[4] == privateVersion {", "if d[4] != 0 {",
			answered("v1 private data of another version")},
		{"sizes of private data off by one", "T-19", filePrivate,
			"return byte(n/1024 - 1)", "return byte(n / 1024)",
			"test/conformance TestPrivateData"},
		{"one of several keys invalidated", "T-20", fileLists,
			"return s.Handle, !have || h == s.Handle", "return s.Handle, true",
			answered("v1 invalidates none of two keys")},
		{"send buffers used again before their completion", "T-21", fileResponder,
			"c.sendMost = max(c.sendMost, written)\n\tc.post(r.works)", "c.sendMost = max(c.sendMost, written)\n\tc.post(r.works)\n\tclear(r.last.bytes(c.ep.size)[:c.ep.size])",
			"core/rpc TestFaults"},
		{"refused memory is refused again", "T-22", "core/engine/blame.go",
			"return ok && time.Since(at) < blameMemory", "return ok && time.Since(at) < 0",
			answered("v1 key that is none, read")},
		{"reply to nobody not looked for", "T-23", fileRecv,
			"case call == nil || call.state != callSent ||", "case call != nil && call.state != callSent ||",
			asked("v1 replies to nobody")},
		{"cache does not know a caller on another port", "T-24", "core/rpc/drc.go",
			"host: r.RemoteAddr().Addr().Unmap(), xid: r.XID,", "host: r.RemoteAddr().Addr().Unmap(), xid: r.XID ^ uint32(r.RemoteAddr().Port())<<16,",
			answered("v1 the same call on a new connection")},
		{"send queue not counted", "T-25", filePost,
			"ws = ws[c.submit(ws):]", "c.submit(ws)\n\t\treturn",
			"core/rpc TestFaults/late,_short_queue"},
		{"one RDMA Read at a time", "T-26", fileResponder,
			"depth := max(c.caps.MaxReads, 1)", "depth := 1",
			"test/conformance TestReadsInFlight"},
		{"fewer calls taken than granted", "T-27", fileResponder,
			"if c.owed <= c.allows()+c.control() {", "if c.owed < c.allows() {",
			answered("v1 as many calls as granted")},
		{"lengths summed in 32 bits", "T-28", fileCheck,
			"n += uint64(reads[i].Length)", "n = uint64(uint32(n) + reads[i].Length)",
			answered("v1 lengths near 4 GiB")},
		{"Read chunks may be written", "T-29", fileExpose,
			"c.expose(call, b, mem, verbs.RemoteRead, users)", "c.expose(call, b, mem, verbs.RemoteRead|verbs.RemoteWrite, users)",
			asked("v1 read chunk may not be written")},
		{"memory not fenced", "T-29", fileFence,
			"case w.state == windowLive && c.down:", "case w.state == windowLive:",
			asked("v1 memory is fenced before the caller goes on")},
		{"segments of no octets are pulled", "T-30", fileReply,
			"if op.N == 0 {\n\t\t\tcontinue", "if op.N == 0 {\n\t\t\tbreak",
			answered("v1 segments of no octets")},
		{"messages dropped without a count", "T-31", fileRecv,
			"c.counters.Dropped++", "c.counters.Dropped += 0",
			"test/conformance TestBadMessagesAreNotLogged"},
		{"empty result leaves its chunk to the next", "T-32", fileMoved,
			"r.taken++\n\tif m.Into == nil {", "if m.Into == nil {",
			asked("v1 empty result uses up its chunk")},
		{"28 octets asked of everything", "T-33", fileFixed,
			"if len(b) < FixedLen {\n\t\treturn 0,", "if len(b) < minV1 {\n\t\treturn 0,",
			asked("v1 ERR_CHUNK")},
		{"Reply chunk not returned", "T-34", fileReply,
			"p.Returned.HasReply = lists.HasReply", "p.Returned.HasReply = false",
			answered("v1 reply chunk not used")},
	}
}
