// Package keepalive keeps an idle connection alive, finds out that a peer is gone, and tells a client of a changed grant of
// credits when no reply is due that would. It is an extension of class control, compiled in or as a plugin, and needs the
// extension that carries properties.
//
//	extension "keepalive" { options = { interval = "30s", patience = "10s" } }
//
// Each side announces by a property that it takes the operation GRANT, and sends it only to a peer that has. So nobody else
// sees anything of it.
//
//	const uint32 KEEPALIVE = 4294967120;       /* property 0xffffff50: bool, default FALSE; does not change */
//	const uint32 GRANT     = 4294967120;       /* rdma_opttype 0xffffff50, rdma_optdir REPLY */
//
//	struct optinfo_grant {                     /* rdma_optinfo of GRANT: 4 octets */
//	        bool ask;                          /* the receiver is to send a GRANT back, with ask FALSE */
//	};
//
// A GRANT has no payload. Its direction is REPLY, and its rdma_credit is what it is in any reply: the number of calls that the
// receiver may have outstanding, of forward calls where the server sends it, of backward calls where the client does. Its
// rdma_xid means nothing. Because its direction is REPLY, nothing is sent in answer to one that is malformed (v2 draft §4.2, D-12):
// it is ignored. The ids lie in the range for experiments (v2 draft §5.4.2).
//
// A side sends GRANT with ask TRUE, either side may:
//   - when nothing, of any kind, has passed in either direction for Options.Interval;
//   - when its grant has changed, the peer has not been told and no call of the peer's is being served whose reply would tell it.
//
// The answer comes at once, with ask FALSE and the answerer's own grant. Where nothing at all passes for Options.Patience after
// the question the connection ends with a *SilentError, and a client makes another one when it has calls.
//
// Receives. At most one GRANT with ask TRUE of a side's is unanswered, so at most one in answer is unconsumed: each side keeps
// two receives for GRANT (a window of 2), posted before its property is announced. That a question has been consumed is proved by its answer,
// that an answer has been by the next question, as that side asks again only after it. On an idle connection the proofs of D-8 do not
// come: they take calls.
//
// Beside the engine's own keep-alive. A client asks by a NULL call of its own, with any peer and in any version, where
// calls wait and nothing has come for KeepAlive (20 s by default); that proves that the server still serves. This package asks on
// idle connections too and from both sides, and its answer comes from the peer's transport: it proves that the peer is
// there, not that it serves. A peer that vanishes while much is being sent to it is found out when no more can be, or by the
// engine (StallTimeout): on a slow fabric an answer may be long in coming behind a long message. What is asked here counts there as something that has come, and the other way round. Neither counts
// against the idle times of client and server (5 and 6 minutes), after which a connection without calls is closed in order: to keep
// one for longer, raise those. A Linux client or server speaks version 1 and sees nothing of this.
//
// Files: keepalive.go options and declaration; session.go a connection; wire.go the operation's bytes.
//
// Imports: core/ext.
package keepalive
