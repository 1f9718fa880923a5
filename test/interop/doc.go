// Command interop runs the project's own processes against the Linux kernel: its NFS/RDMA
// client mounts our server, and our client uses its server (svcrdma, knfsd), over iWARP as the kernel's
// siw speaks it. The kernels run in virtual machines that lab/ makes from Debian's packages; nothing leaves
// this machine. It needs root, Debian 12 and network namespaces, and says so where it cannot run.
//
//	main.go     the command line, one line per case
//	lab.go      the network, programs in it, captures
//	guest.go    virtual machines and scripts in them
//	ours.go     our server and our client as processes
//	parts.go    what our client does in ways that the command line has no verbs for
//	judge.go    what tshark and rpcrdma decode say of a case's capture
//	stats.go    /proc/self/mountstats
//	cases*.go   the cases
//	work/       the program that makes file system calls in a guest
package main
