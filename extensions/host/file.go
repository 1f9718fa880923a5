package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxFile bounds an executable, so that a wrong path does not have us read a disk.
const maxFile = 1 << 30

// DigestError is an executable that is not the one that the configuration names.
type DigestError struct {
	Want, Got string // SHA-256, 64 hexadecimal digits
}

func (e *DigestError) Error() string {
	return fmt.Sprintf("its SHA-256 is %s, the configuration says %s: it has been changed or replaced", e.Got, e.Want)
}

// Digest is the SHA-256 of an executable as the configuration names it.
func Digest(path string) (string, error) {
	f, err := open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return sum(f)
}

// ValidDigest tells whether s is a SHA-256 as the configuration names it: 64 hexadecimal digits.
func ValidDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size
}

// openChecked opens an executable and compares its digest. What is executed is the open file (runPath), so
// nothing that happens to its name after this matters.
func openChecked(path, want string) (*os.File, error) {
	if !ValidDigest(want) {
		return nil, fmt.Errorf("its sha256 %q is not 64 hexadecimal digits", want)
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	got, err := sum(f)
	if err == nil && got != strings.ToLower(want) {
		err = &DigestError{Want: strings.ToLower(want), Got: got}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// runPath names the open file to execve.
func runPath(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }

// open opens a file that may be executed: regular, and nobody's to change but root's and ours.
func open(path string) (f *os.File, err error) {
	if !filepath.IsAbs(path) {
		return nil, errors.New("its path is not absolute")
	}
	f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a fifo would wait for its writer
	if err != nil {
		return nil, reason(err)
	}
	defer func() {
		if err != nil {
			f.Close()
			f = nil
		}
	}()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return f, err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return f, errors.New("it is not a regular file")
	case st.Mode&0o111 == 0:
		return f, errors.New("it is not executable: chmod +x it")
	case st.Size > maxFile:
		return f, fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	if why := writable(&st); why != "" {
		return f, fmt.Errorf("it %s", why)
	}
	// The folder of the file itself: the path may lead there by links.
	real, err := os.Readlink(runPath(f))
	if err != nil {
		return f, err
	}
	dir := filepath.Dir(real)
	if err := unix.Stat(dir, &st); err != nil {
		return f, fmt.Errorf("its folder %s: %w", dir, err)
	}
	if st.Mode&unix.S_ISVTX == 0 || !trusted(st.Uid) { // in a sticky folder others cannot replace it
		if why := writable(&st); why != "" {
			return f, fmt.Errorf("its folder %s %s", dir, why)
		}
	}
	var begins [2]byte
	if n, _ := f.ReadAt(begins[:], 0); string(begins[:n]) == "#!" { // its interpreter would have to open it anew, by a name
		return f, errors.New("it is a script: a plugin is a binary")
	}
	return f, nil
}

// writable tells how others than root and the user we run as can change a file or folder. A group of the owner's
// own number is taken for the owner's own.
func writable(st *unix.Stat_t) string {
	switch {
	case !trusted(st.Uid):
		return fmt.Sprintf("belongs to user %d: chown it to root, or to the user that runs this program", st.Uid)
	case st.Mode&0o002 != 0:
		return "can be written by everybody: chmod o-w it"
	case st.Mode&0o020 != 0 && st.Gid != st.Uid:
		return fmt.Sprintf("can be written by group %d: chmod g-w it", st.Gid)
	}
	return ""
}

func trusted(uid uint32) bool { return uid == 0 || uid == uint32(os.Geteuid()) }

func sum(f *os.File) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, maxFile)); err != nil {
		return "", reason(err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// reason is an error without the path, which whoever reports it names.
func reason(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
