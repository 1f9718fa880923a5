package host

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// runDir is the folder of a process's socket: our user's alone, and locked while we live, so that what a program that was
// killed has left can be told from what is in use.
type runDir struct {
	path string
	lock *os.File
}

const (
	runDirs = "rpcrdma-ext-"
	// staleAfter is how old a folder is before it is looked at: by then its maker has locked it.
	staleAfter = time.Minute
)

// newRunDir makes one in dir, or where there is none in the usual places. It removes those that were left there.
func newRunDir(dir string) (*runDir, error) {
	dir = runParent(dir)
	sweep(dir)
	path, err := os.MkdirTemp(dir, runDirs)
	if err != nil {
		return nil, err
	}
	d := &runDir{path: path}
	if d.lock, err = os.Open(path); err == nil {
		err = unix.Flock(int(d.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		d.remove()
		return nil, err
	}
	return d, nil
}

func (d *runDir) remove() {
	os.RemoveAll(d.path)
	d.lock.Close()
}

// sweep removes what programs of our user's that were killed have left.
func sweep(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, runDirs+"*"))
	for _, path := range left {
		var st unix.Stat_t
		if unix.Lstat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != uint32(os.Geteuid()) ||
			time.Since(time.Unix(st.Mtim.Unix())) < staleAfter {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			os.RemoveAll(path)
		}
		f.Close()
	}
}

// runParent is where folders of sockets are made. The address of a socket is at most 107 bytes.
func runParent(dir string) string {
	const most = 107 - len("/"+runDirs+"0123456789/plugin-dir0123456789/plugin0123456789")
	for _, d := range []string{dir, os.Getenv("XDG_RUNTIME_DIR"), os.TempDir()} {
		if d == "" || len(d) > most {
			continue
		}
		if st, err := os.Stat(d); err == nil && st.IsDir() {
			return d
		}
	}
	return "/tmp"
}
