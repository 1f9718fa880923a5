package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/rpcrdma/rpcrdma/extensions"
)

// Where a file is looked for.
const (
	Environment = "RPCRDMA_CONFIG"
	SystemFile  = "/etc/rpcrdma/rpcrdma.hcl"
)

// Find says which file counts: name if it is not empty, else what $RPCRDMA_CONFIG names, else SystemFile if it is there,
// else "": none.
func Find(name string) string {
	if name != "" {
		return name
	}
	if name = os.Getenv(Environment); name != "" {
		return name
	}
	if _, err := os.Stat(SystemFile); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return SystemFile // one that we may not read is an error, not defaults
}

// Load reads the file that Find finds. What is wrong within it is an *Error.
func Load(name string) (*Config, error) {
	file := Find(name)
	if file == "" {
		return Default(), nil
	}
	src, others, err := read(file)
	if err != nil {
		if name == "" && file != SystemFile {
			return nil, fmt.Errorf("$%s: %w", Environment, err)
		}
		return nil, err
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	c, err := parse(file, dir, src)
	if err == nil && others != "" && slices.ContainsFunc(c.Extensions, func(s extensions.Spec) bool { return s.Path != "" }) {
		return nil, fmt.Errorf("configuration: %s names programs to run, and %s", file, others)
	}
	return c, err
}

// read reads a file. others says how others than root and we can change it, if they can.
func read(name string) (src []byte, others string, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, "", fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil {
		src, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	}
	if err != nil {
		return nil, "", fmt.Errorf("configuration: %w", err)
	}
	if len(src) > maxFile {
		return nil, "", fmt.Errorf("configuration: %s: more than %d KiB", name, maxFile>>10)
	}
	return src, writable(st), nil
}

// writable tells how others than root and the user we run as can change a file. A group of the owner's own number is taken
// for the owner's own. It is the rule that plugins are held to, too.
func writable(st fs.FileInfo) string {
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return ""
	case sys.Uid != 0 && sys.Uid != uint32(os.Geteuid()):
		return fmt.Sprintf("belongs to user %d: chown it to root, or to the user that runs this program", sys.Uid)
	case st.Mode()&0o002 != 0 && st.Mode().IsRegular():
		return "can be written by everybody: chmod o-w it"
	case st.Mode()&0o020 != 0 && sys.Gid != sys.Uid && st.Mode().IsRegular():
		return fmt.Sprintf("can be written by group %d: chmod g-w it", sys.Gid)
	}
	return ""
}

// parse turns a file's text into a Config; relative paths in it begin at dir.
func parse(name, dir string, src []byte) (*Config, error) {
	r := &reader{file: name, dir: dir, config: Default()}
	r.config.File = name
	if r.plain(src); len(r.problems) == 0 {
		file, diags := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
		r.diagnose(diags)
		if len(r.problems) == 0 {
			r.root(file.Body.(*hclsyntax.Body))
		}
	}
	if len(r.problems) > 0 {
		return nil, &Error{sortProblems(r.problems)}
	}
	return r.config, nil
}

// reader collects what a file says, and what is wrong with it.
type reader struct {
	file, dir string
	config    *Config
	problems  []Problem
}

func (r *reader) bad(at hcl.Range, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.file, at.Start.Line, at.Start.Column, fmt.Sprintf(format, args...)})
}

// diagnose takes what HCL itself has found.
func (r *reader) diagnose(diags hcl.Diagnostics) {
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		at := hcl.Range{Start: hcl.InitialPos}
		if d.Subject != nil {
			at = *d.Subject
		}
		r.bad(at, "%s", strings.Join(strings.Fields(d.Summary+": "+d.Detail), " "))
	}
}

// plain refuses, before the parser sees them, what of HCL this file does not take: expressions, whose values could be of any
// size, and nesting, for which the parser takes 7 KiB of stack a level.
func (r *reader) plain(src []byte) {
	tokens, _ := hclsyntax.LexConfig(src, r.file, hcl.InitialPos) // what it finds the parser says, too
	depth := 0
	for i, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack:
			if depth++; depth > maxDepth {
				r.bad(t.Range, "more than %d brackets within each other", maxDepth)
				return
			}
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack:
			depth--
		case hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			r.bad(t.Range, "this file takes no expressions: to have a %s in a text write %s%s", t.Bytes, t.Bytes[:1], t.Bytes)
			return
		case hclsyntax.TokenMinus:
			if tokens[i+1].Type == hclsyntax.TokenNumberLit && i > 0 && tokens[i-1].Type != hclsyntax.TokenNumberLit { // the last one is TokenEOF
				continue
			}
			fallthrough
		case hclsyntax.TokenOParen, hclsyntax.TokenDot, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPlus, hclsyntax.TokenPercent,
			hclsyntax.TokenBang, hclsyntax.TokenQuestion, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual,
			hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenEllipsis:
			r.bad(t.Range, "want a plain value: this file takes no expressions")
			return
		}
	}
}

// later are blocks that are known, and not to this version.
var later = map[string]string{
	"fabric":  "the provider is taken from the scheme of each address",
	"tracing": "traces are not exported",
}

func (r *reader) root(body *hclsyntax.Body) {
	for _, a := range body.Attributes {
		r.bad(a.NameRange, "%q stands outside of a block: want protocol { … } or extension \"NAME\" { … }", a.Name)
	}
	single := make(map[string]*hclsyntax.Block)
	named := make(map[string]*hclsyntax.Block)
	count := 0
	for _, b := range body.Blocks {
		instead, isLater := later[b.Type]
		switch {
		case b.Type == "protocol", b.Type == "metrics":
			if first := single[b.Type]; first != nil {
				r.bad(b.TypeRange, "a second block %s; the first is in line %d", b.Type, first.TypeRange.Start.Line)
				continue
			}
			single[b.Type] = b
			if len(b.Labels) > 0 {
				r.bad(b.LabelRanges[0], "%s has no name: want %[1]s { … }", b.Type)
			}
			if b.Type == "metrics" {
				r.metrics(b)
			} else {
				r.protocol(b)
			}
		case b.Type == "extension":
			if len(b.Labels) != 1 {
				r.bad(b.TypeRange, "want one name: extension \"NAME\" { … }")
				continue
			}
			if first := named[b.Labels[0]]; first != nil {
				r.bad(b.LabelRanges[0], "a second extension %q; the first is in line %d", b.Labels[0], first.TypeRange.Start.Line)
				continue
			}
			named[b.Labels[0]] = b
			if count++; count == maxExtensions+1 {
				r.bad(b.TypeRange, "more than %d extensions", maxExtensions)
			}
			if count > maxExtensions {
				continue
			}
			if spec, enabled := r.extension(b); enabled {
				r.config.Extensions = append(r.config.Extensions, spec)
			}
		case isLater:
			r.bad(b.TypeRange, "%s is not supported by this version: %s; remove the block", b.Type, instead)
		default:
			r.bad(b.TypeRange, "unknown block %q: want protocol, extension or metrics", b.Type)
		}
	}
	r.config.blocks = named
	if named[PropsName] != nil {
		r.config.Extensions = r.config.Extensions[1:] // the file's own stands instead of the default
	}
}

func (r *reader) protocol(b *hclsyntax.Block) {
	a := r.attributes(b, "versions", "inline", "credits")
	p := &r.config.Protocol
	if at := a.versions("versions", &p.MinVersion, &p.MaxVersion); at != nil {
		r.bad(*at, "versions: want [2, 1] (2 is tried first), [2] or [1]")
	}
	a.number("inline", &p.Inline, MinInline, MaxInline, 1024)
	a.number("credits", &p.Credits, 1, MaxCredits, 1)
	if at := a.at("inline"); at != nil && len(r.problems) == 0 && p.Inline < MinInlineV2 && p.MaxVersion > 1 {
		r.bad(*at, "inline: version 2 needs %d at least; raise it, or say versions = [1]", MinInlineV2)
	}
}

func (r *reader) metrics(b *hclsyntax.Block) {
	a := r.attributes(b, "listen")
	a.hostPort("listen", &r.config.Metrics.Listen)
	if a.at("listen") == nil {
		r.bad(b.TypeRange, "metrics: listen is missing: the address and port to export them on, such as \"127.0.0.1:9464\"")
	}
}

func (r *reader) extension(b *hclsyntax.Block) (spec extensions.Spec, enabled bool) {
	spec = extensions.Spec{Name: b.Labels[0], Required: true}
	if !validName(spec.Name) {
		r.bad(b.LabelRanges[0], "extension %q: want 1 to %d lower-case letters, digits or '-'", spec.Name, maxName)
	}
	a := r.attributes(b, "enabled", "path", "sha256", "timeout", "required", "options")
	enabled = true
	a.boolean("enabled", &enabled)
	a.path("path", &spec.Path)
	a.digest("sha256", &spec.SHA256)
	a.duration("timeout", &spec.Timeout, minTimeout, maxTimeout)
	a.boolean("required", &spec.Required)
	a.options("options", &spec.Options)
	path, sum := a.at("path"), a.at("sha256")
	switch {
	case path != nil && spec.Path == "": // said already
	case path != nil && sum == nil:
		r.bad(*path, "a plugin wants its digest beside its path: sha256 = \"…\"; rpcrdma extensions verify %s prints it", shown(spec.Path))
	case path == nil && sum != nil:
		r.bad(*sum, "sha256 is the digest of a plugin: want its path, too; an extension that is compiled in has neither")
	case path == nil:
		if at := a.at("timeout"); at != nil {
			r.bad(*at, "timeout is for plugins: want a path, too")
		}
	}
	if spec.Path != "" && !filepath.IsAbs(spec.Path) {
		spec.Path = filepath.Join(r.dir, spec.Path)
	}
	return spec, enabled
}

// shown is a path as a shell takes it.
func shown(path string) string {
	if strings.ContainsFunc(path, func(c rune) bool { return !strings.ContainsRune("/.-_+:@%,=", c) && !isAlnum(c) }) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

func isAlnum(c rune) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func validName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(c rune) bool {
		return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
	})
}
