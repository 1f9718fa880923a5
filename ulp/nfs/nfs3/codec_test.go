package nfs3

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/rpcrdma/rpcrdma/core/xdr"
)

type codec interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

// procTypes are the types of each procedure.
var procTypes = [NumProcs]struct {
	name      string
	args, res func() codec
}{
	{"NULL", nil, nil},
	{"GETATTR", func() codec { return new(HandleArgs) }, func() codec { return new(GetAttrRes) }},
	{"SETATTR", func() codec { return new(SetAttrArgs) }, func() codec { return new(WccRes) }},
	{"LOOKUP", func() codec { return new(DirOpArgs) }, func() codec { return new(LookupRes) }},
	{"ACCESS", func() codec { return new(AccessArgs) }, func() codec { return new(AccessRes) }},
	{"READLINK", func() codec { return new(ReadLinkArgs) }, func() codec { return new(ReadLinkRes) }},
	{"READ", func() codec { return new(ReadArgs) }, func() codec { return &ReadRes{Dst: make([]byte, 8192)} }},
	{"WRITE", func() codec { return new(WriteArgs) }, func() codec { return new(WriteRes) }},
	{"CREATE", func() codec { return new(CreateArgs) }, func() codec { return new(CreateRes) }},
	{"MKDIR", func() codec { return new(MkdirArgs) }, func() codec { return new(CreateRes) }},
	{"SYMLINK", func() codec { return new(SymlinkArgs) }, func() codec { return new(CreateRes) }},
	{"MKNOD", func() codec { return new(MknodArgs) }, func() codec { return new(CreateRes) }},
	{"REMOVE", func() codec { return new(DirOpArgs) }, func() codec { return new(WccRes) }},
	{"RMDIR", func() codec { return new(DirOpArgs) }, func() codec { return new(WccRes) }},
	{"RENAME", func() codec { return new(RenameArgs) }, func() codec { return new(RenameRes) }},
	{"LINK", func() codec { return new(LinkArgs) }, func() codec { return new(LinkRes) }},
	{"READDIR", func() codec { return new(ReadDirArgs) }, func() codec { return new(DirRes) }},
	{"READDIRPLUS", func() codec { return new(ReadDirPlusArgs) }, func() codec { return &DirRes{Plus: true} }},
	{"FSSTAT", func() codec { return new(HandleArgs) }, func() codec { return new(FSStatRes) }},
	{"FSINFO", func() codec { return new(HandleArgs) }, func() codec { return new(FSInfoRes) }},
	{"PATHCONF", func() codec { return new(HandleArgs) }, func() codec { return new(PathConfRes) }},
	{"COMMIT", func() codec { return new(CommitArgs) }, func() codec { return new(CommitRes) }},
}

// vector is one entry of testdata.
type vector struct {
	proc  int
	call  bool
	moved int
	data  []byte
}

func vectors(t testing.TB) (vs []vector) {
	t.Helper()
	f, err := os.Open("testdata/linux-6.1.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := sc.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		var v vector
		var name, kind string
		if _, err := fmt.Sscanf(line, "%s %s moved %d", &name, &kind, &v.moved); err != nil && kind == "" {
			t.Fatalf("%q: %v", line, err)
		}
		v.call = kind == "call"
		for i := range procTypes {
			if procTypes[i].name == name {
				v.proc = i
			}
		}
		sc.Scan()
		if v.data, err = hex.DecodeString(sc.Text()); err != nil || v.proc == 0 {
			t.Fatalf("%q: %v", line, err)
		}
		vs = append(vs, v)
	}
	return vs
}

func (v vector) new() codec {
	if v.call {
		return procTypes[v.proc].args()
	}
	return procTypes[v.proc].res()
}

// What Linux sent decodes to its end and encodes to the same bytes.
func TestLinux(t *testing.T) {
	vs := vectors(t)
	if len(vs) < 20 {
		t.Fatalf("only %d vectors", len(vs))
	}
	for i, v := range vs {
		c := v.new()
		var r xdr.Reader
		var moved []xdr.Moved
		if v.moved > 0 {
			pos := xdr.InOrder
			if v.call {
				pos = len(v.data) // a Read chunk is matched by position
			}
			moved = []xdr.Moved{{Position: pos, Data: make([]byte, v.moved)}}
		}
		r.Reset(v.data, moved)
		c.UnmarshalXDR(&r)
		if err := r.Done(); err != nil {
			t.Errorf("vector %d, %s: %v", i, procTypes[v.proc].name, err)
			continue
		}
		var w xdr.Writer
		c.MarshalXDR(&w)
		got := w.Bytes()
		if v.moved == 0 {
			got = w.AppendUnreduced(nil)
		}
		if !bytes.Equal(got, v.data) {
			t.Errorf("vector %d, %s: encoded\n%x, was\n%x", i, procTypes[v.proc].name, got, v.data)
		}
	}
}

// A few values of the capture by name, so that two fields cannot have changed places.
func TestLinuxValues(t *testing.T) {
	for _, v := range vectors(t) {
		c := v.new()
		var r xdr.Reader
		r.Reset(v.data, nil)
		c.UnmarshalXDR(&r)
		switch c := c.(type) {
		case *FSInfoRes:
			if c.RTMax != 1<<20 || c.WTMult != 4096 || c.DTPref != 1<<20 || c.MaxFileSize != 1<<63-1 || c.TimeDelta != (Time{Sec: 1}) || c.Properties != 0x1b {
				t.Errorf("FSINFO %+v", c)
			}
		case *PathConfRes:
			if c.NameMax != 255 || c.NoTrunc || !c.CasePreserving {
				t.Errorf("PATHCONF %+v", c)
			}
		case *GetAttrRes:
			if a := c.Attr; a.FileMode() != fs.ModeDir|0o777 || a.FileID != 1 || a.Size != 40 || a.Mtime.Time().Year() != 2026 {
				t.Errorf("GETATTR %+v", c)
			}
		case *MkdirArgs:
			if c.Where.Name != "w.cli.1" && c.Where.Name != "many" || c.Attr.Mode != U32(0o755) || c.Attr.Size.Set {
				t.Errorf("MKDIR %+v", c)
			}
		case *WriteArgs:
			if v.moved == 0 && (c.Count != 1 || c.Stable != FileSync || string(c.Data) != "Y") {
				t.Errorf("WRITE %+v", c)
			}
		}
	}
}

// fill sets every field to something, within what the type allows.
func fill(v reflect.Value, rng *rand.Rand) {
	switch p := v.Addr().Interface().(type) {
	case *Handle:
		b := make([]byte, rng.IntN(HandleSize+1))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		*p, _ = NewHandle(b)
		return
	case *Status:
		*p = []Status{OK, OK, ErrNoEnt, ErrJukebox}[rng.IntN(4)]
		return
	case *TimeHow:
		*p = TimeHow(rng.IntN(3))
		return
	case *StableHow:
		*p = StableHow(rng.IntN(3))
		return
	case *CreateMode:
		*p = CreateMode(rng.IntN(3))
		return
	case *FileType:
		*p = FileType(rng.IntN(9))
		return
	case *[]byte:
		*p = make([]byte, rng.IntN(50))
		return
	case *string:
		*p = strings.Repeat("n", rng.IntN(300))
		return
	case *[]Entry:
		*p = make([]Entry, rng.IntN(5))
	case *ReadRes:
		p.Dst = make([]byte, 100)
		fill(v.Field(0), rng)
		fill(v.Field(1), rng)
		fill(v.FieldByName("Data"), rng)
		p.Count = uint32(len(p.Data))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if n := v.Type().Field(i).Name; n != "Plus" && n != "Mem" {
				fill(v.Field(i), rng)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), rng)
		}
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 1)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(rng.Uint64() >> (64 - 8*v.Type().Size()))
	default:
		panic(v.Type().String())
	}
}

func encode(c xdr.Marshaler) []byte {
	var w xdr.Writer
	c.MarshalXDR(&w)
	return w.AppendUnreduced(nil)
}

// same decodes what c encodes, to its end, into a value that encodes alike.
func same(t *testing.T, name string, c, into codec) {
	t.Helper()
	b := encode(c)
	r := xdr.NewReader(b)
	into.UnmarshalXDR(r)
	if err := r.Done(); err != nil {
		t.Fatalf("%s: %v from %x", name, err, b)
	}
	if got := encode(into); !bytes.Equal(got, b) {
		t.Fatalf("%s: %x, decoded and encoded again: %x", name, b, got)
	}
	// Every shorter stream is refused.
	for n := range b {
		r := xdr.NewReader(b[:n])
		if into.UnmarshalXDR(r); r.Err() == nil {
			t.Fatalf("%s: %d of %d bytes are accepted", name, n, len(b))
		}
	}
}

func TestRoundTrip(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1813))
		for i, p := range procTypes {
			for _, make := range []func() codec{p.args, p.res} {
				if make == nil {
					continue
				}
				c := make()
				fill(reflect.ValueOf(c).Elem(), rng)
				same(t, fmt.Sprintf("seed %d, %s (%d)", seed, p.name, i), c, make())
			}
		}
	}
}

func TestSizes(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var e Entry
		fill(reflect.ValueOf(&e).Elem(), rng)
		for _, plus := range []bool{false, true} {
			var w xdr.Writer
			e.Append(&w, plus)
			want := e.Size()
			if plus {
				want = e.PlusSize()
			}
			if w.Len() != want {
				t.Fatalf("entry of %d bytes, said to be %d", w.Len(), want)
			}
		}
		res := DirRes{Attr: PostOpAttr{Set: true}}
		if n := len(encode(&res)) - 4; n != DirHead+DirTail {
			t.Fatalf("empty listing of %d bytes", n)
		}
	}
}

func TestBounds(t *testing.T) {
	for what, c := range map[string]struct {
		b    []byte
		into codec
	}{
		"a handle of 65 bytes":    {append([]byte{0, 0, 0, 65}, make([]byte, 68)...), new(HandleArgs)},
		"a name of 1025 bytes":    {encode(&DirOpArgs{What: DirOp{Name: strings.Repeat("n", MaxName+1)}}), new(DirOpArgs)},
		"a target of 4097 bytes":  {encode(&SymlinkArgs{Target: make([]byte, MaxPath+1)}), new(SymlinkArgs)},
		"data of 1 MiB + 1":       {encode(&WriteArgs{Data: make([]byte, MaxData+1)}), new(WriteArgs)},
		"more data than room":     {encode(&ReadRes{Count: 11, Data: make([]byte, 11)}), &ReadRes{Dst: make([]byte, 10)}},
		"count and data disagree": {encode(&ReadRes{Count: 9, Data: make([]byte, 10)}), &ReadRes{Dst: make([]byte, 10)}},
		"a time_how of 3":         {encode(&SetAttrArgs{Attr: Sattr{Mtime: SetTime{How: 3}}}), new(SetAttrArgs)},
		"a stable_how of 3":       {encode(&WriteArgs{Stable: 3}), new(WriteArgs)},
		"a createmode of 3":       {encode(&CreateArgs{Mode: 3}), new(CreateArgs)},
		"a list without end":      {encode(&DirRes{Entries: make([]Entry, 3)})[:80], new(DirRes)},
	} {
		r := xdr.NewReader(c.b)
		if c.into.UnmarshalXDR(r); r.Err() == nil {
			t.Errorf("%s is accepted", what)
		}
	}
}

// Data that lies in the destination already is not copied; what came inline is.
func TestReadData(t *testing.T) {
	dst := make([]byte, 10)
	copy(dst, "moved")
	res := ReadRes{Count: 5, Data: []byte("moved")}
	var w xdr.Writer
	res.MarshalXDR(&w)
	var r xdr.Reader
	r.Reset(w.Bytes(), []xdr.Moved{{Position: xdr.InOrder, Data: dst[:5], Into: dst}})
	got := ReadRes{Dst: dst}
	if got.UnmarshalXDR(&r); r.Done() != nil || string(got.Data) != "moved" || &got.Data[0] != &dst[0] {
		t.Errorf("moved: %q, %v", got.Data, r.Done())
	}
	res.Data = []byte("inlin")
	got = ReadRes{Dst: dst}
	if got.UnmarshalXDR(xdr.NewReader(encode(&res))); string(got.Data) != "inlin" || &got.Data[0] != &dst[0] {
		t.Errorf("inline: %q", got.Data)
	}
}

func TestStatus(t *testing.T) {
	if ErrJukebox.String() != "NFS3ERR_JUKEBOX" || Status(4711).String() != "nfsstat3 4711" {
		t.Error("names")
	}
	for s := range statusText {
		if !strings.HasPrefix(s.String(), "NFS3") || s != OK && !strings.Contains(s.Error(), s.String()) {
			t.Errorf("%d: %q", uint32(s), s.Error())
		}
	}
}

// FuzzArgs: refused, or encoded and decoded again to the same bytes.
func FuzzArgs(f *testing.F) {
	for _, v := range vectors(f) {
		if v.call {
			f.Add(byte(v.proc), v.data)
		}
	}
	f.Fuzz(func(t *testing.T, proc byte, b []byte) { fuzzOne(t, procTypes[int(proc)%NumProcs].args, b) })
}

// FuzzResults is the same for what a server sends.
func FuzzResults(f *testing.F) {
	for _, v := range vectors(f) {
		if !v.call {
			f.Add(byte(v.proc), v.data)
		}
	}
	f.Fuzz(func(t *testing.T, proc byte, b []byte) { fuzzOne(t, procTypes[int(proc)%NumProcs].res, b) })
}

func fuzzOne(t *testing.T, make func() codec, b []byte) {
	if make == nil {
		return
	}
	c := make()
	r := xdr.NewReader(b)
	if c.UnmarshalXDR(r); r.Done() != nil {
		return
	}
	one := encode(c)
	if len(one) != len(b) {
		t.Fatalf("%T: %d bytes became %d", c, len(b), len(one))
	}
	again := make()
	r = xdr.NewReader(one)
	if again.UnmarshalXDR(r); r.Done() != nil || !bytes.Equal(encode(again), one) {
		t.Fatalf("%T: not the same again: %v", c, r.Err())
	}
}
