// Package server3 serves one directory by NFS version 3 and MOUNT version 3 (RFC 1813): the 22
// procedures are a mapping to system calls on Linux.
//
// Handles name a file by export, inode and generation, so they outlive the server; they
// carry a MAC, so none but ours is looked at, and its key is kept in a state directory
// (state.go). A file is found again by open_by_handle_at where
// the server may call it, else by path (handles.go, places.go). Whatever a client
// names, it does not leave the export: names are single components and never followed
// through symlinks or mount points, and what was moved out is stale (export.go).
//
// The kernel judges what a caller may do. Operations run with the caller's user, group and
// supplementary groups, which the thread takes for their system calls and gives back
// (rights.go). Where one uses descriptors of the server's, the kernel is asked first
// (judge.go). In user space there is only what squashing and the range of ids require, and the owner's right to
// the data of a file of whatever mode, which NFS needs (access.go). A process that is not root
// has one user for all callers.
//
// READ and WRITE go by pread and pwrite between the file and memory the transport
// registered: no copy is made here.
//
// What a client can make the server hold is bounded: open files (nodes.go), directory
// streams (dirs.go), names of inodes (places.go), answers about rights (judge.go), mount entries (mount.go).
//
// It needs /proc mounted: an object that is only named (O_PATH) is opened for data
// through /proc/self/fd. Imports: core/rpc, core/rpcmsg, core/xdr, nfs3, mount3, and the
// procedures of ulp/nfs.
package server3
