package main

// rowsRFC8166Headers is RFC 8166 section 4: headers and errors.
func rowsRFC8166Headers() []Row {
	var all []Row
	all = append(all, section(rfc8166, "4", Row{
		Level: Must,
		Text:  "Headers are XDR.",
		Wire:  "headers agree with what rpcgen's C code makes of the RFC's XDR; a bool of 2 and a list that ends early are ERR_CHUNK",
		Tests: tests(responder("v1 lists that are no XDR", "v1 lists cut short"), in("core/wire", "TestGolden", "TestLinux"), in("test/oracle", "TestLists", "TestErrors", "TestRandom")),
	})...)
	all = append(all, section(rfc8166, "4.2.1", Row{
		Level: Must,
		Text:  "rdma_xid is the XID of the RPC message.",
		Wire:  "the first word of header and message agree; a call where they do not is ERR_CHUNK, a reply is dropped",
		Tests: tests(requester("v1 inline", "v1 reply of another XID"), responder("v1 inline", "v1 another XID in the RPC message")),
	})...)
	all = append(all, section(rfc8166, "4.2.2", Row{
		Level: Must,
		Text:  "rdma_vers of version 1 is one.",
		Wire:  "00000001 in calls, replies and errors of version 1",
		Tests: tests(requester("v1 inline"), responder("v1 inline", "v1 MSGP")),
	})...)
	all = append(all, section(rfc8166, "4.2.4",
		Row{
			Level: Must,
			Text:  "RDMA_NOMSG has a chunk that holds the message.",
			Wire:  "a call without lists, or with a Reply chunk alone, is ERR_CHUNK; a reply without a filled Reply chunk is dropped",
			Tests: tests(responder("v1 NOMSG without chunks", "v1 NOMSG without the message", "v1 position zero"), requester("v1 NOMSG reply without its chunk")),
		},
		Row{
			Level: MustNot,
			Text:  "Requesters send no RDMA_ERROR.",
			Wire:  "nothing answers bad replies, errors, MSGP and DONE",
			Tests: requester("v1 replies to nobody", "v1 MSGP and DONE to a requester", "v1 read list in a reply", "v1 reply of another XID"),
		},
		Row{
			Level: Must,
			Text:  "Responders drop RDMA_ERROR.",
			Wire:  "ERR_CHUNK, ERR_VERS and an unknown code: the next answer is that of the next call",
			Tests: responder("v1 RDMA_ERROR to a responder"),
		},
	)...)
	all = append(all, section(rfc8166, "4.3.1", Row{
		Level: Must,
		Text:  "Replies have no Read list.",
		Wire:  "the word behind rdma_proc of a reply is 0; a reply of a peer that has one is dropped",
		Tests: tests(responder("v1 read chunk", "v1 position zero"), requester("v1 read list in a reply")),
	})...)
	all = append(all, section(rfc8166, "4.3.2", Row{
		Level: Must,
		Text:  "Eligible results go to the Write list that was provided.",
		Wire:  "even 5 octets that would fit inline lie in the chunk",
		Tests: responder("v1 write chunk", "v1 two write chunks", "v1 plain Send to a peer with R clear"),
	})...)
	all = append(all, section(rfc8166, "4.3.2.2",
		Row{
			Level: Must,
			Text:  "A chunk whose result is not there takes the next eligible one.",
			Wire:  "void arm: the second result lies in the first chunk, whose length comes back",
			Tests: tests(responder("v1 void arm"), requester("v1 void arm")),
		},
		Row{
			Level: Must,
			Text:  "So each Write chunk is as long as the largest item that may come there.",
			Wire:  "the second result lies in the first destination",
			Do:    "Callers size destinations; one that is too short is refused by the responder, whose error names the length in version 2.",
			Tests: requester("v1 void arm", "v1 two write chunks"),
		},
		Row{
			Level: Must,
			Text:  "The last chunk, when it is left over, comes back unused.",
			Wire:  "its segment with length 0",
			Tests: responder("v1 void arm", "v1 write chunk not used", "v1 results of no octets"),
		},
		Row{
			Level: MustNot,
			Text:  "Requesters do not take the memory of an unused chunk for unchanged.",
			Wire:  "written to and called unused: nothing of it is a result; behind a short length neither",
			Tests: requester("v1 memory of a chunk that comes back unused", "v1 shorter result than offered"),
		},
	)...)
	all = append(all, section(rfc8166, "4.3.2.3", Row{
		Level: Must,
		Text:  "An empty Write chunk asks for its result inline, and comes back empty.",
		Wire:  "count 0 in the call; in the reply the data behind its length word, and count 0",
		Tests: responder("v1 empty write chunk"),
	})...)
	all = append(all, section(rfc8166, "4.3.3",
		Row{
			Level: Must,
			Text:  "A Reply chunk is offered whenever the largest reply is above the threshold.",
			Wire:  "results of at most 5000 octets: a Reply chunk of 0x1530 (with the largest verifier); of 16: none",
			Tests: requester("v1 reply chunk", "v1 inline"),
		},
		Row{
			Level: Must,
			Text:  "The Reply chunk comes back in the reply.",
			Wire:  "its segments with the lengths used, all 0 where the message is inline",
			Tests: responder("v1 reply chunk", "v1 reply chunk of three segments", "v1 reply chunk not used"),
		},
	)...)
	all = append(all, section(rfc8166, "4.5",
		Row{
			Level:  Must,
			Text:   "What is shorter than 28 octets is dropped unread.",
			Wire:   "3, 8, 16, 24 and 27 octets: silence, and the next call is served",
			Do:     "An RDMA_ERROR with ERR_CHUNK has 20 octets (§4.1.2) and is read; everything else as asked (D-36).",
			Status: Departs,
			Tests:  tests(responder("v1 short"), requester("v1 ERR_CHUNK", "v1 replies to nobody")),
		},
		Row{
			Level: Must,
			Text:  "Other faults of a call's header are answered with RDMA_ERROR.",
			Wire:  "20 octets: XID, version, credits, 4, 2",
			Tests: responder("v1 lists cut short", "v1 lists that are no XDR", "v1 unknown procedure", "v1 odd position", "v1 positions decrease", "v1 read chunks overlap"),
		},
		Row{
			Level: Must,
			Text:  "Faults of a reply's header: it is dropped.",
			Wire:  "no octet goes back; the call ends with an error, or waits for a good reply",
			Tests: requester("v1 replies to nobody", "v1 read list in a reply", "v1 chunks nobody offered", "v1 more than was offered", "v1 another key than was offered"),
		},
		Row{
			Level: Must,
			Text:  "An error has the XID of what it answers.",
			Wire:  "the first word",
			Tests: responder("v1 ERR_VERS", "v1 MSGP", "v1 lists cut short"),
		},
		Row{
			Level: Must,
			Text:  "An error has the version of what it answers.",
			Wire:  "the second word: 0, 3 and ffffffff come back",
			Tests: responder("v1 ERR_VERS", "v1 MSGP"),
		},
		Row{
			Level: Must,
			Text:  "rdma_proc of an error is RDMA_ERROR.",
			Wire:  "the fourth word is 4",
			Tests: responder("v1 ERR_VERS", "v1 MSGP"),
		},
		Row{
			Level: Must,
			Text:  "An RDMA_ERROR that cannot be decoded is dropped.",
			Wire:  "code 0x63, no code, half a version range: the call still gets its reply",
			Tests: requester("v1 error that cannot be decoded", "v1 error that cannot be decoded, and no reply"),
		},
	)...)
	all = append(all, section(rfc8166, "4.5.1", Row{
		Level: Must,
		Text:  "A version that is not supported is answered with ERR_VERS and the range that is.",
		Wire:  "28 octets: …, 4, 1, low, high; 1..2, or 1..1 of a server without version 2",
		Tests: responder("v1 ERR_VERS", "v1 ERR_VERS before all else", "v1 ERR_VERS of a server with version 1 only"),
	})...)
	all = append(all, section(rfc8166, "4.5.2",
		Row{
			Level: Must,
			Text:  "A header that is no XDR, and what this section lists with it, is answered with ERR_CHUNK.",
			Wire:  "truncated lists, impossible values, NOMSG without chunks, unknown procedures, XIDs that differ, unusable chunks",
			Tests: responder("v1 lists cut short", "v1 lists that are no XDR", "v1 NOMSG without chunks", "v1 unknown procedure", "v1 another XID in the RPC message", "v1 write chunk too small", "v1 reply chunk too small", "v1 no reply chunk"),
		},
		Row{
			Level: Should,
			Text:  "Arguments that do not decode are GARBAGE_ARGS in an RDMA_MSG.",
			Wire:  "proc 0, accept_stat 4, no transport error",
			Tests: responder("v1 arguments that do not decode", "v1 chunk and arguments disagree"),
		},
	)...)
	all = append(all, section(rfc8166, "4.5.4",
		Row{
			Level: Must,
			Text:  "A requester that cannot invalidate closes the connection before the call ends.",
			Wire:  "no octets: an Invalidate fails, the connection goes down, and the call returns after that and not before",
			Tests: tests(in("test/conformance", "TestFailedInvalidateHoldsTheCall"), in("core/rpc", "TestFaults"), in("test/faults", "TestConnectionsThatEndKeepTheirPromises")),
		},
		Row{
			Level: Must,
			Text:  "A responder that cannot reply closes the connection.",
			Wire:  "no octets come back where there is no memory to answer in, and the connection ends; so it does for a peer that takes no answers",
			Tests: tests(in("test/conformance", "TestNoReplyEndsTheConnection"), in("core/rpc", "TestDeafClient")),
		},
	)...)
	all = append(all, section(rfc8166, "4.6.1",
		Row{
			Level: MustNot,
			Text:  "Nobody sends RDMA_MSGP.",
			Wire:  "rdma_proc of what we send is 0, 1 or 4 in every script; MSGP of a peer is not returned in kind",
			Tests: tests(responder("v1 MSGP"), requester("v1 read chunk", "v1 long call")),
		},
		Row{
			Level: Should,
			Text:  "A responder answers RDMA_MSGP with ERR_CHUNK.",
			Wire:  "20 octets: …, 4, 2",
			Tests: responder("v1 MSGP"),
		},
		Row{
			Level: Must,
			Text:  "A requester drops RDMA_MSGP.",
			Wire:  "the call still gets its reply",
			Tests: requester("v1 MSGP and DONE to a requester"),
		},
	)...)
	return append(all, section(rfc8166, "4.6.2",
		Row{
			Level: MustNot,
			Text:  "Nobody sends RDMA_DONE.",
			Wire:  "after a reply with chunks nothing but the next call leaves the requester",
			Tests: requester("v1 memory of a chunk that comes back unused", "v1 MSGP and DONE to a requester"),
		},
		Row{
			Level: Must,
			Text:  "RDMA_DONE is dropped.",
			Wire:  "16 and 28 octets of it: silence, at either side",
			Tests: tests(responder("v1 DONE"), requester("v1 MSGP and DONE to a requester")),
		},
	)...)
}
