// Command work makes file system calls in a guest, on a mounted directory, and checks what it
// gets. It is static and needs nothing of the guest but a kernel. What it prints is for
// people; its status says whether all of it held.
//
//	main.go     which work
//	files.go    contents: sizes, processes side by side, long writes
//	names.go    directories, links, renames, attributes, errors
//	special.go  what programs rarely do, and NFS finds hard
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

var works = map[string]func(args []string){
	"sizes":    sizes,    // DIR buffered|direct: files of many sizes, written, dropped from the cache, read
	"parallel": parallel, // DIR N: N processes at once, each with files of its own
	"one":      one,      // DIR ID: what each of them does
	"stream":   stream,   // FILE BYTES: one long write, then one long read
	"unstable": unstable, // FILE BYTES: one long run of unstable writes, then COMMIT
	"basic":    basic,    // DIR: as in connectathon's basic tests
	"special":  special,  // DIR: as in connectathon's special tests
	"dir":      bigDir,   // DIR N: a directory of N entries that changes while it is read
	"errors":   errnos,   // DIR: which mistake gives which error
	"cache":    cached,   // DIR: what is read again need not travel again
	"as":       as,       // UID:GID[,GROUP...] COMMAND...: run as somebody else
}

func main() {
	if len(os.Args) < 2 || works[os.Args[1]] == nil {
		fail("which work?")
	}
	syscall.Umask(0)
	works[os.Args[1]](os.Args[2:])
}

func fail(format string, args ...any) {
	fmt.Printf("work: "+format+"\n", args...)
	os.Exit(1)
}

// must ends the work at an error.
func must(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func get[T any](v T, err error) T {
	must(err)
	return v
}

func number(s string) int { return get(strconv.Atoi(s)) }

func expect(ok bool, format string, args ...any) {
	if !ok {
		fail(format, args...)
	}
}

func dropCaches() {
	syscall.Sync()
	must(os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0))
}

func as(args []string) {
	ids := strings.Split(args[0], ",")
	uid, gid, _ := strings.Cut(ids[0], ":")
	cred := &syscall.Credential{Uid: uint32(number(uid)), Gid: uint32(number(gid))}
	for _, g := range ids[1:] {
		cred.Groups = append(cred.Groups, uint32(number(g)))
	}
	c := exec.Command(args[1], args[2:]...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	if err := c.Run(); err != nil {
		fmt.Println("work:", err)
		os.Exit(1)
	}
}
