package main

// decision makes the row of a protocol decision (docs/protocol.md).
func decision(id string, r Row) Row {
	r.ID, r.Doc, r.Sec, r.Level = id, decisions, id, Decision
	return r
}

// rowsDecisions is the protocol decisions.
func rowsDecisions() []Row {
	return []Row{
		decision("D-1", Row{
			Text:  "Property operations are sent as procedures 6 to 9, accepted as option types 1 to 4 too, and answered in the form that came.",
			Wire:  "rdma_proc 6 gets 6 and 7 gets 8; opttype 1 gets 1 and 2 gets 3, direction 1; configured so, 5 with opttype 1 goes",
			Tests: tests(propServer("CONNPROP", "CONNPROP as an option", "REQPROP", "REQPROP as an option"), propClient("CONNPROP", "CONNPROP as an option"), opServer("as a procedure", "as an option")),
		}),
		decision("D-2", Row{
			Text:  "One code, 9, for an unknown option type; INVALID_PROC, 3, for an unknown procedure.",
			Wire:  "…, 4, 9 and …, 4, 3, with extensions loaded and without; a peer that says either of an operation of ours does not know it",
			Tests: tests(responder("v2 unknown option", "v2 unknown procedure"), opServer("unknown types and procedures", "all or none"), propServer("before the version stands"), propClient("INVALID_PROC", "INVALID_OPTION", "REQPROP is not supported", "UPDPROP is not supported"), opClient("INVALID_PROC and INVALID_OPTION")),
		}),
		decision("D-3", Row{
			Text:  "A client's first message is an RPC call of version 2 of at most 1024 octets: the caller's, or a NULL.",
			Wire:  "a call of 1080 octets goes behind a NULL of its program; CONNPROP behind the reply to the first call",
			Tests: tests(requester("v2 first message of 1024", "v2 one message before the first reply", "v1 first message of 1024"), propClient("CONNPROP")),
		}),
		decision("D-3/gate", Row{
			Text:  "Where an extension gates the connection the first message is NULL; until it is open a client's calls wait, and a server answers NULL and refuses all else. Version 1 gets ERR_VERS, 2 to 2, and is never talked.",
			Wire:  "AUTH_ERROR 1, AUTH_TOOWEAK 5; RDMA_ERROR ERR_VERS 2 2; NULL, what the gate has to say, and the call when it is open",
			Tests: tests(opClient("gate"), opServer("gate"), in("core/rpc", "TestGateAtTheClient", "TestGateAtTheServer", "TestGateAndRawPeers", "TestGateTakesVersion2", "TestGateAndBackwardCalls")),
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
		decision("D-8", Row{
			Text:  "Six receives beyond the credits for messages without a call; at most one CONNPROP, REQPROP and UPDPROP unconsumed, and none of a server's before its client has sent one.",
			Wire:  "with two calls under way of two granted REQPROP is answered; the second UPDPROP comes behind the reply to a call sent after the first, or when more calls have come than were granted",
			Tests: tests(propServer("none unasked", "update", "updates when many calls have come", "receives for operations when all credits are used"), propClient("update", "one REQPROP at a time", "CONNPROP takes a credit until the peer is known"), opServer("no server speaks first"), opClient("one at a time", "takes credits where nothing is known of the peer"), responder("v1 more calls than granted"), in("core/engine", "TestControlProofs", "TestControlNeverOverruns")),
		}),
		decision("D-9", Row{
			Text:  "rdma_credit is ignored in CONNPROP, REQPROP and UPDPROP, honoured in RESPROP and ERROR.",
			Wire:  "3, 4 and 0 in the former leave a grant of 32; 5 in RESPROP and 6 in ERROR are the grant, 0 is 1",
			Tests: tests(propClient("credits", "credits of options"), opClient("asks and is asked")),
		}),
		decision("D-10", Row{
			Text:  "CONNPROP, REQPROP and UPDPROP are calls, RESPROP and ERROR are replies.",
			Wire:  "the malformed among the former get BAD_XDR, a malformed RESPROP silence; direction 0, 0, 0 and 1 as options",
			Tests: tests(propServer("values that do not decode", "beyond the message", "RESPROP to nothing that was asked", "REQPROP in direction REPLY", "REQPROP as an option"), propClient("a malformed answer", "CONNPROP as an option")),
		}),
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
			Tests:  tests(responder("v2 RDMA_ERROR to a responder", "v2 RESPROP nobody asked for", "v2 unknown option as a reply", "v2 a reply nobody waits for"), requester("v2 malformed replies are not answered", "v2 an unknown operation as a call"), propServer("RESPROP to nothing that was asked"), propClient("a malformed answer", "answers that overlap"), opServer("an answer to nothing that was asked", "direction", "all or none")),
		}),
		decision("D-13", Row{
			Text:  "A property value that does not decode is BAD_XDR for its whole message.",
			Wire:  "3 and 8 octets of an enum, 3 where 2 is the most: …, 4, 2, and the size that stood before it is not taken; in a RESPROP: silence",
			Tests: tests(propServer("values that do not decode", "beyond the message", "rdma_nochg of more than there is"), propClient("a malformed answer"), in("props", "TestTranscripts")),
		}),
		decision("D-14", Row{
			Text:  "Unknown properties are skipped, or rejected where they were asked for.",
			Wire:  "property 0x63 with 5 octets, before and behind known ones; bit 0 of rdma_rejected",
			Tests: propServer("unknown properties", "unknown properties asked for", "position 32"),
		}),
		decision("D-15", Row{
			Text:  "Of a property given twice the last one counts; a second request is rejected.",
			Wire:  "RBSIZ 3000 and 2048: 2048; a depth of 5 and of 6: bit 0 done, bit 2 rejected",
			Tests: tests(propServer("a property twice", "asked for twice"), propClient("one REQPROP at a time")),
		}),
		decision("D-16", Row{
			Text:  "A value of no octets is the default.",
			Wire:  "RBSIZ with 0 octets behind one of 2048: Sends of 4096 again",
			Tests: propServer("no octets", "no octets asked for"),
		}),
		decision("D-17", Row{
			Text:  "Bit N of a subset is bit N mod 32 of word N div 32, the least significant being 0.",
			Wire:  "of 34, all unknown but that at position 32: done 0 1, rejected ffffffff 2",
			Tests: propServer("position 32", "rdma_nochg at position 32", "ours that will not change"),
		}),
		decision("D-18", Row{
			Text:  "A bit in rdma_nochg says that the property will not change.",
			Wire:  "bit 2 is set of three, of which the third is fixed; what the peer has set is not asked for",
			Tests: tests(propServer("ours that will not change", "theirs that will not change"), propClient("what is not asked", "CONNPROP with properties of extensions")),
		}),
		decision("D-19", Row{
			Text:  "Overlaps and gaps in a RESPROP are rejections, foreign items are ignored.",
			Wire:  "done and rejected, done and other, twice other, none: rejected; RBSIZ 2048 that was not asked for: Sends of 4096 still",
			Tests: propClient("answers that overlap", "answers that leave out", "answers about what was not asked"),
		}),
		decision("D-20", Row{
			Text:  "XIDs of property operations come from the generator of calls, and are looked up first when an ERROR comes; those of the peer's are echoed, and mean nothing else.",
			Wire:  "CONNPROP has the XID behind the first call's, REQPROP that behind the next call's; the peer's operations with the XID of a call under way leave it alone",
			Tests: tests(propClient("XIDs", "CONNPROP", "an answer to another XID"), opClient("INVALID_PROC and INVALID_OPTION")),
		}),
		decision("D-21", Row{
			Text:  "A second CONNPROP is an UPDPROP.",
			Wire:  "RBSIZ 2048 in the second: Sends of 2048, also after a third without it; no CONNPROP comes back",
			Tests: propServer("a second CONNPROP"),
		}),
		decision("D-22", Row{
			Text:  "RBSIZ counts the whole Send and is at least 4096. Of a peer's 1024 to 4095 limit our Sends, and less is ignored. More is announced when it is true, less done at once.",
			Wire:  "2048: a reply of 2048 octets comes inline, one of 2049 does not; 8192 asked for: 4096 in rdma_other, then UPDPROP 8192; 1024 asked for of 6000: 4096",
			Tests: tests(propServer("RBSIZ counts the whole Send", "RBSIZ above the default", "RBSIZ too small", "RBSIZ raised", "RBSIZ raised beyond what there is", "RBSIZ lowered"), propClient("asking for less", "asking for more", "RBSIZ as configured", "never below 4096"), in("core/engine", "TestOwnReceives", "TestSharedReceives", "TestOwnReceivesRefused")),
		}),
		decision("D-23", Row{
			Text:  "BRS is INLINE unless said otherwise; with NONE no call goes back.",
			Wire:  "no BRS: a call goes back, one of 5000 octets does not; 0: none does; 2: with chunks. A client that serves nothing says 0",
			Tests: tests(propServer("BRS is INLINE", "BRS is NONE", "BRS is GENL"), propClient("BRS", "BRS of a client that serves nothing")),
		}),
		decision("D-24", Row{
			Text:  "Properties that CONNPROP leaves out are at their default, and fixed: neither asked for nor, of ours, changed. Of the peer's an update is believed all the same.",
			Wire:  "an empty CONNPROP: no REQPROP comes; UPDPROP RBSIZ 2048: Sends of 2048; what ours left out is in no UPDPROP, and rejected where asked for",
			Tests: tests(propServer("left out", "of ours left out"), propClient("what is not asked")),
		}),
		decision("D-25", Row{
			Text:  "Version 2: the handle that the call names, if it is one of its own. Version 1: with R at both sides and one handle. Never with an error. The requester checks that the key is the call's, and ends the others itself.",
			Wire:  "Send With Invalidate of that key, else a plain Send; a foreign key is counted and its window ended as ever",
			Tests: tests(responder("v2 invalidates the key that is named", "v2 invalidates no key of another call", "v2 invalidates nothing with an error", "v1 invalidates the only key", "v1 invalidates none of two keys", "v1 invalidates nothing with an error", "v1 plain Send to a peer with R clear"), requester("v2 names a key of its own", "v2 the key of another call is invalidated", "v2 plain Send although a key was named", "v2 rdma_inv_handle of a reply", "v1 invalidated by a server with R clear")),
		}),
		decision("D-26", Row{
			Text:  "Octets behind a header without payload: BAD_XDR in version 2, ignored in version 1.",
			Wire:  "NOMSG, CONNPROP, REQPROP, UPDPROP and an OPTIONAL without a message with four octets behind them; behind an answer they are dropped with it",
			Tests: tests(responder("v2 octets behind NOMSG", "v1 octets behind NOMSG"), propServer("octets behind an operation"), propClient("a malformed answer"), opServer("octets behind it")),
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
		decision("D-38", Row{
			Text:  "An operation whose plugin is down or late is answered with SYSTEM, or dropped where nothing is answered; on a new connection it is as if it were not loaded.",
			Wire:  "…, 4, 0xa; a one-way one: silence; with none since the start: …, 4, 9 and …, 4, 3",
			Tests: tests(opServer("falls", "is late", "all or none"), in("extensions/host", "TestDown")),
		}),
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
