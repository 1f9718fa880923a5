package main

// rowsDraft is draft-cel-nfsv4-rpcrdma-version-two-04 but for its errors.
func rowsDraft() []Row {
	var all []Row
	all = append(all, section(draft, "2.3",
		Row{
			Level: Must,
			Text:  "Receives of 4096 octets at least.",
			Wire:  "the first message may have 4096 octets, and is served; 1024 cannot be configured with version 2",
			Tests: tests(responder("v2 takes 4096 from the start"), in("core/engine", "TestConfig")),
		},
		Row{
			Level: Must,
			Text:  "Without another mechanism senders take the threshold to be 4096.",
			Wire:  "4096 octets inline, 4097 not, whatever private data says",
			Tests: tests(responder("v2 sends at most 4096"), requester("v2 threshold of 4096")),
		},
	)...)
	all = append(all, section(draft, "6.2.1",
		Row{
			Level: Must,
			Text:  "An RPC message follows RDMA2_MSG.",
			Wire:  "36 octets and nothing behind them are BAD_XDR; a call of ours has the message behind octet 36",
			Tests: tests(responder("v2 no RPC message", "v2 inline"), requester("v2 inline")),
		},
		Row{
			Level: MustNot,
			Text:  "None follows RDMA2_ERROR.",
			Wire:  "errors have 20, 24 or 28 octets",
			Tests: responder("v2 unknown procedure", "v2 too many read chunks", "v2 write chunk too small", "v1 ERR_VERS"),
		},
		Row{
			Level: Says,
			Text:  "All, part of or no RPC message follows RDMA2_OPTIONAL.",
			Wire:  "its type says which: what follows one that has none is BAD_XDR",
			Do:    "Each extension declares it (docs/protocol.md).",
			Tests: tests(opServer("octets behind it", "carries an RPC message"), opClient("carries an RPC message"), in("extensions/x/continuation", "TestSidesDiffer")),
		},
	)...)
	all = append(all, section(draft, "6.2.2",
		Row{
			Level: Required,
			Text:  "Backward calls are supported.",
			Wire:  "a call of the server's in version 2's layout, direction 0, and its reply, direction 1; with chunks where both ends allow them",
			Tests: tests(responder("v2 calls back", "v2 backward chunks"), requester("v2 serves a call back", "v2 backward chunks are served"), in("core/rpc", "TestBackwardLevels")),
		},
		Row{
			Level: Must,
			Text:  "rdma_direction of MSG and NOMSG is the RPC message's type.",
			Wire:  "0 in calls, 1 in replies; a reply in a header that says CALL is BAD_XDR, a call in one that says REPLY is dropped",
			Tests: tests(responder("v2 inline", "v2 reply chunk", "v2 a reply in a header that says CALL", "v2 a call in a header that says REPLY", "v2 direction that is none"), requester("v2 inline")),
		},
		Row{
			Level: Must,
			Text:  "rdma_optdir of an OPTIONAL with a payload is the RPC message's type.",
			Wire:  "0 with a call behind it, and in the chunk lists; a reply in one that says CALL, and two directions, are BAD_XDR, a call in one that says REPLY is dropped",
			Tests: tests(opServer("carries an RPC message", "carries an RPC message of another direction"), opClient("carries an RPC message"), in("core/wire", "TestUnwrapRefuses")),
		},
		Row{
			Level: Must,
			Text:  "rdma_optdir of an OPTIONAL without one is CALL from requesters and REPLY from responders.",
			Wire:  "0 in what is asked and told, 1 in answers; 2 is BAD_XDR",
			Tests: tests(opServer("as an option", "direction"), opClient("asks and is asked"), propServer("REQPROP as an option", "REQPROP in direction REPLY"), propClient("CONNPROP as an option")),
		},
		Row{
			Level: Says,
			Text:  "rdma_credit of an OPTIONAL is of its direction: what is asked for in a CALL, the grant in a REPLY.",
			Wire:  "0x40 in a server's answer, 8 in what it sends unasked; an answer that declares credits changes the grant, what is unasked does not",
			Tests: tests(opServer("as an option", "no server speaks first"), opClient("asks and is asked"), propClient("credits of options")),
		},
		Row{
			Level: Says,
			Text:  "RDMA2_ERROR is always from responder to requester.",
			Wire:  "with an XID of ours in it: our operation has ended, or our call; with another one: dropped",
			Tests: tests(opClient("INVALID_PROC and INVALID_OPTION"), propClient("INVALID_PROC", "XIDs"), responder("v2 RDMA_ERROR to a responder")),
		},
	)...)
	all = append(all, section(draft, "6.2.3",
		Row{
			Level: Must,
			Text:  "rdma_inv_handle, where it is not zero, is a handle of that header.",
			Wire:  "the Write chunk's key, or the position-zero chunk's, in the sixth word",
			Tests: requester("v2 names a key of its own", "v2 threshold of 4096", "v2 several read chunks", "v2 reply chunk"),
		},
		Row{
			Level: Must,
			Text:  "It is zero where no handle may be invalidated.",
			Wire:  "a call without chunks has 0; so has one over a provider that cannot",
			Tests: tests(requester("v2 inline", "v2 first message of 1024"), in("test/conformance", "TestKeysThatMayNotBeInvalidated")),
		},
		Row{
			Level: Must,
			Text:  "Where it is zero, or the responder does not want to, the reply is a plain Send.",
			Wire:  "0, and a handle that the header does not have: nothing is invalidated",
			Tests: responder("v2 invalidates nothing where none is named", "v2 invalidates no key of another call"),
		},
		Row{
			Level: Must,
			Text:  "Else it is a Send With Invalidate of that handle.",
			Wire:  "the second segment's key, a Read chunk's key",
			Tests: responder("v2 invalidates the key that is named", "v2 invalidates the key of a read chunk"),
		},
	)...)
	all = append(all, section(draft, "7", Row{
		Level: Must,
		Text:  "A client has one message under way until a valid message that is no error has told the credits.",
		Wire:  "no second message before the reply, nor more than one after an RDMA_ERROR",
		Tests: requester("v2 one message before the first reply", "v2 an error opens nothing"),
	})...)
	all = append(all, section(draft, "7.2", Row{
		Level: Must,
		Text:  "A server without version 2 answers it with ERR_VERS.",
		Wire:  "28 octets, XID and version of the call, 1..1",
		Tests: tests(responder("v1 ERR_VERS of a server with version 1 only"), requester("v2 falls back to version 1")),
	})...)
	return append(all, section(draft, "7.3", Row{
		Level:  Must,
		Text:   "Replies have the version of their calls, where the server supports it.",
		Wire:   "the second word; after a first call of version 2 one of version 1 gets ERR_VERS 2..2",
		Do:     "The first call decides for the connection: one that mixes versions has no single receive size (D-4).",
		Status: Departs,
		Tests:  responder("v2 latched", "v1 latched", "v2 an error latches nothing", "v2 inline"),
	})...)
}
