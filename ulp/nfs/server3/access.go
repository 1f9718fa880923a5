package server3

import (
	"slices"

	"github.com/rpcrdma/rpcrdma/core/rpcmsg"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// cred is whom a request is made for, after squashing: none of its ids is -1.
type cred struct {
	uid, gid uint32
	groups   []uint32 // others than gid
}

// normalize drops the groups that add nothing.
func (c *cred) normalize() {
	c.groups = slices.DeleteFunc(c.groups, func(g uint32) bool { return g == c.gid || g == noID })
}

// identify turns a credential into the user that is acted for. sys keeps the groups; its Machine is a view.
// AUTH_NONE, and the id -1, which is nobody's, are the anonymous user. A server that
// cannot act for others has one user for all.
func (s *Server) identify(a rpcmsg.Auth, sys *rpcmsg.Sys) (cred, error) {
	anon := cred{uid: s.anon.UID, gid: s.anon.GID}
	if !s.rights.acts {
		anon = s.rights.own
	}
	switch a.Flavor {
	case rpcmsg.AuthNone:
		return anon, nil
	case rpcmsg.AuthSys:
	default:
		return cred{}, &rpcmsg.AuthError{Stat: rpcmsg.AuthTooWeak}
	}
	if sys.ParseView(a.Body) != nil {
		return cred{}, &rpcmsg.AuthError{Stat: rpcmsg.AuthBadCred}
	}
	if s.squash == SquashAll || !s.rights.acts {
		return anon, nil
	}
	c := cred{uid: sys.UID, gid: sys.GID, groups: sys.GIDs}
	root := s.squash == SquashRoot
	if c.uid == noID || root && c.uid == 0 {
		c.uid = s.anon.UID
	}
	if c.gid == noID || root && c.gid == 0 {
		c.gid = s.anon.GID
	}
	if root {
		for i, g := range c.groups {
			if g == 0 {
				c.groups[i] = s.anon.GID
			}
		}
	}
	c.normalize()
	return c, nil
}

// owns reports whether the object is the caller's own. Its owner may read and write a file's data whatever the mode, because
// a client checks when it opens and the mode may have changed since (RFC 1813 §4.4).
func (c *call) owns(st *stat) bool { return c.uid == st.Uid }

// mayReadData allows whoever may execute a file to read it, too: a page of a program comes by READ (RFC 1813 §4.4).
func (c *call) mayReadData(n *node, st *stat) nfs3.Status {
	if c.owns(st) {
		return nfs3.OK
	}
	status := c.may(n, st, mayRead)
	if status == nfs3.ErrAcces {
		status = c.may(n, st, mayExec)
	}
	return status
}

func (c *call) mayWriteData(n *node, st *stat) nfs3.Status {
	if c.owns(st) {
		return nfs3.OK
	}
	return c.may(n, st, mayWrite)
}

// access answers ACCESS (RFC 1813 §3.3.4) for what the kernel allows: the owner's privilege does not show here (§4.4).
func (c *call) access(n *node, st *stat, want uint32) (got uint32, status nfs3.Status) {
	grant := func(bits, right uint32) {
		if status != nfs3.OK || want&bits == 0 {
			return
		}
		switch s := c.may(n, st, right); s {
		case nfs3.OK:
			got |= want & bits
		case nfs3.ErrServerFault, nfs3.ErrJukebox, nfs3.ErrIO:
			status = s
		}
	}
	grant(nfs3.AccessRead, mayRead)
	change := uint32(nfs3.AccessModify | nfs3.AccessExtend)
	if n.isDir() {
		change |= nfs3.AccessDelete
	}
	if want&change != 0 && (c.opt.ReadOnly || fixed(n)) {
		change = 0
	}
	if n.isDir() {
		grant(nfs3.AccessLookup, mayExec)
		grant(change, mayWrite|mayExec) // one question: in an ACL, one entry must have both
	} else {
		grant(change, mayWrite)
		grant(nfs3.AccessExecute, mayExec)
	}
	if status != nfs3.OK {
		return 0, status
	}
	return got, nfs3.OK
}

// ids drops the id -1 from attributes to set, which leaves an owner as it is.
func ids(a *nfs3.Sattr) {
	if a.UID.V == noID {
		a.UID = nfs3.SetU32{}
	}
	if a.GID.V == noID {
		a.GID = nfs3.SetU32{}
	}
}

// touches reports whether of the times just one is set, to that of the server. Whoever may write may do that, but
// utimensat(2) lets only the owner.
func touches(a *nfs3.Sattr) bool {
	return a.Atime.How == nfs3.ServerTime && a.Mtime.How == nfs3.DontChange ||
		a.Mtime.How == nfs3.ServerTime && a.Atime.How == nfs3.DontChange
}
