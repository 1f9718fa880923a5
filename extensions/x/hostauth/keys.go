package hostauth

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Limits of a key file.
const (
	minKey      = 32 // octets
	maxKey      = 64
	maxKeys     = 1024
	maxFileSize = 256 << 10
)

// KeyFileError is a key file that cannot be used. It has no part of a key.
type KeyFileError struct {
	Path string
	Line int // 0: the file
	Why  string
}

func (e *KeyFileError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("hostauth: %s:%d: %s", e.Path, e.Line, e.Why)
	}
	return fmt.Sprintf("hostauth: key_file %s: %s", e.Path, e.Why)
}

// readKeys reads a key file, by id.
func readKeys(path string) (map[string][]byte, error) {
	bad := func(format string, args ...any) error {
		return &KeyFileError{Path: path, Why: fmt.Sprintf(format, args...)}
	}
	if !filepath.IsAbs(path) {
		return nil, bad("its path begins with /")
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // of a pipe it would wait for a writer
	if err != nil {
		return nil, bad("%v", err.(*os.PathError).Err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, bad("%v", err)
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	switch {
	case !info.Mode().IsRegular():
		return nil, bad("it is no regular file")
	case info.Mode().Perm()&0o077 != 0:
		return nil, bad("its mode is %#o, and others than its owner may use it: chmod 600", info.Mode().Perm())
	case owner != 0 && int(owner) != os.Geteuid():
		return nil, bad("it belongs to user %d, neither root nor who runs this program (%d)", owner, os.Geteuid())
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	switch {
	case err != nil:
		return nil, bad("%v", err)
	case len(b) > maxFileSize:
		return nil, bad("it has more than %d octets", maxFileSize)
	}
	keys, line, why := parseKeys(b)
	if why != "" {
		return nil, &KeyFileError{Path: path, Line: line, Why: why}
	}
	return keys, nil
}

// parseKeys reads what a key file holds; why tells what is wrong with line, or with all of it.
func parseKeys(b []byte) (keys map[string][]byte, line int, why string) {
	keys = make(map[string][]byte)
	for text := range bytes.Lines(b) {
		line++
		text, _, _ := strings.Cut(string(text), "#")
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 2 {
			return nil, line, "a line has an id and a key in hexadecimal, apart by blanks"
		}
		key, err := hex.DecodeString(fields[1])
		switch id := fields[0]; {
		case !validID(id):
			return nil, line, fmt.Sprintf("an id is 1 to %d letters, digits, '.', '_' or '-'", maxID)
		case err != nil || len(key) < minKey || len(key) > maxKey:
			return nil, line, fmt.Sprintf("a key is %d to %d octets, that is %d to %d hexadecimal digits: openssl rand -hex 32", minKey, maxKey, 2*minKey, 2*maxKey)
		case keys[id] != nil:
			return nil, line, fmt.Sprintf("the id %q is there twice", id)
		case len(keys) == maxKeys:
			return nil, line, fmt.Sprintf("there are more than %d keys", maxKeys)
		default:
			keys[id] = key
		}
	}
	if len(keys) == 0 {
		return nil, 0, "it has no key"
	}
	return keys, 0, ""
}

func validID(s string) bool {
	if s == "" || len(s) > maxID {
		return false
	}
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
