#!/bin/bash
# First contact with Linux: ping, ls, stat, get and put against a kernel's NFS server (svcrdma, knfsd) over siw.
# The server runs in a virtual machine of the lab at $LAB (default: ../shared/lab/lab beside the
# repository); without it there is nothing to talk to, and the script says so and ends with 0.
# Needs root. Prints 'N passed, N failed' last.
set -u
top=$(cd "$(dirname "$0")/../.." && pwd)
LAB=${LAB:-$top/../shared/lab/lab}
export LAB_NS=${LAB_NS:-rlab}
if [ ! -x "$LAB" ]; then
	echo "skipped: no lab of virtual machines at $LAB (set LAB)"
	exit 0
fi
work=$(mktemp -d)
passed=0 failed=0
ok() { passed=$((passed + 1)); echo "ok    $*"; }
bad() { failed=$((failed + 1)); echo "FAIL  $*"; }
check() { # NAME COMMAND...
	local name=$1
	shift
	if "$@" >"$work/out" 2>&1; then ok "$name"; else bad "$name"; sed 's/^/      /' "$work/out"; fi
}

(cd "$top" && CGO_ENABLED=0 go build -o "$work/rpcrdma" ./cmd/rpcrdma) || exit 1
"$LAB" setup >"$work/setup.log" 2>&1 || { tail "$work/setup.log"; exit 1; }
trap '"$LAB" signal done; "$LAB" wait srv; "$LAB" net down; rm -rf "$work"' EXIT
"$LAB" net up >/dev/null 2>&1
cat >"$work/srv.sh" <<'S'
lab_rdma siw || lab_die rdma
lab_nfsd 4 || lab_die nfsd
rpcinfo -p | awk '$1 == 100005 && $2 == 3 && $3 == "tcp" { print $4; exit }' >/lab/mountport
for n in 0 1 3 4 1000 1021 4096 5000 65539 1048576 8388609; do head -c $n /dev/urandom >/export/f.$n; done
(cd /export && sha256sum f.*) >/lab/sums
lab_signal nfsd
lab_wait done 400
(cd /export && sha256sum p.* 2>/dev/null) >/lab/back
dmesg | grep -E 'svcrdma|siw|BUG:|WARNING:|Oops:'
exit 0
S
share=${LAB_CACHE:-$HOME/.cache/rpcrdma-lab}/run/$LAB_NS/share
rm -f "$share"/{mountport,sums,back}
"$LAB" spawn srv --script "$work/srv.sh" --timeout 500 >/dev/null
"$LAB" await nfsd 90 || { "$LAB" log srv | tail -20; exit 1; }
port=$(cat "$share/mountport")
run() { "$LAB" exec "$work/rpcrdma" "$@"; }
url=iwarp://10.77.0.2:20049

check "ping: version 2 offered, ERR_VERS, version 1 on the same connection" run ping "$url" -c 5
sed 's/^/      /' "$work/out"
check "ping, version 1 from the start" run ping "$url" -c 2 --protocol 1
check "ping without CRC" run ping "$url?crc=false" -c 2
if run ping "$url" -c 1 --protocol 2 >"$work/out" 2>&1; then bad "--protocol 2 is refused by a version 1 server"; else ok "--protocol 2: $(tail -n 1 "$work/out")"; fi
check "ls" run nfs ls "$url/export" --mountport "$port"
check "stat" run nfs stat "$url/export/f.5000" --mountport "$port"
while read -r sum name; do
	run nfs get "$url/export/$name" "$work/$name" --mountport "$port" >"$work/out" 2>&1
	got=$(sha256sum <"$work/$name" | cut -d' ' -f1)
	if [ "$got" = "$sum" ]; then ok "get $name"; else bad "get $name"; cat "$work/out"; fi
	run nfs put "$url/export/p.${name#f.}" "$work/$name" --mountport "$port" >"$work/out" 2>&1 ||
		{ bad "put $name"; cat "$work/out"; }
done <"$share/sums"
for i in $(seq 1 "${CONNECTS:-20}"); do run ping "$url" -c 1 >"$work/out" 2>&1 || { bad "connect $i"; cat "$work/out"; }; done
ok "${CONNECTS:-20} connections one after the other"
"$LAB" signal done
"$LAB" wait srv
if diff <(sed 's/f\./p./' "$share/sums") "$share/back"; then ok "what was put has the same digests in the guest"; else bad "digests in the guest"; fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
