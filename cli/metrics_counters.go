package cli

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rpcrdma/rpcrdma/core/obs"
)

// counter is one of obs.Counters as a metric, by role.
type counter struct {
	metric
	of func(*obs.Counters) *uint64
}

func total(name, help string, of func(*obs.Counters) *uint64) counter {
	return counter{newMetric(prometheus.CounterValue, name+"_total", help, "role"), of}
}

func gauge(name, help string, of func(*obs.Counters) *uint64) counter {
	return counter{newMetric(prometheus.GaugeValue, name, help, "role"), of}
}

// counted are all fields of obs.Counters.
var counted = []counter{
	total("calls_sent", "Calls sent.", func(c *obs.Counters) *uint64 { return &c.CallsSent }),
	total("calls_received", "Calls received.", func(c *obs.Counters) *uint64 { return &c.CallsRecv }),
	total("replies_sent", "Replies sent.", func(c *obs.Counters) *uint64 { return &c.RepliesSent }),
	total("replies_received", "Replies received.", func(c *obs.Counters) *uint64 { return &c.RepliesRecv }),
	total("backward_calls_sent", "Backward calls (RFC 8167) sent, by a server.", func(c *obs.Counters) *uint64 { return &c.BackCallsSent }),
	total("backward_calls_received", "Backward calls received, by a client.", func(c *obs.Counters) *uint64 { return &c.BackCallsRecv }),
	total("backward_replies_sent", "Replies to backward calls sent, by a client.", func(c *obs.Counters) *uint64 { return &c.BackRepliesSent }),
	total("backward_replies_received", "Replies to backward calls received, by a server.", func(c *obs.Counters) *uint64 { return &c.BackRepliesRecv }),
	total("messages_inline", "Messages that went whole in a Send, both directions.", func(c *obs.Counters) *uint64 { return &c.Inline }),
	total("messages_chunked", "Messages with a part in chunks, both directions.", func(c *obs.Counters) *uint64 { return &c.Chunked }),
	total("messages_long", "Messages that went whole in a chunk, both directions.", func(c *obs.Counters) *uint64 { return &c.Long }),
	total("messages_long_chunked", "Messages that went in a chunk, with further chunks beside it, both directions.", func(c *obs.Counters) *uint64 { return &c.LongMore }),
	total("inline_bytes", "Bytes of RPC messages in Sends, both directions.", func(c *obs.Counters) *uint64 { return &c.InlineBytes }),
	total("read_bytes", "Bytes moved by RDMA Read, either way.", func(c *obs.Counters) *uint64 { return &c.ReadBytes }),
	total("write_bytes", "Bytes moved by RDMA Write, either way.", func(c *obs.Counters) *uint64 { return &c.WriteBytes }),
	total("read_chunks", "Read chunks.", func(c *obs.Counters) *uint64 { return &c.ReadChunks }),
	total("write_chunks", "Write chunks.", func(c *obs.Counters) *uint64 { return &c.WriteChunks }),
	total("reply_chunks", "Reply chunks.", func(c *obs.Counters) *uint64 { return &c.ReplyChunks }),
	total("windows_exposed", "Windows of memory opened to the peer.", func(c *obs.Counters) *uint64 { return &c.Exposed }),
	total("invalidated_remotely", "Windows that the peer's Send with Invalidate ended.", func(c *obs.Counters) *uint64 { return &c.RemoteInv }),
	total("invalidated_locally", "Windows that we ended ourselves.", func(c *obs.Counters) *uint64 { return &c.LocalInv }),
	total("credit_waits", "Calls that waited for a credit.", func(c *obs.Counters) *uint64 { return &c.CreditWaits }),
	gauge("credits_granted", "Credits that the peers grant now.", func(c *obs.Counters) *uint64 { return &c.Granted }),
	gauge("calls_outstanding", "Calls that wait for their replies.", func(c *obs.Counters) *uint64 { return &c.Outstanding }),
	gauge("backward_credits_granted", "Credits that the clients grant for backward calls now.", func(c *obs.Counters) *uint64 { return &c.BackGranted }),
	gauge("backward_calls_outstanding", "Backward calls that wait for their replies.", func(c *obs.Counters) *uint64 { return &c.BackOutstanding }),
	total("errors_sent", "Transport errors sent (RDMA_ERROR, RDMA2_ERROR).", func(c *obs.Counters) *uint64 { return &c.ErrorsSent }),
	total("errors_received", "Transport errors received.", func(c *obs.Counters) *uint64 { return &c.ErrorsRecv }),
	total("messages_dropped", "Messages received and discarded, by any rule.", func(c *obs.Counters) *uint64 { return &c.Dropped }),
	total("calls_cancelled", "Calls that their callers gave up.", func(c *obs.Counters) *uint64 { return &c.Cancelled }),
	total("zero_grants", "Grants of 0 received, taken as 1.", func(c *obs.Counters) *uint64 { return &c.ZeroCredit }),
	total("bad_invalidations", "Handles to be invalidated that are none of their header's, and windows that a peer ended wrongly.", func(c *obs.Counters) *uint64 { return &c.BadInvalidate }),
	total("operations_sent", "Operations of extensions sent, answers included.", func(c *obs.Counters) *uint64 { return &c.ControlSent }),
	total("operations_received", "Operations of extensions received.", func(c *obs.Counters) *uint64 { return &c.ControlRecv }),
	total("operations_refused", "Operations of ours that the peer answered with an error.", func(c *obs.Counters) *uint64 { return &c.ControlRefused }),
	total("operations_timed_out", "Operations of ours that were not answered in time.", func(c *obs.Counters) *uint64 { return &c.ControlTimedOut }),
	total("messages_wrapped", "RPC messages within an operation of an extension, both directions.", func(c *obs.Counters) *uint64 { return &c.Wrapped }),
	total("message_pieces", "Sends of messages in pieces, without the last of each, both directions.", func(c *obs.Counters) *uint64 { return &c.Parts }),
	total("message_pieces_unplaced", "Messages in pieces that found no place in their window.", func(c *obs.Counters) *uint64 { return &c.Unplaced }),
	total("attachments_lost", "Attachments received that an extension was too slow to be told of.", func(c *obs.Counters) *uint64 { return &c.AttachLost }),
	total("operations_late", "Operations of the peer's that an extension left to their default.", func(c *obs.Counters) *uint64 { return &c.ControlLate }),
	total("extension_requests_ignored", "What extensions asked for against their declaration, or too late.", func(c *obs.Counters) *uint64 { return &c.ExtIgnored }),
	total("calls_barred", "Calls refused, as no extension had opened the connection.", func(c *obs.Counters) *uint64 { return &c.Barred }),
	total("extension_panics", "Sessions of extensions that panicked, and are out of service for their connection.", func(c *obs.Counters) *uint64 { return &c.ExtPanics }),
}
