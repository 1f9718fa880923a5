package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rpcrdma/rpcrdma/extensions"
)

const sum = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

var props = extensions.Spec{Name: "props", Required: true}

func TestMetrics(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		"metrics { listen = \":0\" }":          ":0",
		"metrics { listen = \"[::1]:9464\" }":  "[::1]:9464",
		"metrics { listen = \"localhost:1\" }": "localhost:1",
	} {
		if got, err := parse("f.hcl", "/", []byte(text)); err != nil || got.Metrics.Listen != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

func TestGood(t *testing.T) {
	protocol := Default().Protocol
	for _, c := range []struct {
		name, text string
		protocol   Protocol
		extensions []extensions.Spec
	}{
		{"an empty file is as none", "", protocol, []extensions.Spec{props}},
		{"comments", "# one\n// two\n/* three */", protocol, []extensions.Spec{props}},
		{"protocol", "protocol {\n versions = [1]\n inline = 1024\n credits = 1\n}", Protocol{1, 1, 1024, 1}, []extensions.Spec{props}},
		{"both versions", "protocol { versions = [2, 1] }", protocol, []extensions.Spec{props}},
		{"only the second", "protocol { versions = [2] }", Protocol{2, 2, 4096, 64}, []extensions.Spec{props}},
		{"null is nothing", "protocol {\n inline = null\n credits = null\n versions = null\n}", protocol, []extensions.Spec{props}},
		{"a version that needs 4096 and has them", "protocol {\n inline = 4096\n}", protocol, []extensions.Spec{props}},
		{"props named where it stands", "extension \"a\" {}\nextension \"props\" {\n options = { encoding = \"opttype\" }\n}", protocol,
			[]extensions.Spec{{Name: "a", Required: true}, {Name: "props", Required: true, Options: map[string]string{"encoding": "opttype"}}}},
		{"without props", "extension \"props\" { enabled = false }", protocol, []extensions.Spec{}},
		{"a block that is kept for later", "extension \"a\" { enabled = false }", protocol, []extensions.Spec{props}},
		{"a plugin", `extension "acme-2" {
  path     = "/opt/acme-ext"
  sha256   = "` + strings.ToUpper(sum) + `"
  timeout  = "200ms"
  required = false
  options  = { word = "a b", n = 3, f = -1.5, yes = true, "quoted key" = "" }
}`, protocol, []extensions.Spec{props, {Name: "acme-2", Path: "/opt/acme-ext", SHA256: sum, Timeout: 200 * time.Millisecond,
			Options: map[string]string{"word": "a b", "n": "3", "f": "-1.5", "yes": "true", "quoted key": ""}}}},
		{"a path beside the file", "extension \"a\" {\n path = \"plugins/../a-ext\"\n sha256 = \"" + sum + "\"\n}", protocol,
			[]extensions.Spec{props, {Name: "a", Path: "/etc/rpcrdma/a-ext", SHA256: sum, Required: true}}},
		{"longer texts", "extension \"a\" {\n options = { text = <<END\none\n$${two}\nEND\n}\n}", protocol,
			[]extensions.Spec{props, {Name: "a", Required: true, Options: map[string]string{"text": "one\n${two}\n"}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parse("f.hcl", "/etc/rpcrdma", []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			got.blocks = nil // where things stand
			want := &Config{File: "f.hcl", Protocol: c.protocol, Extensions: c.extensions}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestBad(t *testing.T) {
	ext := func(s string) string { return "extension \"a\" {\n  " + s + "\n}\n" }
	plugin := func(s string) string { return ext("path = \"/x\"\n  sha256 = \"" + sum + "\"\n  " + s) }
	for _, c := range []struct{ text, want string }{
		// HCL's own.
		{"protocol {", `f.hcl:1:10: Unclosed configuration block: There is no closing brace for this block before the end of the file. This may be caused by incorrect brace nesting elsewhere in this file.`},
		{"protocol {\n credits = 1\n credits = 2\n}", `f.hcl:3:2: Attribute redefined: The argument "credits" was already set at f.hcl:2,2-9. Each argument may be set only once.`},
		{"\xff", "f.hcl:1:1: Invalid character encoding: All input files must be UTF-8 encoded. Ensure that UTF-8 encoding is selected in your editor.\n" +
			"f.hcl:1:1: Argument or block definition required: An argument or block definition is required here."},
		// The file.
		{"credits = 3", `f.hcl:1:1: "credits" stands outside of a block: want protocol { … } or extension "NAME" { … }`},
		{"protokol {}", `f.hcl:1:1: unknown block "protokol": want protocol, extension or metrics`},
		{"\n  fabric \"storage\" {}", `f.hcl:2:3: fabric is not supported by this version: the provider is taken from the scheme of each address; remove the block`},
		{"tracing {}", `f.hcl:1:1: tracing is not supported by this version: traces are not exported; remove the block`},
		// metrics
		{"metrics {}", `f.hcl:1:1: metrics: listen is missing: the address and port to export them on, such as "127.0.0.1:9464"`},
		{"metrics { listen = null }", `f.hcl:1:1: metrics: listen is missing: the address and port to export them on, such as "127.0.0.1:9464"`},
		{"metrics { listen = 9464 }", `f.hcl:1:20: listen: want an address and a port, such as "127.0.0.1:9464", not 9464`},
		{"metrics { listen = \"127.0.0.1\" }", `f.hcl:1:20: listen: want an address and a port, such as "127.0.0.1:9464", not "127.0.0.1"`},
		{"metrics { listen = \"host:65536\" }", `f.hcl:1:20: listen: want an address and a port, such as "127.0.0.1:9464", not "host:65536"`},
		{"metrics \"x\" { listen = \":1\" }", `f.hcl:1:9: metrics has no name: want metrics { … }`},
		{"metrics { listen = \":1\" }\nmetrics {}", `f.hcl:2:1: a second block metrics; the first is in line 1`},
		{"metrics {\n port = 1\n listen = \":1\"\n}", `f.hcl:2:2: unknown "port" in metrics: want listen`},
		// protocol
		{"protocol {}\nprotocol {}", `f.hcl:2:1: a second block protocol; the first is in line 1`},
		{"protocol \"x\" {}", `f.hcl:1:10: protocol has no name: want protocol { … }`},
		{"protocol { inlin = 4096 }", `f.hcl:1:12: unknown "inlin" in protocol: want versions, inline, credits`},
		{"protocol {\n inline {}\n}", `f.hcl:2:2: no block stands in protocol: want inline = …`},
		{"protocol {\n other {}\n}", `f.hcl:2:2: no block stands in protocol: want versions, inline, credits`},
		{"protocol { inline = 4097 }", `f.hcl:1:21: inline: want a multiple of 1024 from 1024 to 262144, not 4097`},
		{"protocol { inline = 263168 }", `f.hcl:1:21: inline: want a multiple of 1024 from 1024 to 262144, not 263168`},
		{"protocol { inline = \"4096\" }", `f.hcl:1:21: inline: want a multiple of 1024 from 1024 to 262144, not "4096"`},
		{"protocol { inline = 2048 }", `f.hcl:1:21: inline: version 2 needs 4096 at least; raise it, or say versions = [1]`},
		{"protocol { credits = 0 }", `f.hcl:1:22: credits: want a number from 1 to 16384, not 0`},
		{"protocol { credits = 1.5 }", `f.hcl:1:22: credits: want a number from 1 to 16384, not 1.5`},
		{"protocol { credits = -3 }", `f.hcl:1:22: credits: want a number from 1 to 16384, not -3`},
		{"protocol { credits = 1e999999 }", `f.hcl:1:22: credits: want a number from 1 to 16384, not 1e+999999`},
		{"protocol { credits = true }", `f.hcl:1:22: credits: want a number from 1 to 16384, not true`},
		{"protocol { credits = many }", `f.hcl:1:22: want a value; a text stands in quotes`},
		{"protocol { credits = 1 + 1 }", `f.hcl:1:24: want a plain value: this file takes no expressions`},
		{"protocol { credits = max(1, 2) }", `f.hcl:1:25: want a plain value: this file takes no expressions`},
		{"protocol { credits = 1-2 }", `f.hcl:1:23: want a plain value: this file takes no expressions`},
		{ext("options = { k = [for x in y : z] }"), `f.hcl:2:19: want a value; a text stands in quotes`},
		{ext("options = { k = \"%{ if true }x%{ endif }\" }"), `f.hcl:2:20: this file takes no expressions: to have a %{ in a text write %%{`},
		{"protocol { versions = 2 }", `f.hcl:1:23: versions: want [2, 1] (2 is tried first), [2] or [1]`},
		{"protocol { versions = [1, 2] }", `f.hcl:1:23: versions: want [2, 1] (2 is tried first), [2] or [1]`},
		{"protocol { versions = [] }", `f.hcl:1:23: versions: want [2, 1] (2 is tried first), [2] or [1]`},
		{"protocol { versions = [null] }", `f.hcl:1:23: versions: want [2, 1] (2 is tried first), [2] or [1]`},
		{"protocol { versions = [3] }", `f.hcl:1:23: versions: want [2, 1] (2 is tried first), [2] or [1]`},
		// extension
		{"extension {}", `f.hcl:1:1: want one name: extension "NAME" { … }`},
		{"extension \"a\" \"b\" {}", `f.hcl:1:1: want one name: extension "NAME" { … }`},
		{"extension \"\" {}", `f.hcl:1:11: extension "": want 1 to 32 lower-case letters, digits or '-'`},
		{"extension \"Acme_1\" {}", `f.hcl:1:11: extension "Acme_1": want 1 to 32 lower-case letters, digits or '-'`},
		{"extension \"a\" {}\nextension \"a\" {}", `f.hcl:2:11: a second extension "a"; the first is in line 1`},
		{ext("sha = 1"), `f.hcl:2:3: unknown "sha" in extension: want enabled, path, sha256, timeout, required, options`},
		{ext("path = \"./my ext\""), `f.hcl:2:10: a plugin wants its digest beside its path: sha256 = "…"; rpcrdma extensions verify './my ext' prints it`},
		{ext("path = 3"), `f.hcl:2:10: path: want the plugin's executable in quotes, not 3; an extension that is compiled in has no path`},
		{ext("path = \"\""), `f.hcl:2:10: path: want the plugin's executable in quotes, not ""; an extension that is compiled in has no path`},
		{ext("path = \"${home}/x\"\n sha256 = \"" + sum + "\""), `f.hcl:2:11: this file takes no expressions: to have a ${ in a text write $${`},
		{ext("sha256 = \"" + sum + "\""), `f.hcl:2:12: sha256 is the digest of a plugin: want its path, too; an extension that is compiled in has neither`},
		{ext("path = \"/x\"\n sha256 = \"abc\""), `f.hcl:3:11: sha256: want 64 hexadecimal digits, as sha256sum prints them, not "abc"`},
		{ext("path = \"/x\"\n sha256 = [\"abc\"]"), `f.hcl:3:11: sha256: want 64 hexadecimal digits, as sha256sum prints them, not a list`},
		{ext("timeout = \"1s\""), `f.hcl:2:13: timeout is for plugins: want a path, too`},
		{plugin("timeout = \"200\""), `f.hcl:4:13: timeout: want a time from 1ms to 1s with its unit, such as "200ms", not "200"`},
		{plugin("timeout = \"2m\""), `f.hcl:4:13: timeout: want a time from 1ms to 1s with its unit, such as "200ms", not "2m"`},
		{plugin("timeout = 200"), `f.hcl:4:13: timeout: want a time from 1ms to 1s with its unit, such as "200ms", not 200`},
		{plugin("required = \"no\""), `f.hcl:4:14: required: want true or false, not "no"`},
		{ext("enabled = 1"), `f.hcl:2:13: enabled: want true or false, not 1`},
		{ext("options = \"x\""), `f.hcl:2:13: options: want { key = "value", … }`},
		{ext("options {\n k = 1\n }"), `f.hcl:2:3: no block stands in extension: want options = …`},
		{ext("options = { k = [1] }"), `f.hcl:2:19: options: k: want a text, a number, true or false, not a list`},
		{ext("options = { k = null }"), `f.hcl:2:19: options: k: want a text, a number, true or false, not null`},
		{ext("options = { k = 1e999 }"), `f.hcl:2:19: options: k: want a text, a number, true or false, not 1e+999`},
		{ext("options = { k = word }"), `f.hcl:2:19: want a value; a text stands in quotes`},
		{ext("options = { k = 1, k = 2 }"), `f.hcl:2:22: options: k stands there twice`},
		{ext("options = { \"\" = 2 }"), `f.hcl:2:15: options: want a name before =`},
		{ext("options = { k = \"\\u0000\" }"), "f.hcl:2:19: options: k: want a text, a number, true or false, not \"\x00\""},
		// Several at once, in the file's order.
		{"extension \"a\" {\n timeout = 3\n}\nfabric \"f\" {}\nprotocol {\n credits = 0\n inline = 1\n}\n",
			"f.hcl:2:12: timeout: want a time from 1ms to 1s with its unit, such as \"200ms\", not 3\n" +
				"f.hcl:2:12: timeout is for plugins: want a path, too\n" +
				"f.hcl:4:1: fabric is not supported by this version: the provider is taken from the scheme of each address; remove the block\n" +
				"f.hcl:6:12: credits: want a number from 1 to 16384, not 0\n" +
				"f.hcl:7:11: inline: want a multiple of 1024 from 1024 to 262144, not 1"},
	} {
		cfg, err := parse("f.hcl", "/etc/rpcrdma", []byte(c.text))
		var e *Error
		if cfg != nil || !errors.As(err, &e) {
			t.Errorf("%q: %+v, %v", c.text, cfg, err)
		} else if err.Error() != c.want {
			t.Errorf("%q:\ngot  %s\nwant %s", c.text, err, c.want)
		}
	}
}

func TestTooMany(t *testing.T) {
	var b strings.Builder
	for i := range maxExtensions + 9 {
		fmt.Fprintf(&b, "extension \"e%d\" {}\n", i)
	}
	_, err := parse("f", "/", []byte(b.String()))
	if want := "f:65:1: more than 64 extensions"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// Deeply nested text is refused by the size of the file, before the parser's stack is too small.
func TestDeep(t *testing.T) {
	for _, s := range []string{"(", "[", "{ a = ", "-", "!", "a {", "\"${"} {
		if _, err := parse("f", "/", []byte("a = "+strings.Repeat(s, maxFile/len(s)-4))); err == nil {
			t.Errorf("%q, many times: taken", s)
		}
	}
}

// What Quote writes is read as what it was.
func TestQuote(t *testing.T) {
	for _, s := range []string{"", "/opt/acme ext", "a\"b\\c\nd", "${home}%{if}", "Ünï", "$${"} {
		c, err := parse("f", "/", []byte("extension \"a\" {\n options = { k = "+Quote(s)+" }\n}"))
		if err != nil || c.Extensions[1].Options["k"] != s {
			t.Errorf("%q, written %s: %+v, %v", s, Quote(s), c, err)
		}
	}
}

// Which file counts, and what is said where it cannot be read.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	one, two := write("one", "protocol { credits = 1 }"), write("two", "protocol { credits = 2 }")
	t.Setenv(Environment, two)
	for name, want := range map[string]int{one: 1, "": 2} {
		if c, err := Load(name); err != nil || c.Protocol.Credits != want {
			t.Errorf("%q: %+v, %v; want %d credits", name, c, err, want)
		}
	}
	t.Setenv(Environment, filepath.Join(dir, "none"))
	if _, err := Load(""); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "$RPCRDMA_CONFIG: configuration: open ") {
		t.Errorf("%v", err)
	}
	if _, err := Load(dir); err == nil {
		t.Error("a directory was read")
	}
	big := write("big", strings.Repeat("#", maxFile+1))
	if _, err := Load(big); err == nil || !strings.HasSuffix(err.Error(), "big: more than 64 KiB") {
		t.Errorf("%v", err)
	}
	t.Setenv(Environment, "")
	if Find("") == "" {
		if c, err := Load(""); err != nil || !reflect.DeepEqual(c, Default()) {
			t.Errorf("%+v, %v", c, err)
		}
	}
	t.Chdir(dir)
	write("rel", "extension \"a\" {\n path = \"a-ext\"\n sha256 = \""+sum+"\"\n}")
	if c, err := Load("rel"); err != nil || c.Extensions[1].Path != filepath.Join(dir, "a-ext") {
		t.Errorf("%+v, %v", c, err)
	}
}

// A file that names programs to run is nobody else's to write; one that does not may be.
func TestOthers(t *testing.T) {
	dir := t.TempDir()
	plugin := filepath.Join(dir, "plugin")
	plain := filepath.Join(dir, "plain")
	for name, text := range map[string]string{plugin: "extension \"a\" {\n path = \"a-ext\"\n sha256 = \"" + sum + "\"\n}", plain: "protocol { credits = 1 }"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		mode     os.FileMode
		uid, gid int
		want     string
	}{
		{0o600, -1, -1, ""},
		{0o644, -1, -1, ""},
		{0o602, -1, -1, "names programs to run, and can be written by everybody: chmod o-w it"},
		{0o660, -1, os.Geteuid() + 1, "names programs to run, and can be written by group %d: chmod g-w it"},
		{0o660, -1, os.Geteuid(), ""},
		{0o600, 12345, -1, "names programs to run, and belongs to user 12345: chown it to root, or to the user that runs this program"},
	} {
		for _, name := range []string{plain, plugin} {
			if err := errors.Join(os.Chown(name, c.uid, c.gid), os.Chmod(name, c.mode)); err != nil {
				t.Logf("mode %o, user %d, group %d: %v", c.mode, c.uid, c.gid, err)
				continue // it takes root
			}
			want := c.want
			if strings.Contains(want, "%d") {
				want = fmt.Sprintf(want, c.gid)
			}
			if _, err := Load(name); name == plain || want == "" {
				if err != nil {
					t.Errorf("mode %o: %v", c.mode, err)
				}
			} else if err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("mode %o: %v, want %s", c.mode, err, want)
			}
		}
	}
}

// Whatever a file holds: an Error with places within it, or a Config within its bounds.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "protocol {\n versions = [2, 1]\n inline = 4096\n credits = 64\n}\n", "extension \"props\" {}\n",
		"extension \"a\" {\n path = \"/x\"\n sha256 = \"" + sum + "\"\n timeout = \"200ms\"\n required = false\n options = { a = 1, b = true, \"c\" = \"x\" }\n}\n",
		"extension \"a\" {\n options = { k = <<E\nx\nE\n}\n}", "fabric \"f\" {}", "protocol { credits = 1e9999 }", "a = \"${\"${1}\"}\"", "protocol { inline = null }"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 4096 {
			return
		}
		c, err := parse("f", "/dir", src)
		var e *Error
		switch {
		case errors.As(err, &e):
			lines := strings.Count(string(src), "\n") + 1
			for _, p := range e.Problems {
				if p.Line < 1 || p.Line > lines+1 || p.Column < 1 || p.Text == "" || strings.Contains(p.Text, "\n") && !strings.Contains(p.Text, "\"") {
					t.Fatalf("%q: %+v", src, p)
				}
			}
			if len(e.Problems) == 0 {
				t.Fatalf("%q: an error without a problem", src)
			}
		case err != nil:
			t.Fatalf("%q: %v", src, err)
		default:
			p := c.Protocol
			if p.MinVersion < 1 || p.MaxVersion > 2 || p.MinVersion > p.MaxVersion || p.Inline < MinInline || p.Inline > MaxInline || p.Inline%1024 != 0 ||
				p.MaxVersion == 2 && p.Inline < MinInlineV2 || p.Credits < 1 || p.Credits > MaxCredits {
				t.Fatalf("%q: %+v", src, p)
			}
			for _, x := range c.Extensions {
				if !validName(x.Name) || (x.Path == "") != (x.SHA256 == "") || x.Path != "" && !filepath.IsAbs(x.Path) || x.Timeout < 0 || x.Timeout > maxTimeout {
					t.Fatalf("%q: %+v", src, x)
				}
			}
		}
	})
}
