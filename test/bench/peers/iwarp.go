package peers

import (
	_ "github.com/rpcrdma/rpcrdma/providers/iwarp"
)

func init() {
	remote("iwarp", "iwarp://127.0.0.1:0", "", "ours, provider iwarp, CRC32c")
	remote("iwarpnocrc", "iwarp://127.0.0.1:0", "?crc=false", "ours, provider iwarp, no CRC")
}
