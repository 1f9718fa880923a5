// Package continuation sends RPC messages that are longer than a Send in several of them, so that up to a size that
// the two sides announce no memory is registered and nothing is read or written remotely. It is an extension of
// class payload: compiled in, not a plugin. It needs the extension that carries properties.
//
//	extension "continuation" { options = { max = "65536" } }
//
// Each side announces by a property the longest RPC message that it assembles. A longer message, and one whose bulk items
// go by RDMA in any case, travels in chunks as before; so does everything with a peer that announces nothing.
//
//	const uint32 CONT_MAXMSG = 4294967104;     /* property: uint32, default 0: none; may not change */
//
//	const uint32 CONT_PART = 4294967104;       /* rdma_opttype: a piece that is not the last */
//	const uint32 CONT_LAST = 4294967105;       /* rdma_opttype: the last piece */
//	const uint32 CONT_ACK  = 4294967106;       /* rdma_opttype: no piece at all */
//
//	struct cont_piece {
//	        uint32 offset;                     /* of the piece's first byte in the message */
//	        uint32 remaining;                  /* bytes of the message behind the piece */
//	};
//
//	typedef cont_piece optinfo_part;           /* rdma_optinfo of CONT_PART */
//	struct optinfo_last {                      /* rdma_optinfo of CONT_LAST */
//	        opaque piece<>;                    /* a cont_piece */
//	        rpcrdma2_chunk_lists chunks;       /* of the message */
//	};
//	struct optinfo_ack {                       /* rdma_optinfo of CONT_ACK */
//	        uint32 taken;                      /* pieces of CONT_PART received on this connection, mod 2^32 */
//	};
//
// All pieces have the XID and the direction of the RPC message; their payload is theirs of it, never empty. They come in the order of
// their offsets, and pieces of other messages may come between them: a receiver holds Open messages that are not
// complete, and refuses more. remaining is 0 in CONT_LAST and nowhere else. CONT_LAST uses the RPC's credit; each CONT_PART
// takes one of Window receives that both sides keep for them. CONT_ACK tells that they are free again: a receiver sends one for
// every AckEvery, and one, with 0, before anything else, once it knows that its peer has the extension: nothing is continued
// before that has come from the peer. Of CONT_ACK itself, Acks may be on their way, and who sends the piece of number n has
// had every one that says at most n - Window. The numbers are in continuation.go.
//
// A piece that does not fit what came before makes the receiver forget the message. It is answered with RDMA2_ERR_BAD_XDR,
// a message too many with RDMA2_ERR_SYSTEM, if it is a call; further pieces of it are ignored, and the last one refused.
//
// A connection reserves 208 receives for it (Window and Acks, and as many for errors that may answer ours), so an endpoint has room for fewer
// connections: engine.EndpointConfig.Receives.
//
// The ids lie in the range for experiments (v2 draft §5.4.2). The layout is that of the message continuation
// of later drafts of version 2, by remaining bytes, with an offset, so that a piece that was refused cannot make the rest pass for a message.
//
// Files: continuation.go options and declaration; session.go a connection; assemble.go putting together and cutting.
//
// Imports: ext.
package continuation
