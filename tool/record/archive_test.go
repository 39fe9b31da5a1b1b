package record

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestExportComesBack(t *testing.T) {
	r := sampleRun("x")
	r.PairedWith = "0123456789ab"
	text := exported(t, r)
	back, err := Import(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r.ID = back.ID
	checkSame(t, r, back)
	if !bytes.Equal(text, exported(t, r)) || !bytes.Equal(text, exported(t, back)) {
		t.Error("the same run is exported in other bytes")
	}
	s := opened(t, newPath(t))
	add(t, s, back)
	if back.ID != r.ID {
		t.Errorf("%s in the export, %s in the store", r.ID, back.ID)
	}
	if !bytes.Equal(text, exported(t, get(t, s, r.ID))) {
		t.Error("from a store it is exported in other bytes")
	}
}

func TestAnyExportComesBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := runs().Draw(rt, "run")
		back, err := Import(bytes.NewReader(exported(t, r)))
		if err != nil {
			rt.Fatal(err)
		}
		r.ID = back.ID
		checkSame(rt, r, back)
	})
}

// entry is a file of a tar.
type entry struct {
	tar.Header
	data []byte
}

// entries splits an export into its files.
func entries(t testing.TB, text []byte) (all []entry) {
	t.Helper()
	in := tar.NewReader(bytes.NewReader(text))
	for {
		head, err := in.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, entry{*head, data})
	}
}

func packed(t testing.TB, all []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	for _, e := range all {
		if e.Typeflag == tar.TypeReg {
			e.Size = int64(len(e.data))
		}
		if err := out.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write(e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func reworded(old, now string) func([]entry) []entry {
	return func(all []entry) []entry {
		all[0].data = bytes.Replace(all[0].data, []byte(old), []byte(now), 1)
		return all
	}
}

func TestImportRefuses(t *testing.T) {
	file := func(name string, data string) entry {
		return entry{tar.Header{Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, []byte(data)}
	}
	good := exported(t, sampleRun("x"))
	if _, err := Import(bytes.NewReader(packed(t, entries(t, good)))); err != nil {
		t.Fatalf("what is only packed again: %v", err)
	}
	hash := entries(t, good)[1].Name
	for what, change := range map[string]func([]entry) []entry{
		"nothing":          func([]entry) []entry { return nil },
		"no run.json":      func(all []entry) []entry { return all[1:] },
		"another order":    func(all []entry) []entry { slices.Reverse(all); return all },
		"a blob too few":   func(all []entry) []entry { return all[:len(all)-1] },
		"a blob too many":  func(all []entry) []entry { return append(all, file(blobFolder+digest([]byte("x")), "x")) },
		"a blob twice":     func(all []entry) []entry { return append(all, all[1]) },
		"run.json twice":   func(all []entry) []entry { return append(all, all[0]) },
		"another file":     func(all []entry) []entry { return append(all, file("README", "x")) },
		"a changed blob":   func(all []entry) []entry { all[1].data = append([]byte("x"), all[1].data...); return all },
		"a path upwards":   func(all []entry) []entry { all[1].Name = "../" + all[1].Name; return all },
		"an absolute path": func(all []entry) []entry { all[1].Name = "/" + all[1].Name; return all },
		"a dotted path":    func(all []entry) []entry { all[0].Name = "./run.json"; return all },
		"a link": func(all []entry) []entry {
			all[1] = entry{tar.Header{Format: tar.FormatUSTAR, Typeflag: tar.TypeSymlink, Name: hash, Linkname: "/etc/passwd"}, nil}
			return all
		},
		"a folder": func(all []entry) []entry {
			return append([]entry{{tar.Header{Format: tar.FormatUSTAR, Typeflag: tar.TypeDir, Name: "blobs/"}, nil}}, all...)
		},
		"another tar": func(all []entry) []entry { all[0].Format = tar.FormatGNU; return all },
		"words of others": func(all []entry) []entry {
			all[0].PAXRecords = map[string]string{"HONE.x": "y"}
			all[0].Format = tar.FormatPAX
			return all
		},
		"another figure":         reworded("292000", "292001"),
		"another name":           reworded(`"x"`, `"y"`),
		"another hash":           reworded(strings.TrimPrefix(hash, blobFolder), digest([]byte("x"))),
		"a path for a hash":      reworded(strings.TrimPrefix(hash, blobFolder), "../../x"),
		"another size":           reworded(`"size": 3`, `"size": 4`),
		"another ID":             reworded(`"id": "`, `"id": "0`),
		"no ID":                  reworded(`"id": `, `"made": `),
		"another schema":         reworded(documentSchema, "hone.run/2"),
		"a field too many":       reworded(`"made"`, `"mode": 1, "made"`),
		"a partner hidden twice": reworded(`"samples"`, `"paired_with": "a", "paired_with": "", "samples"`),
		"other blanks":           reworded("\t", "  "),
		"a second value":         func(all []entry) []entry { all[0].data = append(all[0].data, "{}"...); return all },
		"no JSON":                func(all []entry) []entry { all[0].data = []byte("run"); return all },
		"null":                   func(all []entry) []entry { all[0].data = []byte("null\n"); return all },
	} {
		if r, err := Import(bytes.NewReader(packed(t, change(entries(t, good))))); !errors.Is(err, ErrDamaged) || r != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for cut := range len(good) - 1024 { // the rest is empty padding
		if cut%61 == 0 {
			if _, err := Import(bytes.NewReader(good[:cut])); !errors.Is(err, ErrDamaged) {
				t.Errorf("the first %d bytes: %v", cut, err)
			}
		}
	}
}

// Whatever size is claimed, memory grows only with the data that arrives.
func TestImportIsBounded(t *testing.T) {
	head := func(size int64) []byte {
		var b bytes.Buffer
		out := tar.NewWriter(&b)
		if err := out.WriteHeader(&tar.Header{Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Name: documentName, Mode: 0o644, Size: size}); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for _, size := range []int64{mostDocument, mostDocument + 1, mostArchive, 7 << 30} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Import(io.MultiReader(bytes.NewReader(head(size)), strings.NewReader("{")))
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrDamaged) || used > 1<<20 {
			t.Errorf("%d bytes that are only claimed take %d, %v", size, used, err)
		}
	}
	text := exported(t, sampleRun("x"))
	size := int64(0)
	for _, e := range entries(t, text) {
		size += e.Size
	}
	if _, err := importWithin(bytes.NewReader(text), size); err != nil {
		t.Errorf("just small enough: %v", err)
	}
	if _, err := importWithin(bytes.NewReader(text), size-1); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte too large: %v", err)
	}
}

func FuzzImport(f *testing.F) {
	for _, r := range []*Run{sampleRun("x"), {}} {
		text := exported(f, r)
		f.Add(text)
		f.Add(text[:len(text)/2])
		for _, e := range entries(f, text) {
			f.Add(packed(f, []entry{e}))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := importWithin(bytes.NewReader(text), 1<<20)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("%v", err)
			}
			return
		}
		again, err := Import(bytes.NewReader(exported(t, r)))
		if err != nil {
			t.Fatal(err)
		}
		checkSame(t, r, again)
	})
}

// failing is a writer that fails after that many bytes.
type failing struct{ room int }

func (f *failing) Write(data []byte) (int, error) {
	if f.room -= len(data); f.room < 0 {
		return 0, io.ErrShortWrite
	}
	return len(data), nil
}

func TestWritersSayWhenTheyCannot(t *testing.T) {
	r := sampleRun("x")
	for what, write := range map[string]func(io.Writer) error{
		"Export":          func(w io.Writer) error { return Export(w, r) },
		"WriteBenchmarks": func(w io.Writer) error { return WriteBenchmarks(w, r) },
		"WriteCSV":        func(w io.Writer) error { return WriteCSV(w, r) },
	} {
		var whole bytes.Buffer
		if err := write(&whole); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for _, room := range []int{0, whole.Len() / 2, whole.Len() - 1} {
			if err := write(&failing{room}); !errors.Is(err, io.ErrShortWrite) {
				t.Errorf("%s, with room for %d of %d bytes: %v", what, room, whole.Len(), err)
			}
		}
	}
	late := sampleRun("x")
	late.At = time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := Export(io.Discard, late); err == nil {
		t.Error("a year that cannot be written")
	}
}
