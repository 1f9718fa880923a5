// Package server3 serves one directory by NFS version 3 and MOUNT version 3 (RFC 1813): the 22
// procedures are a mapping to system calls on Linux.
//
// Handles name a file by export, inode and generation, so they outlive the server; they
// carry a MAC, so none but ours is looked at. A file is found again by open_by_handle_at where
// the server may call it, else by path (handles.go, places.go). Whatever a client
// names, it does not leave the export: names are single components and never followed
// through symlinks or mount points (export.go).
//
// The server acts with its own rights and checks the caller's itself, by owner, group and
// mode bits (access.go); POSIX ACLs are not looked at.
//
// READ and WRITE go by pread and pwrite between the file and memory the transport
// registered: no copy is made here.
//
// What a client can make the server hold is bounded: open files (nodes.go), directory
// streams (dirs.go), names of inodes (places.go), mount entries (mount.go).
//
// It needs /proc mounted: an object that is only named (O_PATH) is opened for data
// through /proc/self/fd. Imports: core/rpc, core/rpcmsg, core/xdr, nfs3, mount3, and the
// procedures of ulp/nfs.
package server3
