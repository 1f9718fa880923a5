package server3

import (
	"slices"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
	"golang.org/x/sys/unix"
)

// cred is whom a request is made for, after squashing.
type cred struct {
	uid, gid uint32
	groups   []uint32
}

// identify turns a credential into the user that is acted for. sys keeps the groups.
// AUTH_NONE, and a flavor that is not ours to check, is the anonymous user.
func (s *Server) identify(a rpcmsg.Auth, sys *rpcmsg.Sys) (cred, error) {
	anon := cred{uid: s.anon.UID, gid: s.anon.GID}
	switch a.Flavor {
	case rpcmsg.AuthNone:
		return anon, nil
	case rpcmsg.AuthSys:
	default:
		return cred{}, &rpcmsg.AuthError{Stat: rpcmsg.AuthTooWeak}
	}
	if sys.Parse(a.Body) != nil {
		return cred{}, &rpcmsg.AuthError{Stat: rpcmsg.AuthBadCred}
	}
	c := cred{uid: sys.UID, gid: sys.GID, groups: sys.GIDs}
	switch s.squash {
	case SquashAll:
		return anon, nil
	case SquashRoot:
		if c.uid == 0 {
			c.uid = s.anon.UID
		}
		if c.gid == 0 {
			c.gid = s.anon.GID
		}
		for i, g := range c.groups {
			if g == 0 {
				c.groups[i] = s.anon.GID
			}
		}
	}
	return c, nil
}

// Bits of a mode for one class of users.
const (
	mayRead  = 4
	mayWrite = 2
	mayExec  = 1
)

func (c *cred) in(gid uint32) bool { return c.gid == gid || slices.Contains(c.groups, gid) }
func (c *cred) owns(st *stat) bool { return c.uid == 0 || c.uid == st.Uid }

// may is the check of owner, group and others, in this order, the first that fits deciding.
// Root may do all but execute a file that nobody may.
func (c *cred) may(st *stat, want uint32) bool {
	if c.uid == 0 {
		return want&mayExec == 0 || st.Mode&unix.S_IFMT == unix.S_IFDIR || st.Mode&0o111 != 0
	}
	mode := st.Mode
	switch {
	case c.uid == st.Uid:
		mode >>= 6
	case c.in(st.Gid):
		mode >>= 3
	}
	return mode&want == want
}

// mayReadData allows the owner always, because a client checks when it opens and the
// file may have changed its mode since, and whoever may execute it, because a page of a
// program comes by READ (RFC 1813 §4.4).
func (c *cred) mayReadData(st *stat) bool {
	return c.uid == st.Uid || c.may(st, mayRead) || c.may(st, mayExec)
}

// mayWriteData: the owner always, as above.
func (c *cred) mayWriteData(st *stat) bool { return c.uid == st.Uid || c.may(st, mayWrite) }

// mayRemove is the check of removing victim from dir, or of renaming it away.
func (c *cred) mayRemove(dir, victim *stat) nfs3.Status {
	if !c.may(dir, mayWrite|mayExec) {
		return nfs3.ErrAcces
	}
	if dir.Mode&unix.S_ISVTX != 0 && !c.owns(victim) && !c.owns(dir) {
		return nfs3.ErrPerm
	}
	return nfs3.OK
}

// mayLink keeps users from pinning others' files by hard links, as Linux does
// with protected_hardlinks: the server's own right would not be asked.
func (c *cred) mayLink(st *stat) bool {
	if c.owns(st) {
		return true
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&unix.S_ISUID != 0 ||
		st.Mode&(unix.S_ISGID|unix.S_IXGRP) == unix.S_ISGID|unix.S_IXGRP {
		return false
	}
	return c.may(st, mayRead|mayWrite)
}

// maySet is the check of SETATTR (chown(2), chmod(2), utimensat(2), truncate(2)).
func (c *cred) maySet(st *stat, a *nfs3.Sattr) nfs3.Status {
	if a.UID.Set && c.uid != 0 && (a.UID.V != st.Uid || !c.owns(st)) {
		return nfs3.ErrPerm
	}
	if a.GID.Set && c.uid != 0 && (!c.owns(st) || a.GID.V != st.Gid && !c.in(a.GID.V)) {
		return nfs3.ErrPerm
	}
	if a.Mode.Set && !c.owns(st) {
		return nfs3.ErrPerm
	}
	for _, t := range [...]nfs3.SetTime{a.Atime, a.Mtime} {
		if t.How == nfs3.ClientTime && !c.owns(st) {
			return nfs3.ErrPerm
		}
		if t.How == nfs3.ServerTime && !c.owns(st) && !c.may(st, mayWrite) {
			return nfs3.ErrAcces
		}
	}
	if a.Size.Set && !c.mayWriteData(st) {
		return nfs3.ErrAcces
	}
	return nfs3.OK
}

// access answers ACCESS (RFC 1813 §3.3.4), for what the mode bits say: the owner's
// privilege of mayReadData does not show here (§4.4).
func (c *cred) access(st *stat, want uint32, readOnly bool) uint32 {
	var got uint32
	r, w, x := c.may(st, mayRead), c.may(st, mayWrite) && !readOnly, c.may(st, mayExec)
	if r {
		got |= nfs3.AccessRead
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if x {
			got |= nfs3.AccessLookup
		}
		if w && x {
			got |= nfs3.AccessModify | nfs3.AccessExtend | nfs3.AccessDelete
		}
		return got & want
	}
	if w {
		got |= nfs3.AccessModify | nfs3.AccessExtend
	}
	if x {
		got |= nfs3.AccessExecute
	}
	return got & want
}
