// Package rpc is what programs import: ONC RPC (RFC 5531) clients and servers over RDMA,
// and over TCP with record marking, by one API.
//
//	var Echo = &rpc.Proc{Program: 0x20000001, Version: 1, Number: 1, Name: "ECHO"}
//
//	client, err := rpc.NewClient("iwarp://host:20049")    // no I/O yet
//	err = client.Call(ctx, Echo, &args, &results)         // connects
//
//	srv := rpc.NewServer()
//	srv.Register(0x20000001, 1, rpc.Method{Proc: Echo, Handler: echo})
//	l, err := rpc.Listen(ctx, "iwarp://0.0.0.0:20049")
//	err = srv.Serve(ctx, l)
//
// Bulk data is placed, not copied: rpc.Into names where a result is to land, a handler's
// Request.Buffer is registered memory that leaves from where it lies.
//
// Messages lie in memory that carries others afterwards. What a handler, or an UnmarshalXDR, reads by a method of xdr.Reader
// whose name does not end in View is a copy, which may be kept; views, which Bulk returns too, end when it returns.
//
// A Backchannel calls a client from its server, on the connection that the client made; the client serves such
// calls by WithPrograms.
//
// A relay serves programs that it does not know by WithFallback, and passes their calls on by Client.CallRaw: credentials,
// verifiers, replies and bulk data go through as they are, and XIDs where that is wanted.
//
// Errors tell which layer spoke: *rpcmsg.AcceptError, *rpcmsg.RejectError and *rpcmsg.AuthError are
// the server's answer; *engine.TransportError is its transport's, engine.ErrVersion among them;
// *transport.BackwardError and *chunk.PlanError are calls that could not be sent; *transport.LostError, *GaveUpError and what
// a provider says end a connection; transport.ErrTimeout and a context's error end
// a call; *TargetError and *OptionError are mistakes in an address and in options.
//
// Options have types by what they set up: a ClientOption, a ListenOption, a ServerOption or a BackchannelOption. Some are
// several of these, as a ConnOption is one of clients and of listeners. One that is given elsewhere does not compile.
//
// Fabrics come in by import: a program that uses iwarp:// imports providers/iwarp. A target names what is to be reached; a
// Resolver turns it into routes, each of one provider. By default there is one, of the provider that the scheme names;
// WithResolver sets another resolver, such as one by which a configuration chooses the fabric of rdma://. A dial tries the
// routes in order, and goes on to the next only where a route itself fails, not where a peer has answered: see NoRouteError.
//
// Connections are package transport's. Only rdma.go and endpoint.go import package engine, and only tcp.go package tcp.
// Imports: transport, engine, tcp, ext, binding, rpcmsg, xdr, verbs, fair, pages, obs; no program of RPC's, no
// configuration file, no tracer.
package rpc
