package main

// rowsRFC8167 is RFC 8167, backward calls, by its drafts and what is known of the final text.
func rowsRFC8167() []Row {
	var all []Row
	all = append(all, section(rfc8167, "2.4", Row{
		Level: Must,
		Text:  "XIDs of the two directions are apart: the same one may be pending in both.",
		Wire:  "a forward call with the XID of a backward call that is pending, and the other way round: each gets its reply",
		Tests: tests(responder("v1 same XID in both directions"), requester("v1 serves a call back with the XID of its own"), in("core/rpc", "TestBackwardOctetsOfTheServer", "TestBackwardOctetsOfTheClient")),
	})...)
	all = append(all, section(rfc8167, "4.1",
		Row{
			Level: MustNot,
			Text:  "rdma_credit of a backward message is not zero.",
			Wire:  "00000008 in calls and replies; a client that takes none still says 1 in its errors; a 0 of the peer's is taken as 1",
			Tests: tests(responder("v1 calls back", "v1 backward grant of zero"), requester("v1 serves a call back", "v2 an unknown operation as a call")),
		},
		Row{
			Level: Must,
			Text:  "Credits are counted for each direction by itself.",
			Wire:  "with a backward grant of 2 the third call waits, whatever forward replies grant; forward grants stay as they were",
			Tests: tests(responder("v1 credits of each direction"), requester("v1 serves a call back with the XID of its own"), in("core/rpc", "TestBackwardGrants", "TestBackwardFlood")),
		},
	)...)
	all = append(all, section(rfc8167, "4.3",
		Row{
			Level: MustNot,
			Text:  "Of a message too short for a header and an RPC message nothing is believed.",
			Wire:  "12 octets, and a header without a message, with 7 credits: the grant stays 1",
			Tests: responder("v1 short message amid backward calls"),
		},
		Row{
			Level: Must,
			Text:  "Its credits are ignored and it is dropped.",
			Wire:  "the call that is pending gets its reply, and the grant of that",
			Tests: responder("v1 short message amid backward calls", "v1 short", "v1 no RPC message"),
		},
	)...)
	all = append(all, section(rfc8167, "5.1",
		Row{
			Level: Must,
			Text:  "rdma_vers of a backward call of version 1 is one.",
			Wire:  "second word 00000001",
			Tests: responder("v1 calls back"),
		},
		Row{
			Level: Must,
			Text:  "Its rdma_proc is RDMA_MSG.",
			Wire:  "fourth word 0; a call that does not fit inline is not sent",
			Tests: responder("v1 calls back", "v1 backward call that does not fit inline"),
		},
		Row{
			Level: Must,
			Text:  "Its three chunk lists are empty.",
			Wire:  "three words of 0",
			Tests: responder("v1 calls back"),
		},
		Row{
			Level: Must,
			Text:  "The RPC call follows, with the header's XID.",
			Wire:  "octets 0 to 3 again at 28",
			Tests: responder("v1 calls back"),
		},
		Row{
			Level: Must,
			Text:  "Its msg_type is CALL.",
			Wire:  "octets 32 to 35 are 0",
			Tests: responder("v1 calls back"),
		},
	)...)
	all = append(all, section(rfc8167, "5.2",
		Row{
			Level: Must,
			Text:  "rdma_vers of a backward reply of version 1 is one.",
			Wire:  "second word 00000001",
			Tests: requester("v1 serves a call back"),
		},
		Row{
			Level: Must,
			Text:  "Its rdma_proc is RDMA_MSG.",
			Wire:  "fourth word 0; a reply that does not fit inline is ERR_CHUNK",
			Tests: requester("v1 serves a call back", "v1 reply backward that does not fit inline"),
		},
		Row{
			Level: Must,
			Text:  "Its three chunk lists are empty.",
			Wire:  "three words of 0",
			Tests: requester("v1 serves a call back"),
		},
		Row{
			Level: Must,
			Text:  "The RPC reply follows, with the header's XID.",
			Wire:  "octets 0 to 3 again at 28",
			Tests: requester("v1 serves a call back"),
		},
		Row{
			Level: Must,
			Text:  "Its msg_type is REPLY.",
			Wire:  "octets 32 to 35 are 1",
			Tests: requester("v1 serves a call back"),
		},
	)...)
	all = append(all, section(rfc8167, "5.3", Row{
		Level: Must,
		Text:  "Chunks where none are taken are refused.",
		Wire:  "Read list, Write list, Reply chunk in a call to a client: 20 octets, …, 4, 2",
		Tests: tests(requester("v1 takes no chunks backward"), in("core/rpc", "TestHostileBackwardCalls")),
	})...)
	all = append(all, section(rfc8167, "5.4", Row{
		Level: MustNot,
		Text:  "A backward call is not sent twice on one connection; only the client makes a new one.",
		Wire:  "nothing comes while its reply is missing; on the connection that is bound next the same XID",
		Tests: tests(responder("v1 backward call is not sent again on its connection"), in("core/rpc", "TestBackwardReconnection", "TestBackwardWithoutConnection")),
	})...)
	all = append(all, section(rfc8167, "6",
		Row{
			Level: MustNot,
			Text:  "Support is not assumed: a server calls back when its program has been told.",
			Wire:  "nothing comes to a peer that has called, and not asked for it",
			Tests: responder("v1 nothing backward before it is asked for", "v1 never speaks first"),
		},
		Row{
			Level: Must,
			Text:  "Who serves nothing backward drops what comes.",
			Wire:  "silence, and its own calls go on",
			Tests: requester("v1 drops calls where it serves nothing"),
		},
	)...)
	return secondHand(all)
}
