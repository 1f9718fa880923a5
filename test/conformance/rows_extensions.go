package main

// rowsDraftExtensions is section 4 of the draft: optional features.
func rowsDraftExtensions() []Row {
	var all []Row
	all = append(all, section(draft, "4.1",
		Row{
			Level:  Must,
			Text:   "An rdma_opttype that is not supported is answered with INVALID_OPTION and the same XID.",
			Wire:   "20 octets: XID, 2, credits, 4, 9; by client and server, whatever is loaded; with direction REPLY silence",
			Do:     "Not where the direction is REPLY: the XID would be ours, and the error would hit a call of the sender's (D-12).",
			Status: Departs,
			Tests:  tests(responder("v2 unknown option", "v2 unknown option as a reply"), requester("v2 an unknown operation as a call"), opServer("unknown types and procedures", "all or none")),
		},
		Row{
			Level: Says,
			Text:  "rdma_optinfo is data of the operation's own.",
			Wire:  "its octets go and come as they are, behind their length and with round-up",
			Tests: tests(opServer("as an option"), opClient("asks and is asked")),
		},
		Row{
			Level: Says,
			Text:  "Each side can tell whether its peer supports a feature.",
			Wire:  "an error that names the operation's XID ends it, and no call; the feature is not used again",
			Tests: tests(opClient("INVALID_PROC and INVALID_OPTION", "carries an RPC message"), propClient("INVALID_PROC", "INVALID_OPTION", "REQPROP is not supported", "UPDPROP is not supported")),
		},
	)...)
	all = append(all, section(draft, "4.2",
		Row{
			Level: Says,
			Text:  "XID and credits are read by the message's direction.",
			Wire:  "an operation of the peer's with the XID of a call of ours, answered with it; the call goes on",
			Tests: propClient("XIDs", "credits", "credits of options"),
		},
		Row{
			Level: Says,
			Text:  "RDMA2_OPTIONAL says its direction.",
			Wire:  "the fifth word: an answer that says CALL is BAD_XDR, a question that says REPLY is dropped",
			Tests: tests(opServer("direction", "as an option"), propServer("REQPROP in direction REPLY")),
		},
		Row{
			Level:  Says,
			Text:   "So does RDMA2_ERROR.",
			Do:     "Its XDR has no such field: it is a reply (D-10).",
			Status: NotOurs,
		},
	)...)
	return append(all, section(draft, "4.3",
		Row{
			Level: Says,
			Text:  "Of a feature's elements all are known or none.",
			Wire:  "an extension without a session: INVALID_OPTION for the one of its types, INVALID_PROC for the other in its form as a procedure, and its answers are dropped",
			Tests: tests(opServer("all or none"), in("core/ext", "TestCheck", "TestClashes")),
		},
		Row{
			Level: Says,
			Text:  "An operation's document says whether an RPC message is with it.",
			Wire:  "octets behind one that has none are BAD_XDR; one that has serves the call behind it",
			Do:    "The declaration does (ext.PayloadRule).",
			Tests: opServer("octets behind it", "carries an RPC message"),
		},
		Row{
			Level: Says,
			Text:  "And which others it needs.",
			Wire:  "none: it is not loaded without them",
			Tests: in("core/ext", "TestClashes", "TestTables"),
		},
	)...)
}
