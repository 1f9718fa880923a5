package server3

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

// A handle:
//
//	0  version     1
//	1  form        what the body is
//	2  type, 2     of a kernel handle
//	4  export, 4
//	8  inode, 8
//	16 body, ..36  formKernel: the file system's own handle: inode and generation, as it keeps them
//	               formBirth: when the inode was made, 8 + 4: the generation where it tells no other;
//	               zeros where that does not stay the same (overlayfs without nfs_export): there an
//	               old handle may come to mean a new file of the same inode number
//	-12 MAC, 12    HMAC-SHA256 over all before, cut
//
// Equal files have equal handles: clients compare them. Nothing in it depends on the path,
// so renaming a file or a directory above it changes nothing; nothing depends on this
// process but the key of the MAC, so with a key that is kept (HandleKey) handles survive its
// restart, and a reboot where the file system has an id of its own.
const (
	handleVersion = 1
	formKernel    = 1
	formBirth     = 2
	handleHead    = 16
	macSize       = 12
	maxBody       = nfs3.HandleSize - handleHead - macSize
)

// mac keeps hashes that are keyed already.
type mac struct{ pool sync.Pool }

// init takes the key, or makes one that dies with the process.
func (m *mac) init(secret []byte) {
	if len(secret) == 0 {
		secret = make([]byte, keySize)
		rand.Read(secret)
	}
	h := hmac.New(sha256.New, secret)
	h.Write([]byte("rpcrdma nfs3 handle"))
	key := h.Sum(nil)
	m.pool.New = func() any { return hmac.New(sha256.New, key) }
}

func (m *mac) sum(dst *[sha256.Size]byte, b []byte) {
	h := m.pool.Get().(hash.Hash)
	h.Reset()
	h.Write(b)
	h.Sum(dst[:0])
	m.pool.Put(h)
}

// handle makes the handle of an open object.
func (e *export) handle(fd int, st *unix.Stat_t) (nfs3.Handle, error) {
	var b [nfs3.HandleSize]byte
	b[0] = handleVersion
	binary.BigEndian.PutUint32(b[4:], e.id)
	binary.BigEndian.PutUint64(b[8:], st.Ino)
	n := handleHead
	if e.kernel {
		if h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH); err == nil && fits(h) {
			b[1] = formKernel
			binary.BigEndian.PutUint16(b[2:], uint16(h.Type()))
			n += copy(b[n:], h.Bytes())
		}
	}
	if b[1] == 0 {
		var x unix.Statx_t
		if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &x); err != nil {
			return nfs3.Handle{}, err
		}
		b[1] = formBirth
		if e.births && x.Mask&unix.STATX_BTIME != 0 {
			binary.BigEndian.PutUint64(b[n:], uint64(x.Btime.Sec))
			binary.BigEndian.PutUint32(b[n+8:], x.Btime.Nsec)
		}
		n += 12
	}
	var sum [sha256.Size]byte
	e.mac.sum(&sum, b[:n])
	n += copy(b[n:n+macSize], sum[:])
	h, _ := nfs3.NewHandle(b[:n])
	return h, nil
}

// handleIn is handle for what was found by name: a directory on another device is a
// subvolume, whose inode numbers are its own, and counts as a mount point.
func (e *export) handleIn(fd int, st *unix.Stat_t) (nfs3.Handle, error) {
	if st.Dev != e.st.Dev && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nfs3.Handle{}, unix.EXDEV
	}
	return e.handle(fd, st)
}

func fits(h unix.FileHandle) bool { return h.Size() <= maxBody && h.Type()>>16 == 0 }

// check tells whether a handle is one of ours and of this export, and gives its inode.
func (e *export) check(h *nfs3.Handle) (ino uint64, st nfs3.Status) {
	b := h.Bytes()
	if len(b) < handleHead+macSize || b[0] != handleVersion {
		return 0, nfs3.ErrBadHandle
	}
	var sum [sha256.Size]byte
	body := b[:len(b)-macSize]
	e.mac.sum(&sum, body)
	if !hmac.Equal(sum[:macSize], b[len(body):]) {
		return 0, nfs3.ErrBadHandle
	}
	if binary.BigEndian.Uint32(b[4:]) != e.id {
		return 0, nfs3.ErrStale
	}
	return binary.BigEndian.Uint64(b[8:]), nfs3.OK
}

// open opens what h names, O_PATH, and shows that it is that and lies in the export.
func (e *export) open(h *nfs3.Handle) (int, unix.Stat_t, nfs3.Status) {
	var st unix.Stat_t
	ino, status := e.check(h)
	if status != nfs3.OK {
		return -1, st, status
	}
	if ino == e.st.Ino {
		if fd, err := e.openPath("."); err == nil {
			if e.is(fd, h, &st) {
				return fd, st, nfs3.OK
			}
			unix.Close(fd)
		}
	}
	b := h.Bytes()
	if !e.byHandle || b[1] != formKernel {
		return e.find(ino, h)
	}
	kh := unix.NewFileHandle(int32(binary.BigEndian.Uint16(b[2:])), b[handleHead:len(b)-macSize])
	fd, err := unix.OpenByHandleAt(e.root, kh, unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		if err == unix.EMFILE || err == unix.ENFILE || err == unix.ENOMEM {
			return -1, st, nfs3.ErrJukebox
		}
		return -1, st, nfs3.ErrStale
	}
	if err := unix.Fstat(fd, &st); err != nil || st.Ino != ino || st.Nlink == 0 || !e.inside(fd, &st) {
		unix.Close(fd)
		return -1, st, nfs3.ErrStale
	}
	return fd, st, nfs3.OK
}

// is tells whether fd is what h names.
func (e *export) is(fd int, h *nfs3.Handle, st *unix.Stat_t) bool {
	if unix.Fstat(fd, st) != nil {
		return false
	}
	got, err := e.handle(fd, st)
	return err == nil && got == *h
}
