// Package mpa is the MPA layer of iWARP: start-up frames of revision 1 (RFC 5044 §7.1)
// and 2 (RFC 6581), what two ends agree on by them, and the framing of ULPDUs as FPDUs
// with their CRC (RFC 5044 §4). Markers are not supported: a peer that asks for
// them is refused, as Linux refuses it.
//
// Values and bytes only. No socket, no timer, no DDP header enters here.
// Imports: the standard library.
package mpa
