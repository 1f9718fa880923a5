// Package capture writes a provider's frames to a pcapng file that Wireshark and tshark
// dissect without plugins: IP packets as they were (RoCEv2), and the bytes of an iWARP stream in TCP segments
// made up for them, so that MPA, DDP, RDMAP, RPC-over-RDMA and RPC show as on a wire.
//
//	tap.go     verbs.Tap: queues frames and never blocks who sends them
//	stream.go  TCP and IP headers
//	pcapng.go  blocks of the file
//
// It also reads captures, pcap and pcapng, of anybody's, and finds iWARP in them:
//
//	read.go    packets of a file
//	packet.go  TCP segments in packets
//	flow.go    a TCP direction's bytes, in order
//	iwarp.go   MPA's frames, and RDMAP's messages of a connection
//
// What cannot be kept up with is left out of the file and counted; sequence numbers go on,
// so that a gap shows as a gap. Imports: core/verbs,
// and providers/iwarp's formats.
package capture
