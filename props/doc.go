// Package props is the transport properties of version 2 (v2 draft §5) as an extension: CONNPROP, REQPROP,
// RESPROP and UPDPROP, the two basic properties, and the carrying of properties that other extensions declare. The engine
// knows nothing of it; it runs compiled in or in a process of its own.
//
//	p := props.New(props.Options{})
//	set, err := ext.NewSet(p)                 // rpc.WithExtensions(set)
//	err = p.Wait(ctx, conn)                   // the exchange is over
//	err = p.Ask(ctx, conn, props.RBSIZ, …)    // REQPROP
//
// An extension that defines a property of its own writes it as a variable and hands it to the engine, not to this
// package's Extension:
//
//	var Depth = props.Uint32(0xffffff10, "depth", 1, props.Range(1, 64), props.Mutable)
//
// Files: id.go numbers; value.go what a value may be; define.go typed properties; text.go properties as people write
// them; set.go sets of them; ops.go the four operations; exchange.go asking.go answering.go the machine, which does no I/O and
// knows no property; basic.go receive buffer size and backward requests; options.go; ext.go joins the contract;
// observe.go what a program may see and ask.
//
// Imports: core/ext, core/wire, core/xdr.
package props
