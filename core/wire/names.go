package wire

import (
	"fmt"
	"strconv"
	"strings"
)

// Name is the procedure's name in the XDR of its version: RDMA_MSG, RDMA2_MSG.
func (p Proc) Name(version uint32) string {
	if p > UpdProp {
		return strconv.Itoa(int(p))
	}
	if version == Version2 {
		return "RDMA2_" + p.String()
	}
	return "RDMA_" + p.String()
}

// parseProc reads a name, with or without its prefix, or a number.
func parseProc(s string) (Proc, error) {
	bare := strings.TrimPrefix(strings.TrimPrefix(s, "RDMA_"), "RDMA2_")
	for p := Msg; p <= UpdProp; p++ {
		if p.String() == bare {
			return p, nil
		}
	}
	n, err := strconv.ParseUint(s, 0, 32)
	if err != nil {
		return 0, fmt.Errorf("rdma_proc %q is not known", s)
	}
	return Proc(n), nil
}

func parseCode(s string, version uint32) (Code, error) {
	for c := ErrVers; c <= ErrSystem; c++ {
		if c.Name(version) == s {
			return c, nil
		}
	}
	n, err := strconv.ParseUint(s, 0, 32)
	if err != nil {
		return 0, fmt.Errorf("rdma_err %q is not known in version %d", s, version)
	}
	return Code(n), nil
}
