package kit

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"text/template"
)

// Module is rpcrdma's.
const Module = "github.com/rpcrdma/rpcrdma"

//go:embed template
var files embed.FS

// name is what ext.Declaration.Name allows; for people it begins with a letter.
var name = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// Write writes an extension of that name into dir, which it makes, or finds empty.
//
// source is the root of the source tree that the running program was built from, and the module's go.mod replaces rpcrdma by it
// then, so that it builds at once, without a network; "": the program is a released version, whose module is required. What
// was not released has to have a source.
func Write(dir, extension, source string) error {
	if !name.MatchString(extension) {
		return fmt.Errorf("an extension cannot be called %q: 1 to 32 lower-case letters, digits and '-', a letter first", extension)
	}
	v := values{Name: extension, Executable: "rpcrdma-ext-" + extension, ID: id(extension), Module: Module, Go: "1.26.0"}
	if err := v.require(source); err != nil {
		return err
	}
	if old, err := os.ReadDir(dir); err == nil && len(old) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if v.sums != nil {
		if err := os.WriteFile(filepath.Join(dir, "go.sum"), v.sums, 0o644); err != nil {
			return err
		}
	}
	all, err := template.ParseFS(files, "template/*.tmpl")
	if err != nil {
		return err
	}
	for _, t := range all.Templates() {
		var b bytes.Buffer
		if err := t.Execute(&b, v); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, strings.TrimSuffix(t.Name(), ".tmpl")), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// values are what the templates say.
type values struct {
	Name, Executable string
	ID               uint32
	Module, Version  string
	Go               string
	Source           string
	Requires         []string // "module version", of the source's own go.mod
	sums             []byte   // the source's
}

// require finds what go.mod is to say of rpcrdma.
func (v *values) require(source string) error {
	if source == "" {
		info, ok := debug.ReadBuildInfo()
		if !ok || info.Main.Path != Module || !strings.HasPrefix(info.Main.Version, "v") || strings.Contains(info.Main.Version, "+dirty") {
			return errors.New("this program is not a released version: name the source tree that it was built from")
		}
		v.Version = info.Main.Version
		return nil
	}
	source, err := filepath.Abs(source)
	if err != nil {
		return err
	}
	mod, err := os.ReadFile(filepath.Join(source, "go.mod"))
	if err != nil || !bytes.HasPrefix(mod, []byte("module "+Module+"\n")) {
		return fmt.Errorf("%s is not the source tree of %s", source, Module)
	}
	if v.sums, err = os.ReadFile(filepath.Join(source, "go.sum")); err != nil {
		return err
	}
	v.Source, v.Version = source, "v0.0.0"
	if strings.ContainsAny(source, " \t\"`") {
		v.Source = fmt.Sprintf("%q", source)
	}
	for line := range strings.Lines(string(mod)) {
		line, _, _ = strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "require ")), " //")
		if m, version, ok := strings.Cut(line, " "); ok && strings.Contains(m, ".") && strings.HasPrefix(version, "v") {
			v.Requires = append(v.Requires, line)
		}
		if g, ok := strings.CutPrefix(line, "go "); ok {
			v.Go = g
		}
	}
	return nil
}

// id is a number of the experimental range, most likely another for each name.
func id(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return 4294967040 + h.Sum32()%256
}
