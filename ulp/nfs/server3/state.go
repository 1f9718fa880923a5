package server3

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// keyFile is in a state directory; it holds keySize random bytes and nothing else.
const (
	keyFile = "nfs-handle-key"
	keySize = 32
)

// A KeyError says what is wrong with the key of handles or with its directory. Nothing was changed: another key would make
// every handle stale that clients hold.
type KeyError struct {
	Path string
	Err  error
}

func (e *KeyError) Error() string { return fmt.Sprintf("key of file handles: %s: %v", e.Path, e.Err) }
func (e *KeyError) Unwrap() error { return e.Err }

// HandleKey returns the key of handles (Options.Secret) that the state directory dir holds. The first server that asks for it makes
// the directory and the key. What is there and should not be used, because others may read it or it is no key, is a *KeyError;
// other errors mean that there is no place for a key.
func HandleKey(dir string) ([]byte, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	d, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(d)
	if err := private(d, 0o700); err != nil {
		return nil, &KeyError{dir, err}
	}
	path := filepath.Join(dir, keyFile)
	key, err := readKey(d)
	if err == unix.ENOENT {
		if err := makeKey(d); err != nil {
			return nil, &fs.PathError{Op: "create", Path: path, Err: err}
		}
		key, err = readKey(d) // another server may have been first
	}
	if err != nil {
		return nil, &KeyError{path, err}
	}
	return key, nil
}

// private checks that what fd names belongs to this user, and that nobody else has rights to it.
func private(fd int, mode uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("belongs to user %d, this server runs as user %d; name another directory with --state", st.Uid, os.Geteuid())
	}
	if st.Mode&0o077 != 0 {
		return fmt.Errorf("mode %#o lets others in; if nobody else has had it, chmod %#o", st.Mode&0o777, mode)
	}
	return nil
}

func readKey(d int) ([]byte, error) {
	fd, err := unix.Openat(d, keyFile, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), keyFile)
	defer f.Close()
	if err := private(fd, 0o600); err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() != keySize {
		return nil, fmt.Errorf("not a file of %d bytes; remove it, and a new key is made, with which all handles that clients hold are stale", keySize)
	}
	key := make([]byte, keySize)
	if n, err := f.ReadAt(key, 0); n != keySize {
		return nil, err
	}
	return key, nil
}

// makeKey makes the file under another name, and gives it its own when it is whole and on the disk. One that is there stays.
func makeKey(d int) error {
	var key [keySize]byte
	rand.Read(key[:])
	tmp := fmt.Sprintf(".%s.%s", keyFile, rand.Text())
	fd, err := unix.Openat(d, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Unlinkat(d, tmp, 0)
	f := os.NewFile(uintptr(fd), tmp)
	_, err = f.Write(key[:])
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := unix.Linkat(d, tmp, d, keyFile, 0); err != nil && err != unix.EEXIST {
		return err
	}
	return unix.Fsync(d)
}

// StateDir is where a server of this user keeps its state unless Options name a directory: /var/lib/rpcrdma for root,
// $XDG_STATE_HOME/rpcrdma or ~/.local/state/rpcrdma for others.
func StateDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/rpcrdma", nil
	}
	if d := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "rpcrdma"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".local", "state", "rpcrdma"), nil
}
