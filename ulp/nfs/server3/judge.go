package server3

import (
	"encoding/binary"
	"errors"
	"sync"
	"time"
	"unsafe"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

// Rights to an object, as access(2) has them.
const (
	mayRead  = unix.R_OK
	mayWrite = unix.W_OK
	mayExec  = unix.X_OK
)

// may asks the kernel whether the caller has all of want: rights that an operation needs which uses descriptors of the
// server's. Operations that the kernel checks itself run between enter and leave.
func (c *call) may(n *node, st *stat, want uint32) nfs3.Status {
	if c.uid != 0 && c.rights.acts && c.exp.judge != nil && (n.isReg() || n.isDir()) {
		if a, ok := c.standIn(n, st); ok {
			if a.has(want) {
				return nfs3.OK
			}
			return nfs3.ErrAcces
		}
	}
	return c.ask(n.path, want)
}

// ask puts the question for the object itself.
func (c *call) ask(fd int, want uint32) nfs3.Status {
	if status := c.enter(); status != nfs3.OK {
		return status
	}
	err := access(fd, want)
	c.leave()
	return statusOf(err)
}

func access(fd int, want uint32) error {
	return unix.Faccessat2(fd, "", want, unix.AT_EACCESS|unix.AT_EMPTY_PATH)
}

// judge remembers what the kernel answered. On the file systems it is used for, what the kernel allows
// a caller without capabilities follows from the caller's ids and from the object's owner, group, mode and ACL alone.
// These are all read for each operation; the question is put once for each combination, about an
// object in memory that is given the same ones, so an answer cannot go stale, nor be one of a moment in between.
type judge struct {
	mu    sync.RWMutex
	known map[question]answers

	asking sync.Mutex // guards fd, the object in memory
	fd     int
	acl    bool // fd has one
}

type question struct {
	uid, gid     uint32
	groups       string // 4 bytes each
	owner, group uint32
	mode         uint32
	acl          string // as in the extended attribute; empty: none
}

// answers has bit 1<<want for each right, or rights together, that the caller has.
type answers uint8

func (a answers) has(want uint32) bool { return a&(1<<want) != 0 }

// maxKnown bounds what is remembered; beyond it everything is forgotten.
const maxKnown = 8192

// newJudge returns nil where there is no such object.
func newJudge() *judge {
	fd, err := unix.MemfdCreate("rights", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if err == unix.EINVAL { // before Linux 6.3
		fd, err = unix.MemfdCreate("rights", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil
	}
	if unix.Fchmod(fd, 0o777) != nil || access(fd, mayExec) != nil { // else noexec would be mistaken for a right that is missing
		unix.Close(fd)
		return nil
	}
	return &judge{fd: fd, known: map[question]answers{}}
}

func (j *judge) close() {
	if j != nil {
		unix.Close(j.fd)
	}
}

// standIn is what the caller may do with an object of n's owner, group, mode and ACL. ok is false if
// that cannot be found out in this way.
func (c *call) standIn(n *node, st *stat) (a answers, ok bool) {
	var groups [4 * 32]byte
	var acl [512]byte
	if 4*len(c.groups) > len(groups) {
		return 0, false
	}
	for i, g := range c.groups {
		binary.NativeEndian.PutUint32(groups[4*i:], g)
	}
	size, err := n.acl(st, acl[:])
	if err != nil {
		return 0, false
	}
	gb, ab := groups[:4*len(c.groups)], acl[:size]
	j := c.exp.judge
	j.mu.RLock()
	a, ok = j.known[question{c.uid, c.gid, string(gb), st.Uid, st.Gid, st.Mode & 0o777, string(ab)}]
	j.mu.RUnlock()
	if ok {
		return a, true
	}
	q := question{c.uid, c.gid, string(gb), st.Uid, st.Gid, st.Mode & 0o777, string(ab)}
	if a, ok = c.judgement(&q); !ok {
		return 0, false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.known) >= maxKnown {
		clear(j.known)
	}
	j.known[q] = a
	return a, true
}

// judgement puts the question to the kernel.
func (c *call) judgement(q *question) (a answers, ok bool) {
	j := c.exp.judge
	j.asking.Lock()
	defer j.asking.Unlock()
	if !j.dress(q) || c.enter() != nfs3.OK {
		return 0, false
	}
	defer c.leave()
	for want := uint32(1); want <= mayRead|mayWrite|mayExec; want++ {
		switch err := access(j.fd, want); err {
		case nil:
			a |= 1 << want
		case unix.EACCES:
		default:
			return 0, false
		}
	}
	return a, true
}

// dress gives the object in memory what the question is about.
func (j *judge) dress(q *question) bool {
	if j.acl {
		if err := unix.Fremovexattr(j.fd, aclName); err != nil {
			return false
		}
		j.acl = false
	}
	if unix.Fchown(j.fd, int(q.owner), int(q.group)) != nil || unix.Fchmod(j.fd, q.mode) != nil {
		return false
	}
	if q.acl != "" {
		if unix.Fsetxattr(j.fd, aclName, []byte(q.acl), 0) != nil {
			return false
		}
		j.acl = true
	}
	var st stat
	return unix.Fstat(j.fd, &st) == nil && st.Uid == q.owner && st.Gid == q.group && st.Mode&0o777 == q.mode
}

const (
	aclName        = "system.posix_acl_access"
	defaultACLName = "system.posix_acl_default"
)

var aclNameZ = append([]byte(aclName), 0)

// acl reads the object's ACL; 0 bytes: it has none. st is of before. That there is none holds as long as the object's ctime stays, which an
// ACL changes, if the clock has moved on from that time already when there was none.
func (n *node) acl(st *stat, buf []byte) (size int, err error) {
	n.mu.Lock()
	none, fd := n.noACL == st.Ctim && st.Ctim != unix.Timespec{}, n.rd
	if fd < 0 {
		fd = n.wr
	}
	n.mu.Unlock()
	if none {
		return 0, nil
	}
	if fd < 0 && n.isDir() {
		if fd, err = n.reader(); err != nil { // it will be asked for again: by descriptor that costs a sixth
			return 0, err
		}
	}
	if fd < 0 {
		size, err = unix.Getxattr(procFD(n.path), aclName, buf)
	} else {
		// As unix.Fgetxattr, which makes a copy of the name each time.
		k, _, no := unix.Syscall6(unix.SYS_FGETXATTR, uintptr(fd), uintptr(unsafe.Pointer(&aclNameZ[0])),
			uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0, 0)
		size = int(k)
		if no != 0 {
			err = no
		}
	}
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		if time.Since(time.Unix(st.Ctim.Unix())) > coarse {
			n.mu.Lock()
			n.noACL = st.Ctim
			n.mu.Unlock()
		}
		return 0, nil
	}
	return size, err
}

// inherits tells whether what is made in the directory gets an ACL from it, and the umask does not count.
func inherits(dir int) bool {
	_, err := unix.Getxattr(procFD(dir), defaultACLName, nil)
	return err == nil
}

// roomToSpare is more than what may be written between a look at the free space and the write that follows.
const roomToSpare = 1 << 30

// room tells whether fd's file system has space to spare beyond what is reserved for root. What it found holds for as long as
// nobody could have taken that much, at 1 TiB a millisecond: 80 GiB are good for 80 µs.
func (c *call) room(fd int) bool {
	now := clock()
	if now < c.exp.roomy.Load() {
		return true
	}
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil || fs.Bsize <= 0 || fs.Bavail < roomToSpare/uint64(fs.Bsize) {
		return false
	}
	spare := int64(min(fs.Bavail, 1<<50/uint64(fs.Bsize))*uint64(fs.Bsize)) - roomToSpare
	c.exp.roomy.Store(now + spare>>20)
	return true
}

// How much of the caller a write is to be done as.
type doer int

const (
	asServer doer = iota // it comes out the same whoever does it
	asUser               // without the server's capabilities: the groups do not matter
	asCaller
)

// writesAs tells as whom to write to fd. What it goes by is set-id bits that are to be dropped, quotas that are on, space
// beyond that reserved for root.
func (c *call) writesAs(fd int, st *stat) doer {
	if !c.rights.acts {
		return asServer
	}
	if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		return asCaller
	}
	switch c.exp.fstype {
	case unix.EXT4_SUPER_MAGIC:
		if !c.room(fd) {
			return asCaller
		}
	case unix.TMPFS_MAGIC:
	case unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC:
		return asServer // no reserve that depends on who writes, and quotas that bind everybody
	default:
		return asCaller
	}
	if c.rights.large && quotas(fd) {
		return asUser
	}
	return asServer
}

// quotas tells whether a quota may be on in fd's file system: Q_XGETQSTAT, which covers those of users, groups and projects, fails
// with ENOSYS where none is.
func quotas(fd int) bool {
	const xgetqstat = ('X'<<8 + 5) << 8
	var state [128]byte // struct fs_quota_stat and room
	_, _, no := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), xgetqstat, 0, uintptr(unsafe.Pointer(&state[0])), 0, 0)
	return no == 0 || no != unix.ENOSYS || !haveQuotactlFD()
}

// haveQuotactlFD: Linux 5.14. On older ones ENOSYS says nothing about quotas.
var haveQuotactlFD = sync.OnceValue(func() bool {
	_, _, no := unix.Syscall6(unix.SYS_QUOTACTL_FD, keep, 0, 0, 0, 0, 0)
	return no != unix.ENOSYS
})

// judged tells whether rights on file systems of this type follow from owner, group, mode and ACL.
func judged(fstype int64) bool {
	switch fstype {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return true
	}
	return false
}

// fixed tells whether an object takes no writes from anybody: chattr +i, or a file system mounted for reading.
func fixed(n *node) bool {
	var x unix.Statx_t
	var fs unix.Statfs_t
	return unix.Statx(n.path, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE, &x) != nil || x.Attributes&unix.STATX_ATTR_IMMUTABLE != 0 ||
		unix.Fstatfs(n.path, &fs) != nil || fs.Flags&unix.ST_RDONLY != 0
}
