package main

// trap makes the row of a fault that other implementations had.
func trap(id string, r Row) Row {
	r.ID, r.Doc, r.Sec, r.Level = id, traps, id, Trap
	return r
}

// rowsTraps is faults that other implementations had, and must not be had here.
func rowsTraps() []Row {
	later := func(id, until, text string) Row {
		return trap(id+"/"+until, Row{Text: text, Status: Planned, Until: until})
	}
	return []Row{
		trap("T-1", Row{Text: "A grant of 0, from a field that was not set.", Wire: "rdma_credit of replies and errors is 0x40, or 7 as configured", Tests: tests(responder("v1 grants what it has", "v1 MSGP"), requester("v1 grant of zero"))}),
		trap("T-2", Row{Text: "The server grants what the client asks for.", Wire: "asked for ffffffff: 7", Tests: responder("v1 grants what it has")}),
		trap("T-3", Row{Text: "The client believes any grant.", Wire: "ffffffff is 3 where 3 were asked for", Tests: requester("v1 grant above what was asked")}),
		trap("T-4", Row{Text: "The word before optional lists is counted twice, and the message is looked for behind its place.", Wire: "headers with every combination of lists, octet by octet; a Reply chunk of one segment is 48 octets with its header", Tests: tests(in("core/wire", "TestGolden", "TestLinux"), responder("v1 reply chunk not used", "v1 reduced before the reply chunk"))}),
		trap("T-5", Row{Text: "Data that is inline although there is a Read list is mistaken for the chunk's.", Wire: "one of two items in a chunk, the other inline, both ways round", Tests: tests(responder("v1 first item moved, second inline", "v1 second item moved, first inline"), in("core/chunk", "TestSmallInlineAfterReadList"))}),
		trap("T-6", Row{Text: "Round-up in a Write chunk.", Wire: "3001 octets: the 3002nd of the memory is untouched; a length with round-up that comes back is understood", Tests: tests(responder("v1 write chunk", "v1 two write chunks"), requester("v1 chunk with the round-up in its length"))}),
		trap("T-7", Row{Text: "Round-up in a Read chunk is not understood.", Wire: "8 octets for 5, in one segment or with a segment of its own", Tests: tests(responder("v1 read chunk with round-up", "v1 read chunk with round-up of its own"), requester("v1 read chunk"))}),
		trap("T-8", Row{Text: "Positions are ignored.", Wire: "odd, decreasing, overlapping: ERR_CHUNK; another place than the item's: GARBAGE_ARGS", Tests: responder("v1 odd position", "v1 positions decrease", "v1 read chunks overlap", "v1 chunk and arguments disagree", "v1 second item moved, first inline", "v1 two read chunks")}),
		trap("T-9", Row{Text: "Several Read chunks towards Linux's server, which corrupts them.", Wire: "one position in the Read list, and position zero alone", Tests: requester("v1 one read chunk to a version 1 peer", "v1 long call has one chunk")}),
		trap("T-10", Row{Text: "Position zero beside other Read chunks: the others count in the whole message.", Wire: "message of 56 octets at position 0, an item of 5 at 0x2c", Tests: responder("v1 position zero and a read chunk")}),
		trap("T-11", Row{Text: "A Write chunk is matched with the wrong result.", Wire: "first result in the first chunk; void arm: the second one there", Tests: tests(responder("v1 two write chunks", "v1 void arm"), requester("v1 two write chunks", "v1 void arm"))}),
		trap("T-12", Row{Text: "NOMSG is not understood.", Wire: "a call at position zero; a reply in the Reply chunk, beside a Write chunk", Tests: tests(responder("v1 position zero", "v2 position zero", "v1 reduced, and the reply chunk"), requester("v1 reply chunk", "v2 reply chunk"))}),
		trap("T-13", Row{Text: "Lengths that come back are ignored, unused chunks not returned, long replies cut in silence.", Wire: "7 of 5000 octets are the result; a chunk of 8 for 9 octets is an error and stays as it was", Tests: tests(requester("v1 shorter result than offered", "v1 reply chunk"), responder("v1 write chunk not used", "v1 write chunk too small", "v1 reply chunk too small", "v2 write chunk too small"))}),
		trap("T-14", Row{Text: "An empty Write chunk is refused.", Wire: "count 0 is taken, and not sent to version 1", Tests: tests(responder("v1 empty write chunk"), requester("v1 no empty write chunk"))}),
		trap("T-15", Row{Text: "ERR_CHUNK and GARBAGE_ARGS are confused.", Wire: "a position that is odd, and one that is wrong", Tests: responder("v1 odd position", "v1 chunk and arguments disagree", "v1 arguments that do not decode")}),
		trap("T-16", Row{Text: "The version is read last, or not.", Wire: "version 3, or not the connection's, with an unknown procedure and broken lists: ERR_VERS", Tests: responder("v1 ERR_VERS before all else", "v1 latched")}),
		trap("T-17", Row{Text: "RDMA_ERROR answers RDMA_ERROR.", Wire: "silence", Tests: responder("v1 RDMA_ERROR to a responder", "v2 RDMA_ERROR to a responder")}),
		trap("T-18", Row{Text: "Private data is taken to be there, and at the start.", Wire: "found behind 10 other octets; 7 of 8 octets are none", Tests: responder("v1 private data behind another layer's", "v1 private data cut short", "v1 private data of another protocol", "v1 private data of another version")}),
		later("T-18", "providers/rxe", "The same in a field that is always delivered whole."),
		later("T-18", "providers/ibverbs", "The same through librdmacm."),
		trap("T-19", Row{Text: "Sizes of private data are taken for octets.", Wire: "4096 is 03", Tests: tests(in("test/conformance", "TestPrivateData"), responder("v1 threshold of private data"))}),
		trap("T-20", Row{Text: "A key is invalidated that its owner does not expect.", Wire: "a handle that the call does not have: plain Send", Tests: responder("v2 invalidates no key of another call", "v1 invalidates none of two keys", "v1 plain Send to a peer with R clear")}),
		later("T-20", "providers/rxe", "The same where it would end the queue pair."),
		later("T-20", "providers/ibverbs", "The same with memory windows."),
		trap("T-21", Row{Text: "Memory goes back while the adapter still sends from it.", Wire: "completions come late and in any order: the octets that arrive are those that were sent", Tests: in("core/rpc", "TestFaults")}),
		trap("T-22", Row{Text: "A call whose memory is refused is sent again for ever.", Wire: "its second coming is answered with ERR_CHUNK, and the connection lives; a requester gives such a call up", Tests: tests(responder("v1 key that is none, read", "v1 key that is none, write", "v2 key that is none"), in("core/rpc", "TestTheCallThatEndsConnections"))}),
		trap("T-23", Row{Text: "A reply that nobody waits for brings the receiver down.", Wire: "unknown XID, another version, twice: dropped and counted", Tests: requester("v1 replies to nobody", "v2 replies to nobody")}),
		trap("T-24", Row{Text: "The reply cache keeps transport headers.", Wire: "one segment in the first call, two in the second, which is not executed: the reply returns two", Tests: tests(responder("v1 the same call on a new connection", "v2 more room for the same call"), in("core/rpc", "TestAnsweredFromTheCache", "TestAtMostOnce"))}),
		trap("T-25", Row{Text: "Credits come back before send-queue slots, and the queue overflows.", Wire: "a queue of two works under load: every call is answered", Tests: in("core/rpc", "TestFaults/late,_short_queue")}),
		trap("T-26", Row{Text: "One RDMA Read at a time.", Wire: "four Read Requests leave before the first Read Response comes", Tests: in("test/conformance", "TestReadsInFlight")}),
		trap("T-27", Row{Text: "Fewer receives than were granted.", Wire: "as many calls as granted arrive at once and are served", Tests: responder("v1 as many calls as granted", "v1 more calls than granted")}),
		later("T-27", "providers/rxe", "The same where the fabric would wait (RNR) and hide it."),
		later("T-27", "providers/ibverbs", "The same where the fabric would wait (RNR) and hide it."),
		trap("T-28", Row{Text: "Sums of lengths that wrap.", Wire: "segments of 80000000 and 80000005 octets are no 5", Tests: responder("v1 lengths near 4 GiB")}),
		trap("T-29", Row{Text: "More rights, and for longer, than a call needs.", Wire: "a Write to a Read chunk, a Read of a Write chunk, any access after the reply: the connection ends", Tests: requester("v1 read chunk may not be written", "v1 write chunk may not be read", "v1 memory is fenced before the caller goes on")}),
		trap("T-30", Row{Text: "Segments of no octets, the same key twice, lengths of 4 GiB.", Wire: "a key that is none with length 0 is not touched", Tests: tests(responder("v1 segments of no octets", "v1 lengths near 4 GiB"), in("core/chunk", "TestCheckCallNeverPanics", "TestCheckReplyNeverPanics"))}),
		trap("T-31", Row{Text: "Bad peers flood the log.", Wire: "messages that are dropped are counted; a thousand of them make no line", Tests: tests(in("test/conformance", "TestBadMessagesAreNotLogged"), in("core/rpc", "TestLogIsNotFlooded"), responder("v1 DONE"))}),
		trap("T-32", Row{Text: "Data of no octets is not handled.", Wire: "a result of length 0 returns its chunk unused, and the next result takes the next chunk", Tests: tests(responder("v1 results of no octets"), requester("v1 empty result uses up its chunk"), in("core/xdr", "TestBulkEmptyWriteChunk"))}),
		trap("T-33", Row{Text: "An RDMA_ERROR of 20 octets is dropped as too short.", Wire: "xid 1 credits 4 2 ends the call", Tests: requester("v1 ERR_CHUNK", "v2 error 2")}),
		trap("T-34", Row{Text: "A Reply chunk that was not needed does not come back, or with its lengths.", Wire: "1, 1, handle, 0, offset in an RDMA_MSG", Tests: responder("v1 reply chunk not used", "v1 reduced before the reply chunk")}),
	}
}
