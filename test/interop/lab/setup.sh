#!/bin/bash
# Makes what a guest is booted from, in $RPCRDMA_LAB_CACHE: vmlinux, initrd and disk.img. The kernel and
# the guest's programs are Debian's packages, unpacked there and installed nowhere, so that no service
# starts on this machine and no kernel is changed. Only tools that run here are installed (apt).
#
#	setup.sh          makes what is missing; at once when all is there
#	setup.sh check    prints why the lab cannot run here and fails, or says nothing
#
# It ends with 1 when something is broken, 2 when the lab cannot run here, 3 when packages cannot be had.
#
# README.md beside this file says what it is for.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${RPCRDMA_LAB_CACHE:-${HOME:-/root}/.cache/rpcrdma-interop}

# Tools of this machine. gcc-12 is what Debian 12 builds its kernel with: a module wants the same.
tools=(qemu-system-x86 busybox-static iproute2 tcpdump tshark kmod cpio gcc-12 make binutils xz-utils e2fsprogs libelf1)
# What runs in the guests, and libraries that a bare Debian does not have.
guest=(nfs-common nfs-kernel-server rpcbind mount iproute2 netbase libtirpc3 libtirpc-common libnfsidmap1 libevent-core-2.1-7
	libsqlite3-0 libkeyutils1 libwrap0 libdevmapper1.02.1 libgssapi-krb5-2 libkrb5-3 libk5crypto3 libkrb5support0 libcom-err2
	libbpf1 libbsd0 libmd0 libelf1 libmnl0 libxtables12 libcap2 libmount1 libblkid1 libsmartcols1 libselinux1 libpcre2-8-0 libdb5.3 libnsl2 acl libacl1 e2fsprogs libext2fs2 libss2 libuuid1 quota)
programs=(mount umount mount.nfs umount.nfs rpc.mountd rpc.nfsd exportfs rpcbind rpcinfo showmount nfsstat ip rdma ss setfacl mkfs.ext4 tune2fs chattr setquota)
modules=(virtio_pci virtio_net virtio_blk 9p 9pnet_virtio ext4 crc32c_generic libcrc32c crc32c_intel ib_uverbs rdma_ucm rpcrdma
	nfsd nfs nfsv3 nfsv4 lockd loop quota_v2)

log=$cache/setup.log
say() { echo "lab: $*" >&2; }
die() { say "$* (see $log)"; exit 1; }
# offline ends with a status of its own: nothing is broken, the packages just cannot be had.
offline() { say "$* (see $log)"; exit 3; }

# check prints the first thing that is in the way.
check() {
	if [ "$(id -u)" != 0 ]; then echo "not root: network namespaces and guests need it"; return 1; fi
	if ! command -v dpkg >/dev/null || ! grep -qs '^ID=debian' /etc/os-release; then
		echo "not Debian: the guests are made of Debian's packages"; return 1; fi
	if [ "$(dpkg --print-architecture)" != amd64 ]; then echo "not amd64"; return 1; fi
	if ! grep -qs '^VERSION_CODENAME=bookworm' /etc/os-release; then echo "not Debian 12: siw is built for its kernel"; return 1; fi
	if [ ! -c /dev/net/tun ] && ! { mkdir -p /dev/net && mknod /dev/net/tun c 10 200; } 2>/dev/null; then
		echo "no /dev/net/tun"; return 1; fi
	if ! unshare -nm true 2>/dev/null; then echo "no network and mount namespaces: no privilege for it, or / is no mount point (chroot)"; return 1; fi
	if ! unshare -n sh -c 'ip link add probe0 type bridge' 2>/dev/null && command -v ip >/dev/null; then
		echo "no bridges in this kernel"; return 1; fi
	if ! mkdir -p "$cache" 2>/dev/null; then echo "cannot make $cache"; return 1; fi
	if [ ! -e "$cache/done" ] && ! command -v qemu-system-x86_64 >/dev/null && ! apt-cache policy qemu-system-x86 2>/dev/null | grep -q 'Candidate: [0-9]' &&
		! apt-get -qq update >/dev/null 2>&1; then
		echo "no qemu-system-x86_64, and no packages to be had"; return 1; fi
}

# unpack DIR PACKAGE...: downloads packages and unpacks them under DIR.
unpack() {
	local dir=$1 load
	shift
	load=$(mktemp -d "$cache/load.XXXX")
	mkdir -p "$dir"
	(cd "$load" && apt-get -q download "$@") >>"$log" 2>&1 || { rm -rf "$load"; offline "cannot download $*"; }
	for f in "$load"/*.deb; do dpkg -x "$f" "$dir"; done
	rm -rf "$load"
}

host_tools() {
	local missing=() p
	for p in "${tools[@]}"; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || missing+=("$p")
	done
	[ ${#missing[@]} = 0 ] && [ -s "$cache/kernel/version" ] && [ -e "$cache/programs/done" ] && return
	apt-get -q update >>"$log" 2>&1 || say "apt-get update failed; going on with the lists that are there"
	[ ${#missing[@]} = 0 ] && return
	say "installing ${missing[*]}"
	echo wireshark-common wireshark-common/install-setuid boolean false | debconf-set-selections 2>/dev/null || true
	DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1 || offline "apt-get install failed"
}

kernel() {
	[ -s "$cache/kernel/version" ] && return
	local v
	v=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: linux-image-\([0-9].*\)/\1/p' | head -n 1)
	[ -n "$v" ] || die "the package linux-image-amd64 names no kernel"
	say "unpacking Debian's kernel $v"
	rm -rf "$cache/kernel"
	unpack "$cache/kernel" "linux-image-$v"
	depmod -b "$cache/kernel" "$v"
	siw "$v"
	plain_kernel "$cache/kernel/boot/vmlinuz-$v"
	echo "$v" >"$cache/kernel/version"
}

# plain_kernel FILE: takes the compressed kernel out of its loader; qemu starts it by its PVH entry,
# which saves an emulated processor the unpacking.
plain_kernel() {
	local at
	at=$(LC_ALL=C grep -aobP -m 1 '\xfd7zXZ\x00' "$1" | head -n 1 | cut -d: -f1) || true
	# xz fails at what follows the stream; what counts is that an ELF file came out.
	{ [ -n "$at" ] && tail -c "+$((at + 1))" "$1" | xz -dcq >"$cache/kernel/vmlinux" 2>/dev/null; } || true
	if [ "$(head -c 4 "$cache/kernel/vmlinux" | tail -c 3)" != ELF ]; then cp "$1" "$cache/kernel/vmlinux"; fi
}

# siw VERSION: iWARP in software is part of Linux but not of Debian's kernel. It is built unchanged,
# as a module of its own, from Debian's source package of the very same version.
siw() {
	local v=$1 series=${1%%-*} w=$cache/siw release src
	series=${series%.*}
	release=$(strings -n 8 "$cache/kernel/boot/vmlinuz-$v" | sed -n 's/.* Debian \([0-9][^ ]*\) (.*/\1/p' | head -n 1)
	[ -n "$release" ] || release=$(apt-cache policy "linux-image-$v" | sed -n 's/ *Candidate: //p')
	say "building siw from linux-source-$series $release"
	rm -rf "$w"
	unpack "$w" "linux-headers-$v" "linux-headers-${v%-amd64}-common" "linux-kbuild-$series" "linux-source-$series=$release"
	src=$w/linux/drivers/infiniband/sw/siw
	mkdir -p "$w/linux"
	xz -dc -T0 "$w/usr/src/linux-source-$series.tar.xz" | tar -x -C "$w/linux" --strip-components=1 --wildcards '*/drivers/infiniband/sw/siw/*'
	rm -f "$w/usr/src/linux-source-$series.tar.xz"
	{ echo 'obj-m := siw.o'; sed -n '/siw-y/,$p' "$src/Makefile"; } >"$src/Makefile.own"
	mv "$src/Makefile.own" "$src/Makefile"
	# Debian's headers name each other by absolute paths; they lie elsewhere here.
	sed -i "s#/usr/src/#$w/usr/src/#g" "$w/usr/src/linux-headers-$v/Makefile"
	make -C "$w/usr/src/linux-headers-$v" M="$src" modules >>"$log" 2>&1 || die "siw does not build"
	mkdir -p "$cache/kernel/lib/modules/$v/extra"
	cp "$src/siw.ko" "$cache/kernel/lib/modules/$v/extra/"
	depmod -b "$cache/kernel" "$v"
	rm -rf "$w"
}

guest_programs() {
	[ "$(cat "$cache/programs/done" 2>/dev/null)" = "${guest[*]}" ] && return
	say "unpacking the guests' programs"
	rm -rf "$cache/programs"
	unpack "$cache/programs" "${guest[@]}"
	echo "${guest[*]}" >"$cache/programs/done"
}

# libraries ROOT: copies what the programs under ROOT are linked with.
libraries() {
	local root=$1 p=$cache/programs lib
	LD_LIBRARY_PATH=$p/usr/lib/x86_64-linux-gnu:$p/lib/x86_64-linux-gnu
	export LD_LIBRARY_PATH
	find "$root/usr/sbin" -type f -exec ldd {} + 2>>"$log" | awk '
		/not found/ { print "missing library " $1 >"/dev/stderr"; bad = 1 }
		$3 ~ /^\// { print $3 }
		$1 ~ /^\/.*ld-linux/ { print $1 }
		END { exit bad }' | sort -u >"$cache/libs"
	unset LD_LIBRARY_PATH
	while read -r lib; do cp -L "$lib" "$root/usr/lib/x86_64-linux-gnu/"; done <"$cache/libs"
	ln -sf /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 "$root/lib64/ld-linux-x86-64.so.2"
	# Loaded by name while running, so that ldd does not know of it.
	cp -L /lib/x86_64-linux-gnu/libnss_files.so.2 /lib/x86_64-linux-gnu/libgcc_s.so.1 "$root/usr/lib/x86_64-linux-gnu/" 2>/dev/null || true
}

image() {
	local v r=$cache/image f m p
	v=$(cat "$cache/kernel/version")
	rm -rf "$r"
	mkdir -p "$r"/{bin,sbin,usr/bin,usr/sbin,usr/lib/x86_64-linux-gnu,lib64,proc,sys,dev,etc,tmp,run,root,host,mnt,export} \
		"$r"/var/lib/nfs/{sm,sm.bak,rpc_pipefs,v4recovery} "$r/lib/modules/$v"
	ln -s ../usr/lib/x86_64-linux-gnu "$r/lib/x86_64-linux-gnu"
	ln -s /run "$r/var/run"
	cp "$(command -v busybox)" "$r/bin/busybox"
	for p in "${programs[@]}"; do
		f=$(find "$cache/programs" -path "*bin/$p" \( -type f -o -type l \) | head -n 1)
		[ -n "$f" ] || die "no program $p in the packages"
		cp -L "$f" "$r/usr/sbin/$p"
	done
	for f in $(busybox --list); do
		[ -e "$r/usr/sbin/$f" ] || [ -e "$r/bin/$f" ] || ln -s /bin/busybox "$r/bin/$f"
	done
	# mount(8) looks for its helpers in /sbin, the kernel there for modprobe.
	for p in mount.nfs umount.nfs; do ln -s "../usr/sbin/$p" "$r/sbin/$p"; done
	ln -s ../bin/busybox "$r/sbin/modprobe"
	libraries "$r"
	cp "$cache"/programs/etc/{netconfig,protocols,services,rpc} "$r/etc/"
	printf '%s\n' root:x:0:0:root:/root:/bin/sh _rpc:x:100:65534::/run:/bin/false alice:x:1000:1000::/:/bin/sh \
		bob:x:1001:1001::/:/bin/sh nobody:x:65534:65534::/:/bin/false >"$r/etc/passwd"
	printf '%s\n' root:x:0: alice:x:1000: bob:x:1001: nogroup:x:65534: >"$r/etc/group"
	printf '%s: files\n' passwd group hosts services protocols rpc >"$r/etc/nsswitch.conf"
	echo '127.0.0.1 localhost' >"$r/etc/hosts"
	: >"$r/etc/fstab"
	ln -s /proc/self/mounts "$r/etc/mtab"
	for m in "${modules[@]}" siw; do
		modprobe -d "$cache/kernel" -S "$v" --show-depends "$m" | sed -n 's/^insmod \([^ ]*\).*/\1/p'
	done | sort -u >"$cache/mods"
	while read -r f; do
		m=$r/lib/modules/$v/${f#*"/modules/$v/"}
		mkdir -p "${m%/*}"
		# Without debugging data, and so without signatures, whose check takes an emulated processor seconds.
		strip -g -o "$m" "$f"
	done <"$cache/mods"
	cp "$cache/kernel/lib/modules/$v"/modules.{order,builtin,builtin.modinfo} "$r/lib/modules/$v/"
	depmod -b "$r" "$v"
	cp "$here/guest/init" "$r/init"
	cp "$here/guest/lib.sh" "$r/etc/lib.sh"
	chmod 755 "$r/init"
	(cd "$r" && find . | cpio -o -H newc --quiet) >"$cache/initrd.new"
	mv "$cache/initrd.new" "$cache/initrd"
	rm -rf "$r"
	# A server that is rebooted must find its files again: they lie on a disk. Each run works on a copy.
	rm -f "$cache/disk.img"
	truncate -s 256M "$cache/disk.img"
	mkfs.ext4 -q -E lazy_itable_init=1,lazy_journal_init=1 -I 256 "$cache/disk.img"
}

if [ "${1:-}" = check ]; then check; exit; fi
if why=$(check); then :; else echo "lab: $why" >&2; exit 2; fi
exec 9>"$cache/setup.lock"
flock 9
# stamp is what the image was made of.
stamp() { cat "$here/setup.sh" "$here"/guest/* "$cache/kernel/version" | sha256sum; }
if [ -e "$cache/done" ] && [ "$(cat "$cache/done")" = "$(stamp)" ]; then exit 0; fi
begin=$SECONDS
rm -f "$cache/done"
: >"$log"
host_tools
kernel
guest_programs
image
stamp >"$cache/done"
say "set up in $((SECONDS - begin)) s: kernel $(cat "$cache/kernel/version"), $(du -h "$cache/initrd" | cut -f1) of guest"
