package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// What a plugin may say.
const (
	logRate  = 20  // lines a second that are logged
	logBurst = 100 // lines that may come at once
	maxLine  = 1024
	keptLast = 4 // lines kept for errors

	readRate  = 1 << 20 // bytes a second that are read at all
	readBurst = 4 << 20
)

// lines takes what a plugin writes to standard error, and logs it line by line: hclog's and slog's JSON with their level, all
// else as Info. Lines beyond the rate are counted, and their number logged. Who writes faster than readRate waits: it is
// the plugin that does.
type lines struct {
	log *slog.Logger
	now func() time.Time
	// read paces Write; lines are paced by rate.
	read, rate *bucket

	mu      sync.Mutex
	part    []byte         // of a line
	cut     bool           // the line is longer than maxLine: what is left of it is dropped
	dropped uint64         // since the last line logged
	all     *atomic.Uint64 // dropped in all
	last    []string
	panics  bool // the rest is a trace
}

func newLines(log *slog.Logger, dropped *atomic.Uint64) *lines {
	return &lines{log: log, all: dropped, now: time.Now, read: newBucket(readRate, readBurst), rate: newBucket(logRate, logBurst)}
}

func (l *lines) Write(b []byte) (int, error) {
	time.Sleep(l.read.take(len(b), l.now()))
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		if room := maxLine - len(l.part); !l.cut && len(line) > room {
			line, l.cut = line[:room], true
			l.part = append(l.part, line...)
		} else if !l.cut {
			l.part = append(l.part, line...)
		}
		if whole {
			l.line()
		}
		b = rest
	}
	return n, nil
}

// flush logs a last line without an end.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.part) > 0 {
		l.line()
	}
	l.report()
}

func (l *lines) line() {
	text := printable(strings.TrimRight(string(l.part), "\r"))
	if l.cut {
		text += "…"
	}
	l.part, l.cut = l.part[:0], false
	if text == "" {
		return
	}
	if !l.panics { // of a panic the first line says most
		if l.last = append(l.last, text); len(l.last) > keptLast {
			l.last = l.last[1:]
		}
		l.panics = panics(text)
	}
	if !l.rate.spend(l.now()) {
		l.dropped++
		l.all.Add(1)
		return
	}
	l.report()
	level, message := parse(text)
	if l.panics {
		level = slog.LevelError
	}
	l.log.Log(context.Background(), level, message)
}

func (l *lines) report() {
	if l.dropped > 0 {
		l.log.Warn("lines of the plugin's were dropped: it writes too many", "lines", l.dropped)
		l.dropped = 0
	}
}

// quoted is the last lines for an error, on one line; "" where there are none.
func (l *lines) quoted() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.last) == 0 {
		return ""
	}
	const most = 160
	var q []string
	for _, s := range l.last {
		if _, m := parse(s); m != "" {
			s = m
		}
		if len(s) > most {
			s = strings.ToValidUTF8(s[:most], "") + "…"
		}
		q = append(q, fmt.Sprintf("%q", s))
	}
	return strings.Join(q, ", ")
}

func panics(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
}

// parse finds level and message of a line of hclog's or slog's JSON, what else it has behind the message; anything else is a
// message of level Info.
func parse(text string) (slog.Level, string) {
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return slog.LevelInfo, text
	}
	level, message, rest := slog.LevelInfo, "", ""
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return slog.LevelInfo, text
		}
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return slog.LevelInfo, text
		}
		value := string(raw)
		var plain string
		if json.Unmarshal(raw, &plain) == nil {
			if value = plain; plain == "" || strings.ContainsAny(plain, " =\"") {
				value = strconv.Quote(plain)
			}
		}
		switch key {
		case "@level", "level":
			level = levelOf(value)
		case "@message", "msg":
			message = plain
		case "@timestamp", "time", "@module", "@caller":
		default:
			rest += fmt.Sprintf(" %v=%s", key, value)
		}
	}
	if message == "" {
		return slog.LevelInfo, text
	}
	return level, printable(message + rest)
}

func levelOf(name string) slog.Level {
	switch strings.ToLower(name) {
	case "trace", "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}

// printable keeps a plugin's bytes from driving a terminal.
func printable(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, control) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if control(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}

func control(r rune) bool { return r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 }
