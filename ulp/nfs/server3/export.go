package server3

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// export is the directory served. Everything under it is reached from its descriptor:
// by one component at a time, or by handle and then proven to lie beneath.
type export struct {
	dir  string
	root int // O_RDONLY|O_DIRECTORY
	st   unix.Stat_t
	fsid uint64 // of the file system, stable over restarts where it has an id of its own
	id   uint32 // of the export, in handles
	mac  mac

	kernel   bool // name_to_handle_at works here
	byHandle bool // open_by_handle_at works: CAP_DAC_READ_SEARCH
	births   bool // an inode keeps the time it was made
	whole    bool // the root of a file system: all of it lies beneath
	places   *places

	fstype int64
	judge  *judge       // nil: every question about rights is put for the object itself
	links  int          // /proc/self/fd
	roomy  atomic.Int64 // until when there is room to spare (clock)
	base   atomic.Pointer[based]
}

// based is where the root was found.
type based struct {
	path string // with a slash at its end
	at   time.Time
}

func openExport(dir string, o *Options) (*export, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(abs, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	e := &export{dir: abs, root: fd, links: -1}
	if err := e.probe(o); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// probe finds out once what the kernel and the file system offer here.
func (e *export) probe(o *Options) error {
	if err := unix.Fstat(e.root, &e.st); err != nil {
		return err
	}
	real, err := os.Readlink(procFD(e.root))
	if err != nil {
		return fmt.Errorf("/proc is needed: %w", err)
	}
	e.dir = real
	if e.links, err = unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("/proc is needed: %w", err)
	}
	fd, err := e.openPath(".")
	if err == nil {
		err = access(fd, 0)
		unix.Close(fd)
	}
	if err != nil {
		return fmt.Errorf("openat2 and faccessat2 are required, Linux 5.8 or later: %w", err)
	}
	var sfs unix.Statfs_t
	if err := unix.Fstatfs(e.root, &sfs); err != nil {
		return err
	}
	e.fstype = sfs.Type
	if judged(e.fstype) {
		e.judge = newJudge()
	}
	// Overlayfs shows that of the copy once a file is copied up, with the same inode number.
	e.births = sfs.Type != unix.OVERLAYFS_SUPER_MAGIC
	e.fsid = uint64(uint32(sfs.Fsid.Val[0])) | uint64(uint32(sfs.Fsid.Val[1]))<<32
	if e.fsid == 0 {
		e.fsid = e.st.Dev
	}
	var mount int
	h, id, err := unix.NameToHandleAt(e.root, "", unix.AT_EMPTY_PATH)
	if err == nil && fits(h) && !o.noKernelHandles {
		e.kernel, mount = true, id
		if fd, err := unix.OpenByHandleAt(e.root, h, unix.O_PATH|unix.O_CLOEXEC); err == nil {
			e.byHandle = !o.noOpenByHandle
			unix.Close(fd)
		}
		e.whole = wholeFS(mount, e.dir)
	}
	f := fnv.New32a()
	binary.Write(f, binary.BigEndian, [2]uint64{e.fsid, e.st.Ino})
	e.id = f.Sum32()
	e.places = newPlaces(o.searchLimit)
	e.mac.init(o.Secret)
	return nil
}

func (e *export) close() error {
	e.judge.close()
	if e.links >= 0 {
		unix.Close(e.links)
	}
	return unix.Close(e.root)
}

// wholeFS tells whether dir is where the root of the file system itself is mounted
// (proc_pid_mountinfo(5): fields 1, 4 and 5), so that no handle of it can lie elsewhere.
func wholeFS(mount int, dir string) bool {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		w := strings.Fields(sc.Text())
		if len(w) > 4 && w[0] == strconv.Itoa(mount) {
			return w[3] == "/" && w[4] == dir
		}
	}
	return false
}

// beneath: no way out of the directory, no symlink on the way, no other mount.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// openChild opens name, a single component that is neither "." nor "..", in dir
// without following it: O_PATH, also of a symlink itself.
func (e *export) openChild(dir int, name string) (int, error) { return openat2(dir, name) }

func openat2(dir int, name string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: beneath}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dir, name, &how)
		if (err == unix.EAGAIN || err == unix.EINTR) && try < 16 { // a rename raced with the walk
			continue
		}
		return fd, err
	}
}

// openPath opens a relative path below the root.
func (e *export) openPath(path string) (int, error) { return openat2(e.root, path) }

func (e *export) isRoot(st *unix.Stat_t) bool { return st.Ino == e.st.Ino && st.Dev == e.st.Dev }

// maxDepth bounds walks towards the root.
const maxDepth = 4096

// contains tells whether the directory fd lies beneath the root, or is it. It is asked of
// what was opened by handle and of "..".
func (e *export) contains(fd int, st *unix.Stat_t) bool {
	if st.Dev != e.st.Dev {
		return false
	}
	if e.whole || e.isRoot(st) {
		return true
	}
	at, cur := fd, *st
	defer func() {
		if at != fd {
			unix.Close(at)
		}
	}()
	for range maxDepth {
		up, err := unix.Openat(at, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return false
		}
		if at != fd {
			unix.Close(at)
		}
		at = up
		var st unix.Stat_t
		if unix.Fstat(up, &st) != nil || st.Dev != e.st.Dev || st.Ino == cur.Ino {
			return false // above the file system, or at its top
		}
		if e.isRoot(&st) {
			return true
		}
		cur = st
	}
	return false
}

// strayed tells whether fd, not a directory, is known to lie outside. Nothing leads from a
// file to its directory but the kernel's own cache: when that does not know, or the file has
// several names, the handle's MAC stands for its having been beneath when the handle
// was made (as with no_subtree_check of Linux).
func (e *export) strayed(fd int, st *unix.Stat_t) bool {
	if e.whole || st.Nlink != 1 {
		return false
	}
	path, err := os.Readlink(procFD(fd))
	if err != nil || e.named(path) {
		return false
	}
	var there unix.Stat_t
	return unix.Lstat(path, &there) == nil && there.Ino == st.Ino && there.Dev == st.Dev
}

// inside tells whether what was opened by handle lies beneath the root.
func (e *export) inside(fd int, st *unix.Stat_t) bool {
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return e.contains(fd, st)
	}
	return !e.strayed(fd, st)
}

// stillInside is inside for what was there when it was opened: the kernel's name for it begins with the root's, else
// inside decides.
func (e *export) stillInside(fd int, st *unix.Stat_t) bool {
	if e.whole || e.isRoot(st) {
		return true
	}
	var name [24]byte
	var path [unix.PathMax]byte
	n, err := unix.Readlinkat(e.links, string(strconv.AppendInt(name[:0], int64(fd), 10)), path[:])
	return err == nil && e.named(string(path[:n])) || e.inside(fd, st)
}

// moved is how long the root's own place may be taken for what it was. What is moved below it does not depend on that.
const moved = time.Second

// named tells whether the path of an object lies below the root's.
func (e *export) named(path string) bool {
	if b := e.base.Load(); b != nil && time.Since(b.at) < moved && strings.HasPrefix(path, b.path) {
		return true
	}
	root, err := os.Readlink(procFD(e.root))
	if err != nil {
		return false
	}
	if root != "/" {
		root += "/"
	}
	e.base.Store(&based{root, time.Now()})
	return strings.HasPrefix(path, root)
}

func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
