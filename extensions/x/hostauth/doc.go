// Package hostauth lets the two hosts of a connection prove to each other, before the first RPC, that they have the same
// secret key. It is an extension of class control with a gate, compiled in or as a plugin, and needs the extension that carries
// properties.
//
//	extension "hostauth" { options = { key_file = "/etc/rpcrdma/hostauth.keys", key_id = "node-17" } }
//
// Until a connection is open a client keeps its calls, and a server answers NULL and refuses every other call, unexecuted, with
// AUTH_ERROR/AUTH_TOOWEAK. A server refuses version 1 with RDMA_ERROR/ERR_VERS 2 to 2. A client that does not authenticate has
// Options.Timeout, then its connection ends. Where the extension, its plugin or the extension that carries properties
// is not there the connection is not opened: it fails closed. A configuration that says required = false is refused, as it would
// let the program run without authentication.
//
// # The exchange
//
// One property, opaque, whose octets only this package reads. Two rounds, of the operations that the draft has: a CONNPROP of each
// side (v2 draft §5.3.1), and a REQPROP of the client's with the server's RESPROP (§5.3.2, §5.3.3).
//
//	const uint32 HOSTAUTH = 4294967128;      /* property 0xffffff58: opaque<128>, default empty; may change */
//
//	enum hostauth_step { HOSTAUTH_HELLO = 1, HOSTAUTH_PROOF = 2 };
//	enum hostauth_bind { HOSTAUTH_UNBOUND = 0, HOSTAUTH_ADDRESSES = 1 };
//
//	struct hostauth_hello {
//	        opaque        nonce[32];         /* random, of this connection only */
//	        hostauth_bind bind;
//	        string        key<64>;           /* the client's: which key; the server's: empty */
//	};
//	union hostauth switch (hostauth_step step) {
//	case HOSTAUTH_HELLO: hostauth_hello hello;
//	case HOSTAUTH_PROOF: opaque         mac[32];
//	};
//
//	client                                            server
//	CONNPROP  HOSTAUTH = hello, nonce C, key id ──►
//	                                              ◄── CONNPROP  HOSTAUTH = hello, nonce S
//	REQPROP   HOSTAUTH = proof, MAC c           ──►   checks MAC c, and opens its gate
//	checks MAC s, and opens its gate            ◄──   RESPROP   rdma_other: HOSTAUTH = proof, MAC s
//	                                     else   ◄──   RESPROP   rdma_rejected
//
// The octets of a hello are 00000001, the nonce, the binding in 4, the length of the key id in 4, the key id and its round-up; those of
// a proof 00000002 and the MAC: 36. In rdma_data they stand behind their count, as opaque<> does. MACs are HMAC-SHA-256 (RFC 2104, FIPS 180-4) by
// the key of the XDR of
//
//	struct hostauth_signed {
//	        string label<>;         /* "rpcrdma hostauth 1 client", or "… server" */
//	        opaque client_hello<>;  /* as sent: a hostauth */
//	        opaque server_hello<>;
//	        opaque addresses<>;     /* empty, or with HOSTAUTH_ADDRESSES those of the client and of the server */
//	        opaque client_mac<>;    /* empty in the client's; MAC c in the server's */
//	};
//
// An address is 18 octets: an IPv6 address, or an IPv4 address as one (::ffff:a.b.c.d), and the port.
//
// Why it holds. A proof recorded on another connection does not fit this one's nonces. A proof sent back to who made it has the
// wrong label. The server proves nothing to a client that has not proved itself. Both hellos are signed, so none
// can be changed on the way. MACs are compared in constant time, and a key id that the server does not have costs the same and
// looks the same as a wrong key.
//
// # What it does not do
//
// It tells who is there when the connection begins; it neither encrypts nor protects what follows. Who can change what passes on
// the way can wait until a connection is open, and take it over. For that use IPsec or a network of your own.
//
// Binding. Nothing in the transport names a connection to both sides in a way that a third party in between could not copy; there is
// no TLS, whose exporter one would sign. The addresses are what there is. With bind = "addresses" they are signed, and a host that
// lures a client and passes its messages on to the real server is found out, as the two see different addresses. So is every
// translator of addresses and port forwarder, which is why the default is not to: then such a host in between sees a proof, learns no
// key, but has an open connection, as has anybody who can change what passes (see above).
//
// Keys. The key file has a line for each key: its id and 32 to 64 octets in hexadecimal, apart by blanks; # begins a comment.
//
//	echo "node-17 $(openssl rand -hex 32)" >> /etc/rpcrdma/hostauth.keys
//
// A server takes every key of its file, a client has one (key_id, or the only one of the file). Give each client a key of its own,
// and it is told from the others. The file must belong to the user that runs the program, or root, and be neither readable nor
// writable by others (mode 0600). It is read when the extension is loaded: a changed one counts from the next start on. Keys must be
// random: who records an exchange can try words at leisure.
//
// One attempt per connection. After a wrong proof the client ends the connection, with an *Error that says so, and so do its calls: it does
// not try again by itself. The server ends it a second later, should the client not.
//
// A server that calls its client back must wait for the client's first call: a client's own gate opens when the RESPROP is there.
//
// Files: hostauth.go options and declaration; keys.go the key file; wire.go octets and MACs; session.go a connection; errors.go.
//
// Imports: core/ext, core/xdr.
package hostauth
