package nfs

import (
	"github.com/rpcrdma/rpcrdma/core/binding"
	"github.com/rpcrdma/rpcrdma/core/rpc"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/mount3"
	"github.com/rpcrdma/rpcrdma/ulp/nfs/nfs3"
)

// NFS3 are the procedures of NFSv3 by number. RFC 8267 §2 makes four items eligible for direct
// placement: the data of WRITE, the target of SYMLINK, the data of READ and the target of
// READLINK. Where it derives the size of a reply from the arguments, these say it
// (binding.ReplySizer); MaxReply here is for whoever calls with others.
//
// Those that read, and COMMIT, may be executed again when they are sent again; so may WRITE, but a repetition
// that came late would undo what was written since.
var NFS3 = [nfs3.NumProcs]*rpc.Proc{
	nfs3.ProcNull:        again(nfs3.ProcNull, "NFS3 NULL", binding.None),
	nfs3.ProcGetAttr:     again(nfs3.ProcGetAttr, "NFS3 GETATTR", reply(nfs3.GetAttrReply)),
	nfs3.ProcSetAttr:     proc3(nfs3.ProcSetAttr, "NFS3 SETATTR", reply(nfs3.SetAttrReply)),
	nfs3.ProcLookup:      again(nfs3.ProcLookup, "NFS3 LOOKUP", reply(nfs3.LookupReply)),
	nfs3.ProcAccess:      again(nfs3.ProcAccess, "NFS3 ACCESS", reply(nfs3.AccessReply)),
	nfs3.ProcReadLink:    again(nfs3.ProcReadLink, "NFS3 READLINK", binding.Binding{Results: true, MaxReply: nfs3.ReadLinkHead}),
	nfs3.ProcRead:        again(nfs3.ProcRead, "NFS3 READ", binding.Binding{Results: true, MaxReply: nfs3.ReadHead}),
	nfs3.ProcWrite:       proc3(nfs3.ProcWrite, "NFS3 WRITE", binding.Binding{Args: true, MaxReply: nfs3.WriteReply}),
	nfs3.ProcCreate:      proc3(nfs3.ProcCreate, "NFS3 CREATE", reply(nfs3.CreateReply)),
	nfs3.ProcMkdir:       proc3(nfs3.ProcMkdir, "NFS3 MKDIR", reply(nfs3.CreateReply)),
	nfs3.ProcSymlink:     proc3(nfs3.ProcSymlink, "NFS3 SYMLINK", binding.Binding{Args: true, MaxReply: nfs3.CreateReply}),
	nfs3.ProcMknod:       proc3(nfs3.ProcMknod, "NFS3 MKNOD", reply(nfs3.CreateReply)),
	nfs3.ProcRemove:      proc3(nfs3.ProcRemove, "NFS3 REMOVE", reply(nfs3.RemoveReply)),
	nfs3.ProcRmdir:       proc3(nfs3.ProcRmdir, "NFS3 RMDIR", reply(nfs3.RemoveReply)),
	nfs3.ProcRename:      proc3(nfs3.ProcRename, "NFS3 RENAME", reply(nfs3.RenameReply)),
	nfs3.ProcLink:        proc3(nfs3.ProcLink, "NFS3 LINK", reply(nfs3.LinkReply)),
	nfs3.ProcReadDir:     again(nfs3.ProcReadDir, "NFS3 READDIR", reply(nfs3.MaxDirReply)),
	nfs3.ProcReadDirPlus: again(nfs3.ProcReadDirPlus, "NFS3 READDIRPLUS", reply(nfs3.MaxDirReply)),
	nfs3.ProcFSStat:      again(nfs3.ProcFSStat, "NFS3 FSSTAT", reply(nfs3.FSStatReply)),
	nfs3.ProcFSInfo:      again(nfs3.ProcFSInfo, "NFS3 FSINFO", reply(nfs3.FSInfoReply)),
	nfs3.ProcPathConf:    again(nfs3.ProcPathConf, "NFS3 PATHCONF", reply(nfs3.PathConfReply)),
	nfs3.ProcCommit:      again(nfs3.ProcCommit, "NFS3 COMMIT", reply(nfs3.CommitReply)),
}

// Mount3 are the procedures of MOUNTv3 by number. Nothing of it may be moved
// (RFC 8267 §3: the auxiliary protocols have no eligible items); DUMP and EXPORT have no bound
// of their own and are asked for at most mount3.ListReply bytes.
var Mount3 = [mount3.NumProcs]*rpc.Proc{
	mount3.ProcNull:    procM(mount3.ProcNull, "MOUNT3 NULL", binding.None),
	mount3.ProcMnt:     procM(mount3.ProcMnt, "MOUNT3 MNT", reply(mount3.MntReply)),
	mount3.ProcDump:    procM(mount3.ProcDump, "MOUNT3 DUMP", reply(mount3.ListReply)),
	mount3.ProcUmnt:    procM(mount3.ProcUmnt, "MOUNT3 UMNT", binding.None),
	mount3.ProcUmntAll: procM(mount3.ProcUmntAll, "MOUNT3 UMNTALL", binding.None),
	mount3.ProcExport:  procM(mount3.ProcExport, "MOUNT3 EXPORT", reply(mount3.ListReply)),
}

func reply(n int) binding.Binding { return binding.Binding{MaxReply: n} }

func proc3(n uint32, name string, b binding.Binding) *rpc.Proc {
	return &rpc.Proc{Program: nfs3.Program, Version: nfs3.Version, Number: n, Name: name, Binding: b}
}

// again is proc3 of one that is idempotent.
func again(n uint32, name string, b binding.Binding) *rpc.Proc {
	p := proc3(n, name, b)
	p.Idempotent = true
	return p
}

// procM: all of MOUNT is idempotent; what it keeps is a list of who has mounted, each once.
func procM(n uint32, name string, b binding.Binding) *rpc.Proc {
	return &rpc.Proc{Program: mount3.Program, Version: mount3.Version, Number: n, Name: name, Binding: b, Idempotent: true}
}
