package main

// decision makes the row of a protocol decision (docs/protocol.md).
func decision(id string, r Row) Row {
	r.ID, r.Doc, r.Sec, r.Level = id, decisions, id, Decision
	return r
}

// rowsDecisions is the protocol decisions.
func rowsDecisions() []Row {
	planned := func(id, until, text string) Row {
		return decision(id, Row{Text: text, Status: Planned, Until: until})
	}
	return []Row{
		planned("D-1", "cmd/rpcrdma-ext-props", "Property operations are sent as procedures 6 to 9, accepted as option types 1 to 4 too, and answered in the form that came."),
		decision("D-2", Row{
			Text:  "One code, 9, for an unknown option type; INVALID_PROC, 3, for an unknown procedure.",
			Wire:  "…, 4, 9 and …, 4, 3",
			Tests: responder("v2 unknown option", "v2 unknown procedure"),
		}),
		decision("D-3", Row{
			Text:  "A client's first message is an RPC call of version 2 of at most 1024 octets: the caller's, or a NULL.",
			Wire:  "a call of 1080 octets goes behind a NULL of its program",
			Tests: requester("v2 first message of 1024", "v2 one message before the first reply", "v1 first message of 1024"),
		}),
		decision("D-3/gate", Row{
			Text:  "Where an extension gates the connection the first message is NULL; until it is open a client's calls wait, and a server answers NULL and refuses all else. Version 1 gets ERR_VERS, 2 to 2, and is never talked.",
			Wire:  "AUTH_ERROR 1, AUTH_TOOWEAK 5; RDMA_ERROR ERR_VERS 2 2",
			Tests: in("core/rpc", "TestGateAtTheClient", "TestGateAtTheServer", "TestGateAndRawPeers", "TestGateTakesVersion2", "TestGateAndBackwardCalls"),
		}),
		decision("D-4", Row{
			Text:   "A server never speaks first, and keeps to the version of the first valid call.",
			Wire:   "nothing comes before the first call; a call of another version gets ERR_VERS low = high",
			Do:     "Departs from draft §7.3: a connection that mixes versions has no single receive size.",
			Status: Departs,
			Tests:  responder("v2 latched", "v1 latched", "v1 never speaks first", "v2 an error latches nothing"),
		}),
		decision("D-5", Row{
			Text:  "ERR_VERS is read whatever its version field says; the call goes again in the highest common version, on the same connection, with the same XID. Two lost probes mean version 1 as well.",
			Wire:  "xid 2 credits 4 1 1 1, and the same call in version 1's layout",
			Tests: tests(requester("v2 falls back to version 1", "v2 falls back on an ERR_VERS that says version 1", "v2 nothing in common", "v2 and nothing else", "v2 lost probes"), in("core/engine", "TestNegotiation", "TestVersionCache")),
		}),
		decision("D-6", Row{
			Text:  "Who can do version 2 takes 4096 octets from the start, and sends 1024 until the version is confirmed.",
			Wire:  "a first message of 4096 octets is served",
			Tests: tests(responder("v2 takes 4096 from the start"), requester("v2 first message of 1024")),
		}),
		decision("D-7", Row{
			Text:  "What 2 means is configured and not guessed.",
			Wire:  "with version 1 alone, a header that says 2 is another version, whatever follows",
			Tests: tests(in("core/wire", "TestV1Profile"), responder("v1 ERR_VERS of a server with version 1 only")),
		}),
		planned("D-8", "cmd/rpcrdma-ext-props", "Six receives beyond the credits for messages without a call; at most one CONNPROP, REQPROP and UPDPROP unconsumed."),
		planned("D-9", "cmd/rpcrdma-ext-props", "rdma_credit is ignored in CONNPROP, REQPROP and UPDPROP, honoured in RESPROP and ERROR."),
		planned("D-10", "cmd/rpcrdma-ext-props", "CONNPROP, REQPROP and UPDPROP are calls, RESPROP and ERROR are replies."),
		decision("D-11", Row{
			Text:  "A grant of 0 is taken as 1 and counted; ours is neither 0 nor above the receives; one above what we asked is cut. Send-queue slots bound what is posted as well.",
			Wire:  "after a grant of 0 the next call still leaves; ffffffff is 3 where 3 were asked for",
			Tests: tests(requester("v1 grant of zero", "v2 grant of zero", "v1 grant above what was asked", "v2 credits of an error"), responder("v1 grants what it has"), in("core/engine", "TestGrants", "TestCreditWords", "TestCreditSwitch"), in("core/rpc", "TestGrantsFollowLoad", "TestFaults/late,_short_queue")),
		}),
		decision("D-12", Row{
			Text:   "RDMA_ERROR goes to whoever sent something with an XID of its own, and never answers RDMA_ERROR, RESPROP, an OPTIONAL reply or an RPC reply.",
			Wire:   "silence, and the next call is answered",
			Do:     "Departs from draft §4.1 and §5.1.1: there the XID is ours, and the error would hit another call of the sender's.",
			Status: Departs,
			Tests:  tests(responder("v2 RDMA_ERROR to a responder", "v2 RESPROP nobody asked for", "v2 unknown option as a reply", "v2 a reply nobody waits for"), requester("v2 malformed replies are not answered", "v2 an unknown operation as a call")),
		}),
		planned("D-13", "cmd/rpcrdma-ext-props", "A property value that does not decode is BAD_XDR for its whole message."),
		planned("D-14", "cmd/rpcrdma-ext-props", "Unknown properties are skipped, or rejected where they were asked for."),
		planned("D-15", "cmd/rpcrdma-ext-props", "Of a property given twice the last one counts; a second request is rejected."),
		planned("D-16", "cmd/rpcrdma-ext-props", "A value of no octets is the default."),
		planned("D-17", "cmd/rpcrdma-ext-props", "Bit N of a subset is bit N mod 32 of word N div 32, the least significant being 0."),
		planned("D-18", "cmd/rpcrdma-ext-props", "A bit in rdma_nochg says that the property will not change."),
		planned("D-19", "cmd/rpcrdma-ext-props", "Overlaps and gaps in a RESPROP are rejections, foreign items are ignored."),
		planned("D-20", "cmd/rpcrdma-ext-props", "XIDs of property operations come from the generator of calls."),
		planned("D-21", "cmd/rpcrdma-ext-props", "A second CONNPROP is an UPDPROP."),
		planned("D-22", "cmd/rpcrdma-ext-props", "RBSIZ counts the whole Send and is at least 4096."),
		planned("D-23", "cmd/rpcrdma-ext-props", "BRS is INLINE unless said otherwise."),
		planned("D-24", "cmd/rpcrdma-ext-props", "Properties that CONNPROP leaves out are at their default, and fixed."),
		decision("D-25", Row{
			Text:  "Version 2: the handle that the call names, if it is one of its own. Version 1: with R at both sides and one handle. Never with an error. The requester checks that the key is the call's, and ends the others itself.",
			Wire:  "Send With Invalidate of that key, else a plain Send; a foreign key is counted and its window ended as ever",
			Tests: tests(responder("v2 invalidates the key that is named", "v2 invalidates no key of another call", "v2 invalidates nothing with an error", "v1 invalidates the only key", "v1 invalidates none of two keys", "v1 invalidates nothing with an error", "v1 plain Send to a peer with R clear"), requester("v2 names a key of its own", "v2 the key of another call is invalidated", "v2 plain Send although a key was named", "v2 rdma_inv_handle of a reply", "v1 invalidated by a server with R clear")),
		}),
		decision("D-26", Row{
			Text:  "Octets behind a header without payload: BAD_XDR in version 2, ignored in version 1.",
			Wire:  "NOMSG with four octets behind it",
			Tests: responder("v2 octets behind NOMSG", "v1 octets behind NOMSG"),
		}),
		decision("D-27", Row{
			Text:  "A header that contradicts the RPC message's type: BAD_XDR on a call, dropped on a reply.",
			Wire:  "direction 0 with a reply inside; direction 1 with a call inside",
			Tests: responder("v2 a reply in a header that says CALL", "v2 a call in a header that says REPLY"),
		}),
		decision("D-28", Row{
			Text:  "Round-up is never written; Read chunks with and without it are taken, ours have none.",
			Wire:  "memory behind the data is untouched; 8 octets for an item of 5 are as good as 5",
			Tests: tests(responder("v1 write chunk", "v1 two write chunks", "v1 read chunk with round-up", "v1 read chunk with round-up of its own"), requester("v1 read chunk", "v1 chunk with the round-up in its length")),
		}),
		decision("D-29", Row{
			Text:  "Several Read chunks, and position zero beside others, are understood; to version 1 peers one chunk is sent, never beside position zero.",
			Wire:  "one position in the Read list of a version 1 call with two bulk items",
			Tests: tests(responder("v1 two read chunks", "v1 position zero and a read chunk"), requester("v1 one read chunk to a version 1 peer", "v1 long call has one chunk", "v2 several read chunks")),
		}),
		decision("D-30", Row{
			Text:  "Empty Write chunks are accepted; version 1 peers get none.",
			Wire:  "count 0 in the Write list",
			Tests: tests(responder("v1 empty write chunk"), requester("v1 no empty write chunk", "v2 empty write chunk")),
		}),
		decision("D-31", Row{
			Text:  "A short reply returns the Reply chunk with all lengths zero.",
			Wire:  "1, count, handle, 0, offset",
			Tests: responder("v1 reply chunk not used", "v2 takes 4096 from the start", "v1 reduced before the reply chunk"),
		}),
		decision("D-32", Row{
			Text:  "Whenever the reply may be above our receive a Reply chunk is offered.",
			Wire:  "5000 octets expected: 1, 1, handle, 0x1530, offset",
			Tests: requester("v1 reply chunk", "v2 reply chunk"),
		}),
		decision("D-33", Row{
			Text:  "What does not fit: ERR_CHUNK; in version 2 WRITE_RESOURCE with index and length, REPLY_RESOURCE with length. The requester sends the same XID again with more room where the caller allows it, and it is not executed again.",
			Wire:  "…, 4, 7, 2, 0x65 and …, 4, 8, 0x13a8; the same XID with a chunk of 0x1389",
			Tests: tests(responder("v1 write chunk too small", "v1 reply chunk too small", "v2 write chunk too small", "v2 reply chunk too small", "v2 more room for the same call"), requester("v2 more room", "v2 no more room without leave"), in("core/rpc", "TestMayGrow")),
		}),
		decision("D-34", Row{
			Text:  "READ_CHUNKS or WRITE_CHUNKS with 0: the call goes as a position-zero chunk, the result comes in the Reply chunk.",
			Wire:  "the same XID as RDMA2_NOMSG at position 0; with a Reply chunk of 0x1540 and no Write list",
			Tests: tests(requester("v2 no read chunks", "v2 no write chunks"), in("core/rpc", "TestChunkLimits")),
		}),
		decision("D-35", Row{
			Text:  "Errors that cannot be decoded are dropped and counted; the call ends by its deadline, or after the call timeout.",
			Wire:  "code 0x63: the reply that follows is taken",
			Tests: requester("v2 replies to nobody", "v1 error that cannot be decoded", "v1 error that cannot be decoded, and no reply"),
		}),
		decision("D-36", Row{
			Text:   "Below 16 octets nothing is believed; version 1 below 28 but for RDMA_ERROR; version 2 has a minimum for each procedure.",
			Wire:   "12 octets: silence; version 2, MSG of 16 and 32 octets: BAD_XDR; ERR_CHUNK of 20 octets is read",
			Do:     "Departs from RFC 8166 §4.5, whose 28 octets would forbid its own ERR_CHUNK.",
			Status: Departs,
			Tests:  tests(responder("v1 short", "v2 short"), requester("v1 ERR_CHUNK", "v2 header too short"), in("core/rpc", "TestShortMessages")),
		}),
		decision("D-37", Row{
			Text:  "The header's faults are ERR_CHUNK or BAD_XDR; arguments, and chunks that disagree with them, GARBAGE_ARGS.",
			Wire:  "a Read chunk at position 0x190 of a message of 44 octets: accept_stat 4",
			Tests: responder("v1 chunk and arguments disagree", "v1 arguments that do not decode", "v2 arguments that do not decode", "v1 odd position"),
		}),
		planned("D-38", "cmd/rpcrdma-ext-props", "An operation whose plugin is down is answered with SYSTEM, or dropped where nothing is answered."),
		decision("D-39", Row{
			Text:  "Over iWARP the first message is held back, unless the peer says R.",
			Wire:  "with a pause of an hour nothing leaves towards a peer with R = 0, and at once towards one with R = 1",
			Tests: requester("v2 waits after the set-up", "v2 waits for no peer with R"),
		}),
		decision("D-40", Row{
			Text:  "Version 1: MSGP is ERR_CHUNK, DONE is dropped, a requester drops both. Version 2: INVALID_PROC.",
			Wire:  "rdma_proc 2 and 3",
			Tests: tests(responder("v1 MSGP", "v1 DONE", "v2 MSGP and DONE"), requester("v1 MSGP and DONE to a requester")),
		}),
		decision("D-41", Row{
			Text:  "A call whose memory could not be reached ends the connection; sent again it is answered with ERR_CHUNK (SYSTEM in version 2), once.",
			Wire:  "key 00001234: the connection ends; the same XID on the next one: …, 4, 2",
			Do:    "Over iWARP a refused RDMA Write is not traced to its call: there the requester's bound on retransmissions ends the loop.",
			Tests: tests(responder("v1 key that is none, read", "v1 key that is none, write", "v2 key that is none"), in("core/rpc", "TestBadKey")),
		}),
	}
}
