package main

// rowsFabric is what RFC 5040, 5041, 5044 and 6581 ask of the iWARP provider, as far as others who have
// read them say, and what Linux's siw does; RFC 5042's is among rowsRFC8166Rest.
func rowsFabric() []Row {
	const iwarp = "providers/iwarp"
	var all []Row
	all = append(all, section(rfc5044, "7.1",
		Row{
			Level: Must,
			Text:  "Start-up frames are a key of 16 octets, flags, revision, length of private data, private data.",
			Wire:  `"MPA ID Req Frame" 10 02 000c | 0080 0000 | f6ab0e18 01010303, as siw sends it`,
			Tests: in(iwarp+"/mpa", "TestFramesOfSiw", "TestParseRefuses"),
		},
		Row{
			Level: Must,
			Text:  "The dialling side sends the first frame; nothing of ours leaves the other side before.",
			Wire:  "what an accepting side posts waits for the first FPDU of its peer",
			Tests: in(iwarp, "TestReadyToReceive", "TestAccepting"),
		},
		Row{
			Level: Must,
			Text:  "A request that cannot be met is answered with the reject flag.",
			Wire:  "30 02 0004 00000000 for markers, silence for what is no request",
			Tests: tests(in(iwarp, "TestRefusing"), in(iwarp+"/mpa", "TestCheckAndRefusal", "TestReplied")),
		},
		Row{
			Level:  Must,
			Text:   "Markers are used where the receiver asks for them.",
			Wire:   "a request with the marker flag is rejected; ours never has it",
			Do:     "Markers are refused, as siw refuses them.",
			Status: Departs,
			Tests:  in(iwarp+"/mpa", "TestCheckAndRefusal", "TestStartUp"),
		},
		Row{
			Level: Must,
			Text:  "With CRC asked for by either side both sides send and check it.",
			Wire:  "flag 0x40 in the reply; FPDUs with CRC32c over length, ULPDU and pad; one bit wrong ends the connection",
			Tests: tests(in(iwarp+"/mpa", "TestStartUp", "TestCRCOfSiw", "TestFPDU"), in(iwarp, "TestFaults/RFC_5044_§8:_a_wrong_CRC")),
		},
	)...)
	all = append(all, section(rfc5044, "4",
		Row{
			Level: Must,
			Text:  "An FPDU is length, ULPDU, pad to four octets, CRC.",
			Wire:  "the length counts the ULPDU alone; four octets of CRC even where it is off",
			Tests: in(iwarp+"/mpa", "TestFPDU", "TestLength"),
		},
		Row{
			Level: Must,
			Text:  "An FPDU that ends with the stream in its middle is an error.",
			Wire:  "the connection ends with an error, wherever it is cut",
			Tests: in(iwarp, "TestEndInsideFrame", "TestStreamFaults"),
		},
	)...)
	all = append(all, section(rfc6581, "6",
		Row{
			Level: Must,
			Text:  "In revision 2 IRD and ORD lead the private data, and each side keeps to what the other serves.",
			Wire:  "0080 0000 asked, 0000 0080 answered; no more Reads in flight than that",
			Tests: tests(in(iwarp+"/mpa", "TestDepthWords", "TestStartUp", "TestReplied"), in(iwarp, "TestTooManyReads")),
		},
		Row{
			Level: Must,
			Text:  "A peer that asks for the peer-to-peer mode gets a ready-to-receive frame it offered.",
			Wire:  "bits 8000 and 4000 of both words",
			Tests: in(iwarp+"/mpa", "TestPeerToPeer"),
		},
	)...)
	all = append(all, section(rfc5041, "4", Row{
		Level: Must,
		Text:  "Segments have DDP version 1, the tagged and the last bit, and their form's fields.",
		Wire:  "41 43 | 0 | QN 0 | MSN | MO; c1 40 | STag | TO, as siw sends them",
		Tests: in(iwarp+"/ddp", "TestHeaders", "TestCutRefuses", "TestCheck"),
	})...)
	all = append(all, section(rfc5041, "5.3", Row{
		Level: Must,
		Text:  "MSN counts from 1 in each queue, MO the octets of the message; out of order is an error.",
		Wire:  "MSN 2 first, a gap, an overlap: the faults that RFC 5041 names",
		Tests: tests(in(iwarp+"/ddp", "TestInbound"), in(iwarp, "TestFaults/MSN_out_of_order", "TestFaults/MO_out_of_order")),
	})...)
	all = append(all, section(rfc5041, "7", Row{
		Level: Must,
		Text:  "A tagged segment is placed only within a buffer that its STag opens to this stream.",
		Wire:  "unknown STag, another connection's, beyond the end, wrapped: Terminate, not an octet placed",
		Tests: tests(in(iwarp+"/rdmap", "TestProtection"), in(iwarp, "TestFaults", "TestProvider")),
	})...)
	all = append(all, section(rfc5040, "4.1", Row{
		Level: Must,
		Text:  "RDMAP version 1, and the opcode fits the form and the queue.",
		Wire:  "version 0, a tagged Send, a Send on queue 1: Terminate",
		Tests: tests(in(iwarp+"/rdmap", "TestCheck"), in(iwarp, "TestFaults/RDMAP_version_2", "TestFaults/opcode_9")),
	})...)
	all = append(all, section(rfc5040, "5.3", Row{
		Level: Must,
		Text:  "Read Responses answer Read Requests in their order, wholly.",
		Wire:  "another STag, too much, too little, out of order: Terminate",
		Tests: tests(in(iwarp+"/rdmap", "TestSink", "TestReadOfSiw"), in(iwarp, "TestTooManyReads")),
	})...)
	all = append(all, section(rfc5040, "5.2", Row{
		Level: Must,
		Text:  "Send With Invalidate ends the STag that it names, if that is this stream's, before it is delivered.",
		Wire:  "41 44 | STag; each segment names the same; a foreign one ends the connection",
		Tests: tests(in(iwarp+"/rdmap", "TestMessage"), in(iwarp, "TestFaults/Invalidate_of_what_is_none_of_ours", "TestProvider")),
	})...)
	all = append(all, section(rfc5040, "4.8", Row{
		Level: Must,
		Text:  "A fault is told by Terminate, the last message, and the connection ends.",
		Wire:  "41 47 | queue 2, MSN 1 | layer, type, code, with the header at fault; siw's swapped halves are read as well",
		Tests: tests(in(iwarp+"/rdmap", "TestTermination"), in(iwarp, "TestFaults", "TestTerminated")),
	})...)
	return secondHand(all)
}

// rowsRFC8267 is the binding of NFS version 3.
func rowsRFC8267() []Row {
	var all []Row
	all = append(all, section(rfc8267, "2",
		Row{
			Level: Must,
			Text:  "Callers bound the largest reply of each procedure.",
			Wire:  "the Reply chunk offered holds the longest results that RFC 1813 allows",
			Tests: in("ulp/nfs", "TestReplySizes"),
		},
		Row{
			Level: MustNot,
			Text:  "Of NFS version 3 nothing is moved but the data of READ and WRITE, and the path of READLINK and SYMLINK.",
			Wire:  "the table of bindings, procedure by procedure; MOUNT moves nothing",
			Tests: in("ulp/nfs", "TestEligible"),
		},
	)...)
	all = append(all, section(rfc8267, "6.3", Row{
		Level: Must,
		Text:  "NFS over RDMA is at port 20049.",
		Wire:  "an address without a port is dialled there",
		Tests: in("test/conformance", "TestPort"),
	})...)
	return secondHand(all)
}
