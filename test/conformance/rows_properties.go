package main

// rowsDraftProperties is section 5 of the draft: transport properties.
func rowsDraftProperties() []Row {
	var all []Row
	add := func(sec string, rows ...Row) { all = append(all, section(draft, sec, rows...)...) }
	add("5.1.1",
		Row{
			Level: Must,
			Text:  "A property value that goes beyond the message is an XDR error.",
			Wire:  "a length of 8 where 4 octets are left, of ffffffff, of 4 where none are: …, 4, 2, for CONNPROP, UPDPROP and REQPROP",
			Tests: propServer("beyond the message"),
		},
		Row{
			Level: Must,
			Text:  "So is a known property's value that does not decode, by length or by content.",
			Wire:  "3 octets and 8 of an enum, 3 where 2 is the most: …, 4, 2",
			Do:    "Octets left over are one too, and nothing of the message is applied (D-13).",
			Tests: propServer("values that do not decode"),
		},
		Row{
			Level: Says,
			Text:  "A value of no octets is the default.",
			Wire:  "UPDPROP RBSIZ with 0 octets: Sends of 4096 again",
			Tests: propServer("no octets", "no octets asked for"),
		},
		Row{
			Level: Says,
			Text:  "An unknown property is no error; those behind it are processed.",
			Wire:  "property 0x63 with 5 octets of anything, RBSIZ behind it",
			Tests: propServer("unknown properties", "unknown properties asked for"),
		},
		Row{
			Level: Says,
			Text:  "A propset has no order.",
			Wire:  "property ffffff10, then 2, then 1",
			Tests: propServer("any order", "REQPROP of which each has its own fate"),
		},
		Row{
			Level: Says,
			Text:  "Bit N mod 32 of word N div 32 is for position N; words that are not there are 0.",
			Wire:  "positions 0 to 33 take two words; of a fixed third of three the subset is one word, 4; of none it has no word",
			Tests: propServer("position 32", "rdma_nochg at position 32", "ours that will not change", "CONNPROP"),
		},
	)
	add("5.2",
		Row{
			Level: Says,
			Text:  "RBSIZ is property 1, a uint32, 4096 by default; BRS property 2, INLINE by default.",
			Wire:  "an empty CONNPROP: Sends of 4096, calls go back inline",
			Tests: propServer("left out", "BRS is INLINE", "CONNPROP"),
		},
		Row{
			Level: Says,
			Text:  "A request for a change may be rejected for any reason; one to an endpoint without REQPROP is.",
			Wire:  "bits of rdma_rejected, ours and the peer's; INVALID_PROC and INVALID_OPTION for REQPROP",
			Tests: tests(propServer("REQPROP of which each has its own fate", "RBSIZ raised beyond what there is"), propClient("REQPROP is not supported", "asking for less")),
		},
	)
	add("5.2.1",
		Row{
			Level: Says,
			Text:  "Receives are at least as long as RBSIZ says.",
			Wire:  "after UPDPROP 8192 a call of 5080 octets is served",
			Tests: tests(propServer("RBSIZ raised"), propClient("RBSIZ as configured"), in("core/engine", "TestOwnReceives", "TestSharedReceives")),
		},
		Row{
			Level: Says,
			Text:  "The sender's messages are as long as the peer's RBSIZ allows: it decides over Position-Zero and Reply chunks.",
			Wire:  "2048: a reply of 2048 octets is inline, of 2049 it wants a Reply chunk; a call of 3080 goes as a Position-Zero chunk; 8192: 5080 inline",
			Tests: tests(propServer("RBSIZ counts the whole Send", "RBSIZ above the default"), propClient("asking for less", "asking for more")),
		},
		Row{
			Level: Says,
			Text:  "A larger size is told when all shorter receives are gone.",
			Wire:  "REQPROP 8192: rdma_other says 4096, and UPDPROP 8192 comes when it is true",
			Tests: tests(propServer("RBSIZ raised", "RBSIZ raised beyond what there is"), propClient("RBSIZ as configured"), in("core/engine", "TestOwnReceives")),
		},
		Row{
			Level: Says,
			Text:  "A size is lowered at the peer's request only.",
			Wire:  "REQPROP 6000 of 8192: done; a program that wants to lower its own gets an error, and no octet goes",
			Tests: tests(propServer("RBSIZ lowered"), in("props", "TestReceiveSize")),
		},
		Row{
			Level: Says,
			Text:  "Who asks for a lower size keeps to it from then on, until that is rejected.",
			Wire:  "behind REQPROP 2048 a call of 3080 octets goes as a Position-Zero chunk; behind its rejection inline",
			Tests: propClient("asking for less"),
		},
	)
	add("5.2.2",
		Row{
			Level: Says,
			Text:  "BRS is a client's readiness for backward calls.",
			Wire:  "in a client's CONNPROP: 1 where it serves programs, 0 where it does not; in no server's",
			Tests: tests(propClient("BRS", "BRS of a client that serves nothing", "CONNPROP"), propServer("CONNPROP")),
		},
		Row{
			Level: Says,
			Text:  "NONE: no backward calls.",
			Wire:  "a call of the server's ends where it is made, and no octet comes",
			Tests: propServer("BRS is NONE"),
		},
		Row{
			Level: Says,
			Text:  "INLINE: no chunks in them.",
			Wire:  "a call of 5000 octets ends where it is made",
			Tests: propServer("BRS is INLINE"),
		},
		Row{
			Level: Says,
			Text:  "GENL: as forward.",
			Wire:  "a call of 5000 octets comes as a Position-Zero chunk",
			Tests: propServer("BRS is GENL"),
		},
		Row{
			Level: Says,
			Text:  "What a server takes in reply is what its calls allow.",
			Wire:  "a reply with chunks only into those that its call has",
			Tests: requester("v2 backward chunks are served", "v1 reply backward that does not fit inline"),
		},
	)
	add("5.3",
		Row{
			Level: Must,
			Text:  "A property operation that is not supported is answered with INVALID_OPTION.",
			Wire:  "opttypes 1, 2 and 4 without props: …, 4, 9; procedures 6, 7 and 9: …, 4, 3, which says the same (D-2); RESPROP: silence (D-12)",
			Tests: opServer("unknown types and procedures"),
		},
		Row{
			Level: Says,
			Text:  "Support for each operation is OPTIONAL.",
			Wire:  "a peer that refuses CONNPROP is one of defaults; one that refuses REQPROP is asked once, one that refuses UPDPROP told once",
			Tests: propClient("INVALID_PROC", "INVALID_OPTION", "REQPROP is not supported", "UPDPROP is not supported"),
		},
		Row{
			Level: Says,
			Text:  "Who sends REQPROP takes RESPROP; who takes RESPROP or UPDPROP takes CONNPROP.",
			Wire:  "all four or none: loaded they are answered and taken, not loaded each is refused",
			Tests: tests(opServer("unknown types and procedures"), propServer("CONNPROP", "REQPROP", "left out"), propClient("one REQPROP at a time", "asking for more")),
		},
		Row{
			Level: Says,
			Text:  "None of the operations has an RPC message.",
			Wire:  "four octets behind each of them: …, 4, 2; behind RESPROP: silence",
			Tests: tests(propServer("octets behind an operation"), propClient("a malformed answer")),
		},
	)
	add("5.3.1",
		Row{
			Level: Says,
			Text:  "CONNPROP has all properties that matter.",
			Wire:  "RBSIZ, a client's BRS, and those of each extension",
			Tests: tests(propServer("ours that will not change", "CONNPROP"), propClient("CONNPROP", "CONNPROP with properties of extensions")),
		},
		Row{
			Level: Says,
			Text:  "rdma_nochg is the properties that will not change.",
			Wire:  "bit 2 of three, of which the third is fixed",
			Do:    "Section 5.1.1 says the opposite (D-18).",
			Tests: propServer("ours that will not change", "theirs that will not change"),
		},
		Row{
			Level: Says,
			Text:  "It is the first message after a connection's beginning.",
			Wire:  "a client's is the first behind the reply to its first call, a server's answers it",
			Do:    "Before that no version stands, and nothing would answer it (D-3, D-8).",
			Tests: tests(propClient("CONNPROP", "version 1"), propServer("none unasked", "before the version stands")),
		},
		Row{
			Level: Says,
			Text:  "It fits into the default receive.",
			Wire:  "no more than 4096 octets: what has no room is left out",
			Tests: in("props", "TestTranscripts"),
		},
		Row{
			Level: Says,
			Text:  "What it leaves out has its default, does not change, and is not asked for.",
			Wire:  "an empty CONNPROP: no REQPROP; what ours left out is rejected, and in no UPDPROP",
			Tests: tests(propServer("left out", "of ours left out"), propClient("what is not asked")),
		},
		Row{
			Level: Says,
			Text:  "The sender can do with a peer that takes no note of it.",
			Wire:  "refused, or nothing comes back: calls go on as before",
			Tests: tests(propClient("INVALID_PROC", "INVALID_OPTION", "CONNPROP takes a credit until the peer is known"), in("props", "TestTranscripts")),
		},
		Row{
			Level: Says,
			Text:  "Unknown properties in it are ignored without an error.",
			Wire:  "property 0x63: a CONNPROP comes back",
			Tests: propServer("unknown properties", "rdma_nochg at position 32"),
		},
	)
	add("5.3.2",
		Row{
			Level: Says,
			Text:  "Client and server may send REQPROP; who supports it answers with RESPROP.",
			Wire:  "7 and its XID: 8 with the same; both ways",
			Tests: tests(propServer("REQPROP", "theirs that will not change"), propClient("one REQPROP at a time", "credits")),
		},
		Row{
			Level: Says,
			Text:  "Its XID need not avoid those of RPC messages, nor of the peer's REQPROPs.",
			Wire:  "one with the XID of a call of ours is answered, and the call goes on",
			Do:    "Ours avoid those of our calls, so that an ERROR names one thing (D-20).",
			Tests: propClient("XIDs"),
		},
		Row{
			Level: Says,
			Text:  "The change need not be as requested.",
			Wire:  "a depth of 9: 8 in rdma_other",
			Tests: tests(propServer("REQPROP of which each has its own fate"), propClient("one REQPROP at a time", "asking for more")),
		},
	)
	add("5.3.3",
		Row{
			Level: MustNot,
			Text:  "rdma_other of a RESPROP names no property that was not asked for.",
			Wire:  "of four asked for one is in it, of done and rejected ones none",
			Tests: propServer("REQPROP of which each has its own fate", "REQPROP", "position 32"),
		},
		Row{
			Level: Must,
			Text:  "Where it does, the receiver ignores those.",
			Wire:  "RBSIZ 2048 in answer to something else: Sends of 4096 still",
			Tests: propClient("answers about what was not asked"),
		},
		Row{
			Level: MustNot,
			Text:  "rdma_done, rdma_rejected and rdma_other do not overlap, and cover what was asked.",
			Wire:  "of four: bit 3, bits 0 and 2, and the property at 1",
			Tests: propServer("REQPROP of which each has its own fate", "position 32", "asked for twice"),
		},
		Row{
			Level: Should,
			Text:  "What overlaps or is missing is taken as rejected.",
			Wire:  "done and rejected, done and other, twice other, none",
			Tests: propClient("answers that overlap", "answers that leave out"),
		},
		Row{
			Level: Must,
			Text:  "Its XID is the REQPROP's.",
			Wire:  "the first word; one with another XID answers nothing",
			Tests: tests(propServer("REQPROP", "REQPROP as an option"), propClient("an answer to another XID")),
		},
		Row{
			Level: Says,
			Text:  "What is done is in force, for what is sent from then on.",
			Wire:  "RBSIZ 6000 of 8192 done: the next request finds 6000; a depth of 6 done: 6 is what its owner is told",
			Tests: tests(propServer("RBSIZ lowered", "theirs that will not change"), propClient("credits", "CONNPROP as an option")),
		},
		Row{
			Level: Says,
			Text:  "What is not known, does not change or is not wanted is rejected.",
			Wire:  "property 99, a fixed one, a size above the most",
			Tests: propServer("REQPROP of which each has its own fate", "RBSIZ raised beyond what there is", "unknown properties asked for"),
		},
	)
	add("5.3.4",
		Row{
			Level: Says,
			Text:  "UPDPROP tells changes of ours.",
			Wire:  "9, and the properties that have changed with their values of now; one message for all that changed meanwhile",
			Tests: tests(propServer("update", "RBSIZ raised"), propClient("update", "RBSIZ as configured")),
		},
		Row{
			Level: Says,
			Text:  "The peer's are in force.",
			Wire:  "RBSIZ 2048: Sends of 2048; BRS 1 after 0: calls go back",
			Tests: tests(propServer("a property twice", "no octets", "BRS is NONE", "left out"), propClient("asking for more", "credits")),
		},
	)
	add("5.4.1",
		Row{
			Level: Says,
			Text:  "The operations carry properties of other documents, whatever their numbers.",
			Wire:  "property ffffff10 beside 1 in CONNPROP, REQPROP, RESPROP and UPDPROP",
			Tests: tests(propServer("REQPROP of which each has its own fate", "update", "any order"), propClient("CONNPROP with properties of extensions")),
		},
	)
	add("5.4.2",
		Row{
			Level: Says,
			Text:  "4294967040 to 4294967295 are for experiments.",
			Wire:  "ffffff10 and ffffff11; an extension without a document has no others",
			Tests: tests(propServer("ours that will not change"), in("core/ext", "TestCheck")),
		},
	)
	return all
}
