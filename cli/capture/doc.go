// Package capture writes a provider's frames to a pcapng file that Wireshark and tshark
// dissect without plugins: the bytes of an iWARP stream in TCP segments made up for
// them, so that MPA, DDP, RDMAP, RPC-over-RDMA and RPC show as on a wire.
//
//	tap.go     verbs.Tap: queues frames and never blocks who sends them
//	stream.go  TCP and IP headers
//	pcapng.go  blocks of the file
//
// What cannot be kept up with is left out of the file and counted; sequence numbers go on,
// so that a gap shows as a gap. Imports: core/verbs.
package capture
