// Package oracle compares our encoders and decoders with C code that nobody here wrote: what
// rpcgen makes of core/wire/xdr/*.x, and libtirpc's own xdr_callmsg, xdr_replymsg and
// xdr_authunix_parms. Bytes must be equal in both directions, for every combination of chunk lists and
// every procedure, error body and reply.
//
// The tests build testdata/*.c in a temporary directory and talk to it over a pipe. They are skipped
// where rpcgen, a C compiler or libtirpc is missing.
package oracle
