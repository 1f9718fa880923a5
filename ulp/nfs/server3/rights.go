package server3

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

// rights are what the process may do, and how a thread takes a caller's rights instead.
//
// Linux keeps credentials by thread; the wrappers of Go and of C libraries set those of all threads, so the
// system calls are made here. Setting the effective user id to another than 0 sets that for file access as well and
// clears the effective capabilities, CAP_SYS_RESOURCE among them; setting it back brings them back.
type rights struct {
	acts  bool                 // the process can act for its callers
	own   cred                 // its effective ids
	caps  *[2]unix.CapUserData // to set when the user id is back; nil: that alone restores them
	large bool                 // it holds CAP_SYS_RESOURCE: quotas do not bind it
	umask uint32               // what the kernel takes from modes of new objects
	raw   func(trap, a, b, c uintptr) unix.Errno
	stuck atomic.Int64 // threads given up because their credentials could not be restored
}

func rawSyscall(trap, a, b, c uintptr) unix.Errno {
	_, _, no := unix.RawSyscall(trap, a, b, c)
	return no
}

// keep is the id -1, which leaves an id as it is.
const keep = ^uintptr(0)

// noID is no user's and no group's id: to system calls it means "unchanged".
const noID = 1<<32 - 1

// What of a thread's credentials has been changed.
const (
	groupsChanged = 1 << iota
	gidChanged
	uidChanged
)

// init finds out what the process may do. anon is whom it must be able to act for, if need says so.
func (r *rights) init(anon cred, need bool) error {
	if r.raw == nil {
		r.raw = rawSyscall
	}
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	r.own = cred{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	for _, g := range groups {
		r.own.groups = append(r.own.groups, uint32(g))
	}
	r.own.normalize()
	r.umask = umask()
	if r.own.uid != 0 {
		return nil
	}
	caps, err := capabilities()
	if err != nil {
		return err
	}
	r.large = caps[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
	if caps[0].Effective != caps[0].Permitted || caps[1].Effective != caps[1].Permitted {
		r.caps = &caps
	}
	r.acts = true
	if err := r.try(anon); err != nil && need {
		return fmt.Errorf("cannot act as user %d: %w; run it with CAP_SETUID and CAP_SETGID, or as another user than root, who then acts for everybody", anon.uid, err)
	}
	return nil
}

// try takes who's rights and gives them back, on a thread of its own.
func (r *rights) try(who cred) error {
	done := make(chan error)
	go func() {
		var err error
		defer func() { done <- err }()
		var ruid, euid, suid int
		if ruid, euid, suid = unix.Getresuid(); ruid != 0 && suid != 0 {
			err = fmt.Errorf("user ids %d, %d, %d: there is no way back to 0", ruid, euid, suid)
			return
		}
		runtime.LockOSThread()
		set, e := r.become(&who)
		if e == nil && set&uidChanged != 0 {
			if caps, cerr := capabilities(); cerr != nil {
				e = cerr
			} else if caps[0].Effective|caps[1].Effective != 0 {
				e = errors.New("the thread keeps capabilities (securebits)")
			}
		}
		if rerr := r.restore(set); rerr != nil {
			err = errors.Join(e, rerr)
			return // locked: the thread ends with the goroutine
		}
		runtime.UnlockOSThread()
		err = e
	}()
	return <-done
}

func capabilities() (caps [2]unix.CapUserData, err error) {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return caps, unix.Capget(&hdr, &caps[0])
}

// umask reads the process's: to ask the kernel for it would be to set it.
func umask() uint32 {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "Umask:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(v), 8, 12)
			if err == nil {
				return uint32(n)
			}
		}
	}
	return 0o777 // unknown: every mode is checked
}

// become gives the thread who's rights. What it has changed is to be restored, with an error, too.
func (r *rights) become(who *cred) (set uint8, err error) {
	if who.uid == noID || who.gid == noID {
		return 0, unix.EINVAL
	}
	if !slices.Equal(who.groups, r.own.groups) {
		if err := r.setgroups(who.groups); err != nil {
			return set, err
		}
		set |= groupsChanged
	}
	if who.gid != r.own.gid {
		if no := r.raw(unix.SYS_SETRESGID, keep, uintptr(who.gid), keep); no != 0 {
			return set, os.NewSyscallError("setresgid", no)
		}
		set |= gidChanged
	}
	if who.uid != r.own.uid {
		if no := r.raw(unix.SYS_SETRESUID, keep, uintptr(who.uid), keep); no != 0 {
			return set, os.NewSyscallError("setresuid", no)
		}
		set |= uidChanged
	}
	return set, nil
}

// restore undoes what become has changed. The user id comes first: with it comes the right to the rest.
func (r *rights) restore(set uint8) error {
	if set&uidChanged != 0 {
		if no := r.raw(unix.SYS_SETRESUID, keep, uintptr(r.own.uid), keep); no != 0 {
			return os.NewSyscallError("setresuid", no)
		}
	}
	if set&gidChanged != 0 {
		if no := r.raw(unix.SYS_SETRESGID, keep, uintptr(r.own.gid), keep); no != 0 {
			return os.NewSyscallError("setresgid", no)
		}
	}
	if set&groupsChanged != 0 {
		if err := r.setgroups(r.own.groups); err != nil {
			return err
		}
	}
	if set&uidChanged != 0 && r.caps != nil {
		hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		if no := r.raw(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&hdr)), uintptr(unsafe.Pointer(&r.caps[0])), 0); no != 0 {
			return os.NewSyscallError("capset", no)
		}
		runtime.KeepAlive(&hdr)
	}
	return nil
}

func (r *rights) setgroups(groups []uint32) error {
	no := r.raw(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(unsafe.SliceData(groups))), 0)
	runtime.KeepAlive(groups)
	if no != 0 {
		return os.NewSyscallError("setgroups", no)
	}
	return nil
}

// enter gives the thread the caller's rights until leave. In between belong the system calls of one operation, and
// nothing that waits for another goroutine. When it fails the thread has its own rights, and the
// operation must not be done.
func (c *call) enter() nfs3.Status { return c.enterAs(&c.cred) }

func (c *call) enterAs(who *cred) nfs3.Status {
	if !c.rights.acts {
		return nfs3.OK
	}
	if c.stuck { // the thread has another's rights
		return nfs3.ErrServerFault
	}
	runtime.LockOSThread()
	set, err := c.rights.become(who)
	c.entered, c.set = true, set
	if err != nil {
		c.leave()
		return nfs3.ErrServerFault
	}
	return nfs3.OK
}

// How long leave tries to restore a thread that is short of memory.
const (
	restoreTries = 100
	restorePause = 10 * time.Millisecond
)

// leave restores the thread's own rights. A thread on which that fails stays locked to this goroutine, which must end
// without unlocking it: the runtime ends the thread then, or parks it for good if it is the main one (see recycle).
func (c *call) leave() {
	if !c.entered {
		return
	}
	c.entered = false
	err := c.rights.restore(c.set)
	for try := 0; err != nil && try < restoreTries; try++ {
		time.Sleep(restorePause)
		err = c.rights.restore(c.set)
	}
	if err != nil {
		c.stuck = true
		n := c.rights.stuck.Add(1)
		if c.opt.Log != nil {
			c.opt.Log.Error("a thread's own credentials could not be restored; it ends", "error", err, "so far", n)
		}
		return
	}
	runtime.UnlockOSThread()
}
