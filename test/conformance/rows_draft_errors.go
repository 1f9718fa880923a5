package main

// rowsDraftErrors is section 6.2.4 of the draft.
func rowsDraftErrors() []Row {
	return section(draft, "6.2.4",
		Row{
			Level: Must,
			Text:  "An unknown rdma_proc is INVALID_PROC.",
			Wire:  "20 octets: …, 4, 3; for 2, 3, 10 and ffffffff",
			Tests: responder("v2 unknown procedure", "v2 MSGP and DONE"),
		},
		Row{
			Level: Must,
			Text:  "A header that cannot be parsed is BAD_XDR.",
			Wire:  "20 octets: …, 4, 2; cut short, impossible values, NOMSG without chunks or with a payload",
			Tests: responder("v2 short", "v2 lists that are no XDR", "v2 direction that is none", "v2 NOMSG without chunks", "v2 octets behind NOMSG", "v2 another XID in the RPC message"),
		},
		Row{
			Level: MustNot,
			Text:  "Such a call is not carried out.",
			Wire:  "one answer, the error; the memory of its Write chunk is as it was",
			Tests: responder("v2 short", "v2 lists that are no XDR", "v2 write chunk too small"),
		},
		Row{
			Level: Must,
			Text:  "More Read chunks than are taken: READ_CHUNKS and the most that are.",
			Wire:  "17 of them: …, 4, 4, 0x10",
			Tests: responder("v2 too many read chunks"),
		},
		Row{
			Level: Must,
			Text:  "More Write chunks than are taken: WRITE_CHUNKS and the most that are.",
			Wire:  "17 of them: …, 4, 5, 0x10",
			Tests: responder("v2 too many write chunks"),
		},
		Row{
			Level: Must,
			Text:  "A chunk with more segments than are taken: SEGMENTS and the most that are.",
			Wire:  "513 of them: …, 4, 6, 0x200",
			Tests: in("core/rpc", "TestHostileClient/version_2_513_segments_in_a_Read_chunk"),
		},
		Row{
			Level: Must,
			Text:  "A Write chunk too small for its result: WRITE_RESOURCE.",
			Wire:  "28 octets: …, 4, 7, index, length",
			Tests: responder("v2 write chunk too small"),
		},
		Row{
			Level: Must,
			Text:  "It names the first chunk that is too short, or 0.",
			Wire:  "2, for the second of two",
			Tests: responder("v2 write chunk too small", "v2 invalidates nothing with an error"),
		},
		Row{
			Level: Must,
			Text:  "It names the octets that are needed there.",
			Wire:  "0x65, of the result without round-up",
			Tests: responder("v2 write chunk too small"),
		},
		Row{
			Level: Must,
			Text:  "A reply that fits neither inline nor into the Reply chunk: REPLY_RESOURCE.",
			Wire:  "24 octets: …, 4, 8, length; with a chunk that is too small and without one",
			Tests: responder("v2 reply chunk too small", "v2 sends at most 4096"),
		},
		Row{
			Level: Must,
			Text:  "It names the octets that the reply needs.",
			Wire:  "0x13a8 for 24 + 4 + 5001 + 3",
			Tests: responder("v2 reply chunk too small", "v2 sends at most 4096"),
		},
		Row{
			Level: Must,
			Text:  "An unknown rdma_opttype is INVALID_OPTION.",
			Wire:  "20 octets: …, 4, 9; whether a payload follows or not",
			Tests: responder("v2 unknown option"),
		},
		Row{
			Level: Must,
			Text:  "SYSTEM is for good: the call ends.",
			Wire:  "code 10: the call fails, nothing is sent again",
			Tests: requester("v2 error 10"),
		},
	)
}
