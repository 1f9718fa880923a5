package main

// rowsRFC8166Rest is RFC 8166 from section 5 on: binding, upper layers, security.
func rowsRFC8166Rest() []Row {
	var all []Row
	all = append(all, section(rfc8166, "5", Row{
		Level:  Must,
		Text:   "On InfiniBand, IP addresses and ports are translated to GIDs and service ids.",
		Do:     "The iWARP and loopback providers name endpoints by IP address and port. The connection manager that translates belongs to the RoCE provider.",
		Status: Planned,
		Until:  "providers/rxe",
	})...)
	all = append(all, section(rfc8166, "6.1",
		Row{
			Level: MustNot,
			Text:  "Items that are not eligible are not moved by their sender.",
			Wire:  "101 octets that the binding leaves alone are inline, where everything above 100 is to be moved",
			Tests: tests(requester("v1 an item that may not be moved"), in("ulp/nfs", "TestEligible")),
		},
		Row{
			Level: MustNot,
			Text:  "A call with such an item in a Read chunk is not carried out, and is refused.",
			Wire:  "GARBAGE_ARGS: header and chunk are sound, only the decoder knows what is eligible (D-37)",
			Tests: tests(responder("v1 an item that may not be moved"), in("core/xdr", "TestMovedWithoutLeave")),
		},
		Row{
			Level: Must,
			Text:  "A reply with such an item in a Write chunk ends the call with a lasting error.",
			Wire:  "the first result, which is not eligible, in the chunk: the results do not decode",
			Tests: requester("v1 an item moved without leave"),
		},
		Row{
			Level:  Must,
			Text:   "A reply that leaves an eligible item inline although there was a chunk ends the call with a lasting error.",
			Wire:   "the chunk comes back with length 0 and the item is inline: the caller gets it, in its destination",
			Do:     "Nothing is lost by taking it: the length is bounded by the destination, and the octets are whole.",
			Status: Departs,
			Tests:  requester("v1 result inline although a chunk was offered"),
		},
	)...)
	all = append(all, section(rfc8166, "8.1",
		Row{
			Level: MustNot,
			Text:  "The transport does not open memory to the peer beyond what a call needs.",
			Wire:  "RDMA Write to a Read chunk, RDMA Read of a Write chunk, one octet beyond either, and any access after the reply: refused, the connection ends",
			Tests: requester("v1 read chunk may not be written", "v1 write chunk may not be read", "v1 read chunk ends where the data ends", "v1 write chunk has no room for round-up", "v1 memory is fenced before the caller goes on"),
		},
		Row{
			Level: Required,
			Text:  "Providers conform to RFC 5042.",
			Wire:  "keys cannot be guessed, are checked for range, right and connection, and end when they are invalidated",
			Tests: tests(in("providers/iwarp", "TestProvider", "TestFaults"), in("providers/loopback", "TestProvider"), in("providers/soft", "TestKeysAreUnguessable", "TestResolve", "TestNoAccessOutlivesRevoke"), in("providers/iwarp/rdmap", "TestProtection")),
		},
	)...)
	all = append(all, section(rfc8166, "8.2.1", Row{
		Level:  Required,
		Text:   "Where integrity and confidentiality are wanted at speed, the network under RDMA protects (IPsec).",
		Do:     "IPsec is the network's and its operator's, below this program.",
		Status: NotOurs,
	})...)
	all = append(all, section(rfc8166, "8.2.2", Row{
		Level: MustNot,
		Text:  "RPCSEC_GSS's own elements are not moved.",
		Wire:  "credential and verifier are in the stream, whatever may be moved behind them; they are no bulk items, and one in a chunk is refused",
		Tests: tests(in("core/rpcmsg", "TestAppendCall", "TestCall"), in("core/xdr", "TestMovedWithoutLeave")),
	})...)
	all = append(all, section(rfc8166, "8.2.2.1", Row{
		Level:  Must,
		Text:   "An NFS server with RPCSEC_GSS serves TCP port 2049 as well, for context set-up.",
		Do:     "Our NFS server has no mechanism of RPCSEC_GSS: such credentials are refused.",
		Status: NotOurs,
	})...)
	return append(all, section(rfc8166, "8.2.2.3", Row{
		Level: MustNot,
		Text:  "Under integrity or privacy nothing is moved.",
		Wire:  "credential of RPCSEC_GSS with service 3: 101 octets inline where 100 are the most, 5000 at position zero; results inline or in the Reply chunk",
		Tests: tests(requester("v1 nothing of a protected call is moved"), responder("v1 protection without its mechanism"), in("core/rpc", "TestMechanism", "TestRPCSECGSSPassesThrough", "TestMovedAndWrapped")),
	})...)
}
