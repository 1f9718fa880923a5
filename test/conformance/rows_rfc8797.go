package main

// rowsRFC8797 is RFC 8797, private data, on the providers that there are. Those to come have their
// rows in rowsTraps (T-18) and below.
func rowsRFC8797() []Row {
	var all []Row
	all = append(all, section(rfc8797, "4",
		Row{
			Level: Must,
			Text:  "Settings may be others after a reconnection.",
			Wire:  "2048 octets inline on the first connection, 1024 on the next one, whose peer says nothing",
			Tests: requester("v1 private data of the next connection"),
		},
		Row{
			Level: Must,
			Text:  "Reserved bits are sent as zero and ignored.",
			Wire:  "f6ab0e18 01 01 03 03 leaves us; flags fe are no R, and the sizes count",
			Tests: tests(responder("v1 reserved bits of private data"), in("test/conformance", "TestPrivateData"), in("core/wire", "TestPrivateAppend", "TestParsePrivate")),
		},
		Row{
			Level:  Must,
			Text:   "The same in the connection manager's messages of RoCE.",
			Status: Planned,
			Until:  "providers/rxe",
		},
		Row{
			Level:  Must,
			Text:   "The same through librdmacm.",
			Status: Planned,
			Until:  "providers/ibverbs",
		},
	)...)
	all = append(all, section(rfc8797, "4.1",
		Row{
			Level: Must,
			Text:  "A Send With Invalidate ends a key of the call that it answers.",
			Wire:  "the key is the only one of the call's segments; with two keys it is a plain Send",
			Tests: responder("v1 invalidates the only key", "v1 invalidates none of two keys"),
		},
		Row{
			Level: Must,
			Text:  "With R clear at either side replies are plain Sends.",
			Wire:  "flags 00 or no private data: the reply invalidates nothing",
			Tests: responder("v1 plain Send to a peer with R clear", "v1 private data of another version", "v1 private data cut short"),
		},
	)...)
	all = append(all, section(rfc8797, "4.2",
		Row{
			Level: Fact,
			Text:  "Sizes are octets / 1024 - 1; the threshold is the lesser of the sender's send size and the receiver's receive size.",
			Wire:  "03 is 4096, 01 is 2048, ff is 262144; a result of 1992 octets is inline towards 01, of 1993 is not",
			Tests: tests(responder("v1 threshold of private data", "v1 threshold of both sides"), requester("v1 threshold of private data"), in("core/wire", "TestPrivateAppend", "TestParsePrivate")),
		},
	)...)
	all = append(all, section(rfc8797, "5.1", Row{
		Level: Must,
		Text:  "No private data, or none that conforms, is R clear and 1024 octets both ways.",
		Wire:  "969 octets of results do not go inline, and nothing is invalidated",
		Tests: tests(responder("v1 threshold without private data", "v1 private data of another version", "v1 private data cut short"), requester("v1 threshold without private data")),
	})...)
	return append(all, section(rfc8797, "5.2", Row{
		Level: Must,
		Text:  "The identifier is searched for, at any alignment; where it is not found there is no private data.",
		Wire:  "found behind 10 octets of another layer's, which look like it twice; deadbeef 01 01 03 03 is none",
		Tests: tests(responder("v1 private data behind another layer's", "v1 private data of another protocol"), in("core/wire", "TestParsePrivate")),
	})...)
}
