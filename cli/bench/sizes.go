package bench

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseSizes reads sizes: one, a list with commas, or ranges that double, e.g. 64,4k,64k..16m.
// No size is above MaxPayload; k and m are 1024 and 1024².
func ParseSizes(s string) (sizes []int, err error) {
	for field := range strings.SplitSeq(s, ",") {
		from, to, ranged := strings.Cut(strings.Replace(strings.TrimSpace(field), "…", "..", 1), "..")
		a, err := parseSize(from)
		if err != nil {
			return nil, err
		}
		b := a
		if ranged {
			if b, err = parseSize(to); err != nil {
				return nil, err
			}
			if a == 0 || b < a {
				return nil, fmt.Errorf("%s: a range wants 0 < from <= to", field)
			}
		}
		for n := a; n <= b; n *= 2 {
			if sizes = append(sizes, n); n == 0 {
				break
			}
		}
	}
	return sizes, nil
}

func parseSize(s string) (int, error) {
	digits, unit := s, 1
	if d, ok := strings.CutSuffix(strings.ToLower(s), "k"); ok {
		digits, unit = d, 1<<10
	} else if d, ok := strings.CutSuffix(strings.ToLower(s), "m"); ok {
		digits, unit = d, 1<<20
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n > uint64(MaxPayload/unit) {
		return 0, fmt.Errorf("%q: want 0 to 16m, such as 64, 4k, 64,1m or 64..16m", s)
	}
	return int(n) * unit, nil
}

// FormatSize is n as ParseSizes reads it, as short as it goes.
func FormatSize(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return strconv.Itoa(n>>20) + "m"
	case n >= 1<<10 && n%(1<<10) == 0:
		return strconv.Itoa(n>>10) + "k"
	}
	return strconv.Itoa(n)
}
