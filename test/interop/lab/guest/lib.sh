# What scripts in a guest may call.
# busybox takes its own applets before programs of the same name; these are util-linux's and iproute2's.
mount() { /usr/sbin/mount "$@"; }
umount() { /usr/sbin/umount "$@"; }
ip() { /usr/sbin/ip "$@"; }
fail() { echo "FAIL: $*"; exit 1; }
drop_caches() { sync; echo 3 >/proc/sys/vm/drop_caches; }

# siw_up makes the RDMA device siw0 on eth0.
siw_up() {
	[ -e /sys/class/infiniband/siw0 ] && return
	modprobe siw && modprobe ib_uverbs && modprobe rdma_ucm || return 1
	rdma link add siw0 type siw netdev eth0 || return 1
	_n=50
	until grep -q ACTIVE /sys/class/infiniband/siw0/ports/1/state; do
		_n=$((_n - 1))
		[ $_n -gt 0 ] || return 1
		usleep 100000
	done
	modprobe rpcrdma
}

# knfsd_up THREADS: the kernel's server on /export, by RDMA on 20049, MOUNT on TCP 20048. /export lies
# on the disk, so that handles outlive a reboot.
knfsd_up() {
	siw_up || return 1
	modprobe ext4 && mount -t ext4 /dev/vda /export || return 1
	chmod 777 /export
	modprobe nfsd
	mount -t nfsd nfsd /proc/fs/nfsd
	mount -t rpc_pipefs sunrpc /var/lib/nfs/rpc_pipefs
	: >/var/lib/nfs/etab
	: >/var/lib/nfs/rmtab
	rpcbind -w 2>/dev/null || rpcbind || return 1
	echo '/export *(rw,no_root_squash,no_subtree_check,insecure,sync,fsid=0)' >/etc/exports
	exportfs -a && rpc.mountd -p 20048 || return 1
	# A client of version 4 would otherwise keep everybody waiting for its return.
	echo 2 >/proc/fs/nfsd/nfsv4gracetime
	echo 10 >/proc/fs/nfsd/nfsv4leasetime
	rpc.nfsd "$1" || return 1
	echo rdma 20049 >/proc/fs/nfsd/portlist || return 1
	echo Y >/proc/fs/nfsd/v4_end_grace
}

# alarms prints what a kernel's log must not hold.
alarms() {
	dmesg | grep -E 'BUG:|WARNING:|Oops|Call Trace|rcu.*stall|hung_task|blocked for more than|rpcrdma: .*(failed|bad|malformed|invalid)|svcrdma: .*(failed|bad)|siw: .*(invalid|fatal|warn)|nfs: .*(bogus|broken|error)|NFS: .*(error|bad|loop)|RPC: .*(bad|garbled)'
}
