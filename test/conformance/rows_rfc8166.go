package main

// rowsRFC8166 is RFC 8166 up to section 3: concepts, credits, chunks.
func rowsRFC8166() []Row {
	var all []Row
	all = append(all, section(rfc8166, "2.3.2", Row{
		Level: Must,
		Text:  "Registered memory is named by a steering tag of 32 bits and addresses of 64 bits.",
		Wire:  "a segment is handle (4), length (4), offset (8 octets)",
		Tests: tests(requester("v1 read chunk", "v1 write chunk"), in("core/wire", "TestGolden")),
	})...)
	all = append(all, section(rfc8166, "3.3.1",
		Row{
			Level: MustNot,
			Text:  "A requester has no more unanswered calls in flight than it was granted.",
			Wire:  "with a grant of 2 the third call leaves when a reply has come, not before",
			Tests: requester("v1 in flight as granted", "v1 a cancelled call keeps its credit"),
		},
		Row{
			Level: MustNot,
			Text:  "A grant is never zero.",
			Wire:  "rdma_credit of a reply is 0x40 (or what was configured), whatever the call asks for",
			Tests: responder("v1 grants what it has"),
		},
		Row{
			Level: Must,
			Text:  "More credits are granted only when the receives for them are there.",
			Wire:  "as many calls as the first reply grants arrive at once and are served; the receives are posted before the connection is up, and a call's own again before its reply leaves",
			Tests: tests(responder("v1 as many calls as granted"), in("core/rpc", "TestCreditsLimitCalls", "TestGrantsFollowLoad")),
		},
		Row{
			Level: Must,
			Text:  "A requester has receives for all replies that it expects.",
			Wire:  "a grant of ffffffff is cut to what was asked for, the number of our receives",
			Tests: requester("v1 grant above what was asked"),
		},
	)...)
	all = append(all, section(rfc8166, "3.3.3",
		Row{
			Level: MustNot,
			Text:  "A requester assumes one credit until a valid reply has told the number.",
			Wire:  "no second call between the first one and its reply",
			Tests: requester("v1 one call before the first reply", "v1 one credit on a new connection"),
		},
		Row{
			Level: Must,
			Text:  "It waits for that valid reply before its next call: errors and garbage open nothing.",
			Wire:  "after an RDMA_ERROR that cannot be decoded, a reply to nobody and 3 octets of garbage nothing is sent",
			Tests: requester("v1 no reply, no second call"),
		},
		Row{
			Level: Must,
			Text:  "Receives of 1024 octets at least.",
			Wire:  "a call of 972 octets of a client without private data is served",
			Tests: responder("v1 threshold without private data"),
		},
		Row{
			Level: Must,
			Text:  "Without another mechanism both thresholds are 1024 octets.",
			Wire:  "a message of 1024 octets is inline; a result or an argument one octet longer is not, towards a peer without private data",
			Tests: tests(responder("v1 threshold without private data"), requester("v1 threshold without private data")),
		},
	)...)
	all = append(all, section(rfc8166, "3.4.2", Row{
		Level: MustNot,
		Text:  "Only items that a binding makes eligible are moved.",
		Wire:  "the opaque of ECHO stays inline although everything above 100 octets is to be moved; one that the peer moves is refused",
		Tests: tests(requester("v1 an item that may not be moved"), responder("v1 an item that may not be moved"), in("core/xdr", "TestMovedWithoutLeave")),
	})...)
	all = append(all, section(rfc8166, "3.4.4.1", Row{
		Level: Must,
		Text:  "The count of a moved array stays in the stream, its elements leave it.",
		Wire:  "call and reply keep the length word; the chunk begins with the first octet of the data",
		Tests: tests(requester("v1 read chunk", "v1 write chunk"), responder("v1 read chunk", "v1 write chunk")),
	})...)
	all = append(all, section(rfc8166, "3.4.4.2", Row{
		Level:  Must,
		Text:   "Of moved optional data the word that tells its presence stays in the stream.",
		Do:     "Bulk items are opaque<> only; an optional item cannot be marked as one.",
		Status: NotOurs,
	})...)
	all = append(all, section(rfc8166, "3.4.4.3", Row{
		Level: MustNot,
		Text:  "A union is not moved as a whole, an item within its arm may be.",
		Wire:  "the discriminant is inline, the arm's opaque in the chunk",
		Tests: tests(responder("v1 two write chunks", "v1 void arm"), requester("v1 two write chunks")),
	})...)
	all = append(all, section(rfc8166, "3.4.4.4",
		Row{
			Level: Must,
			Text:  "A chunk holds exactly one item.",
			Wire:  "a Read chunk longer or shorter than the item at its position is GARBAGE_ARGS; two items come in two chunks",
			Tests: responder("v1 chunk and arguments disagree", "v1 two read chunks", "v1 two write chunks"),
		},
		Row{
			Level: Must,
			Text:  "The round-up of a moved item leaves the stream with it.",
			Wire:  "behind the length word of 101 octets nothing, or the next item, follows at once",
			Tests: tests(requester("v1 read chunk", "v2 several read chunks"), responder("v1 two read chunks", "v1 two write chunks")),
		},
	)...)
	all = append(all, section(rfc8166, "3.4.5",
		Row{
			Level: Must,
			Text:  "Positions count from the beginning of the unreduced stream.",
			Wire:  "0x2c for an item behind header and length word; 0x9c for the one behind an item of 101 octets, whether that is moved or inline",
			Tests: tests(requester("v2 several read chunks", "v1 one read chunk to a version 1 peer"), responder("v1 two read chunks", "v1 second item moved, first inline")),
		},
		Row{
			Level: Must,
			Text:  "Positions are multiples of four.",
			Wire:  "0x2a is answered with ERR_CHUNK; segments of odd lengths share their chunk's position",
			Tests: tests(responder("v1 odd position", "v1 read chunk of odd segments"), requester("v1 segments of one position")),
		},
	)...)
	all = append(all, section(rfc8166, "3.4.5.2",
		Row{
			Level: ShouldNot,
			Text:  "A Read chunk does not include the round-up.",
			Wire:  "rdma_length 0x65 for 101 octets; an RDMA Read of 104 is refused",
			Tests: requester("v1 read chunk", "v1 read chunk ends where the data ends"),
		},
		Row{
			Level: Must,
			Text:  "With round-up, the chunk's length is that of item and round-up.",
			Wire:  "8 octets for an item of 5 are taken, as one segment and as two",
			Tests: responder("v1 read chunk with round-up", "v1 read chunk with round-up of its own"),
		},
		Row{
			Level: Must,
			Text:  "Without round-up, the chunk's length is the item's.",
			Wire:  "5 octets for an item of 5 are taken; 4 and 12 are GARBAGE_ARGS",
			Tests: responder("v1 read chunk", "v1 chunk and arguments disagree"),
		},
	)...)
	all = append(all, section(rfc8166, "3.4.6",
		Row{
			Level: Must,
			Text:  "Write chunks are long enough for the largest result.",
			Wire:  "rdma_length is the destination's, and the caller's bound on the result",
			Do:    "The caller names the destination; a longer result is its error, and is refused before an octet is written.",
			Tests: tests(requester("v1 write chunk", "v1 two write chunks"), in("core/rpc", "TestReplyTooLong")),
		},
		Row{
			Level: Must,
			Text:  "A responder returns count and segments of each Write chunk.",
			Wire:  "handles, offsets and count of the call come back; lengths are what was written, 0 in segments that were not needed",
			Tests: responder("v1 write chunk", "v1 write chunk of two segments", "v1 write chunk with segments left over", "v1 write chunk not used"),
		},
	)...)
	all = append(all, section(rfc8166, "3.4.6.2",
		Row{
			Level: ShouldNot,
			Text:  "A Write chunk has no room for round-up.",
			Wire:  "rdma_length 0x1389 for 5001 octets; an RDMA Write of 5004 ends the connection",
			Tests: requester("v1 write chunk", "v1 write chunk has no room for round-up"),
		},
		Row{
			Level: MustNot,
			Text:  "A responder does not write round-up, even where there is room.",
			Wire:  "behind the data the memory holds what it held",
			Tests: responder("v1 write chunk", "v1 two write chunks"),
		},
		Row{
			Level: Must,
			Text:  "The returned length is the item's.",
			Wire:  "0x0bb9 for 3001 octets",
			Tests: responder("v1 write chunk", "v1 two write chunks"),
		},
	)...)
	return append(all, section(rfc8166, "3.5.3",
		Row{
			Level: Must,
			Text:  "A message that is too large even when it is reduced goes by RDMA.",
			Wire:  "call: RDMA_NOMSG with a chunk at position 0; reply: RDMA_NOMSG with the Reply chunk filled",
			Tests: tests(requester("v1 long call"), responder("v1 reply chunk", "v1 reduced, and the reply chunk")),
		},
		Row{
			Level: Must,
			Text:  "All segments of that call chunk have position zero.",
			Wire:  "two segments at position 0 are one message; a call of ours has position 00000000",
			Tests: tests(requester("v1 long call"), responder("v1 position zero", "v1 position zero in two segments")),
		},
		Row{
			Level: Must,
			Text:  "A reduced reply above the threshold takes the Reply chunk that was provided.",
			Wire:  "RDMA_NOMSG, the item in its Write chunk, the rest in the Reply chunk; below the threshold RDMA_MSG with the Reply chunk's lengths 0",
			Tests: responder("v1 reply chunk", "v1 reduced, and the reply chunk", "v1 reduced before the reply chunk", "v1 reply chunk not used"),
		},
		Row{
			Level: Must,
			Text:  "Long messages keep the round-up of their items.",
			Wire:  "5001 octets and 3 zeros behind them, in the call's and in the reply's chunk",
			Tests: tests(requester("v1 long call"), responder("v1 reply chunk")),
		},
	)...)
}
