package avatar

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

const page = "README.md"

// tableRows are the cells of the page's table below a head that begins with
// these words.
func tableRows(t *testing.T, head string) [][]string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(strings.ReplaceAll(string(text), "\r", ""), "\n| "+head)
	if !ok {
		t.Fatalf("%s has no table with the head %q", page, head)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var rows [][]string
	for i, line := range strings.Split(table, "\n") {
		if i < 2 { // the rest of the head, and the line below it
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i, cell := range cells {
			cells[i] = strings.TrimSpace(cell)
		}
		rows = append(rows, cells)
	}
	return rows
}

// TestNamesTable checks every row of the page's table of names.
func TestNamesTable(t *testing.T) {
	s := &Service{Fonts: onlyGo(t)}
	s.prepare()
	rows := tableRows(t, "Name | Initials |")
	for _, row := range rows {
		name, query, _ := strings.Cut(strings.TrimSuffix(row[0], "`"), " `")
		clean, err := s.limits.Clean(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		w := wish{name: clean, picture: Picture{Size: usual}}
		eachParam(query, func(key, value string) {
			if err := s.ownParam(&w, key, value); err != nil {
				t.Errorf("%s: %v", row[0], err)
			}
		})
		if got := w.rules.Of(clean).String(); got != row[1] {
			t.Errorf("%s: the initials are %q, and the page says %q", row[0], got, row[1])
		}
		drawn := "a pattern"
		if p := s.grant(w); p.Motif == Initials {
			drawn = p.Letters.String()
		}
		if drawn != row[2] {
			t.Errorf("%s: the built-in fonts draw %s, and the page says %s", row[0], drawn, row[2])
		}
	}
	if len(rows) < 20 {
		t.Errorf("%d rows of names", len(rows))
	}
}

// sheetNames are names of every kind that the service meets.
func sheetNames() []string {
	return []string{
		"Anna Berg", "Florian", "William Wright", "Jill Iljin", "john doe", "Émile Ångström", "Störfried Würgekloß",
		"Frank Walter Östernbach", "Ỳ Đỗ", "Zoë Ḉ", "Иван Петров", "Щука Жёлтый", "Αλέξης Ελένη", "Ψ Ω",
		"张三", "欧阳小明", "陳方", "田中 太郎", "김철수", "🎉 party", "👩‍🚀", "שרה לוי", "مريم نور", "राम", "joe@example.com",
		"O'Brien Q", "4 You", "+", "张三（销售）", "Bob Smith [ext]",
	}
}

// TestContactSheets draws the names of the page's table of scripts, with the Go
// fonts alone and with the table's fonts, and compares them with the pictures on
// the page. -update writes those that can be drawn here.
func TestContactSheets(t *testing.T) {
	var names, files []string
	for _, row := range tableRows(t, "Script | Names in the pictures") {
		names = append(names, strings.Split(row[1], ", ")...)
		if file := strings.Trim(row[2], "`"); file != "built in" && (len(files) == 0 || files[len(files)-1] != file) {
			files = append(files, file)
		}
	}
	if len(names) != 60 {
		t.Errorf("%d names, want 60", len(names))
	}
	t.Run("the Go fonts alone", func(t *testing.T) {
		compareSheet(t, "img/avatars.png", contactSheet(t, onlyGo(t), names))
	})
	t.Run("the fonts of the table", func(t *testing.T) {
		fonts := fontsNamed(t, files)
		s := &Service{Fonts: fonts}
		s.prepare()
		for _, name := range names {
			if p := s.grant(wish{name: name}); p.Motif != Initials {
				t.Errorf("%s has no initials", name)
			}
		}
		compareSheet(t, "img/avatars-fonts.png", contactSheet(t, fonts, names))
	})
}

// fontsNamed are the page's fonts. Where they are other versions than those that
// the page's picture was drawn with, the test is skipped.
func fontsNamed(t *testing.T, names []string) *Fonts {
	t.Helper()
	files := fontFiles(t, names...)
	var sums strings.Builder
	for i, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&sums, "%x %s\n", sha256.Sum256(data), names[i])
	}
	const versions = "testdata/fonts.txt"
	if *update {
		if err := os.WriteFile(versions, []byte(sums.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(versions); err != nil || strings.ReplaceAll(string(want), "\r", "") != sums.String() {
		t.Skipf("these fonts are other versions than those of %s, with which the page's picture was drawn (%v)", versions, err)
	}
	fonts, err := OpenFonts(FontOptions{Files: files, Places: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	return fonts
}

// fontFiles looks for fonts in -fonts. Where one is missing, the test is skipped.
func fontFiles(t *testing.T, names ...string) []string {
	t.Helper()
	found := map[string]string{}
	for _, dir := range strings.Split(*fontDirs, ",") {
		filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && found[filepath.Base(path)] == "" {
				found[filepath.Base(path)] = path
			}
			return nil
		})
	}
	var files []string
	for _, name := range names {
		if found[name] == "" {
			t.Skipf("no %s here; install the packages that README.md names, or name a directory with -fonts", name)
		}
		files = append(files, found[name])
	}
	return files
}

// TestAddedFont draws letters of scripts without capitals with a font that many
// machines have: they stand in the middle, and those of Arabic apart.
func TestAddedFont(t *testing.T) {
	fonts, err := OpenFonts(FontOptions{Files: fontFiles(t, "DejaVuSans.ttf"), Places: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{Fonts: fonts}
	s.prepare()
	r := &Renderer{Fonts: fonts}
	for _, name := range []string{"ნინო", "გიორგი ლევან", "נועה", "דוד קים", "ليلى", "عمر يوسف", "مريم نور", "خالد ليلى"} {
		const side = 128
		p := s.grant(wish{name: name, picture: Picture{Size: side}})
		if p.Motif != Initials {
			t.Errorf("%s has no initials", name)
			continue
		}
		p.Background, p.Ink = Color{}, Color{255, 255, 255}
		img := decode(t, r, p)
		top, bottom := side, 0
		var columns [side]bool
		for i := range side * side {
			x, y := i%side, i/side
			if color.GrayModel.Convert(img.At(x, y)).(color.Gray).Y > 127 {
				top, bottom, columns[x] = min(top, y), max(bottom, y), true
			}
		}
		if middle := top + bottom; abs(int64(middle-(side-1))) > 3 {
			t.Errorf("%s: the letters go from line %d to %d of %d", name, top, bottom, side)
		}
		gap, widest := 0, 0
		for x := side / 4; x < side-side/4; x++ {
			gap++
			if columns[x] {
				gap = 0
			}
			widest = max(widest, gap)
		}
		if isArabic := unicode.Is(unicode.Arabic, p.Letters[0]); isArabic && p.Letters.len() == 2 && widest < 10 {
			t.Errorf("%s: the letters %s are %d pixels apart", name, p.Letters, widest)
		}
	}
}

// TestBlankGlyph asks for a letter that a font has a number for and no outline of:
// its name has a pattern, not an empty picture.
func TestBlankGlyph(t *testing.T) {
	fonts, err := OpenFonts(FontOptions{Files: fontFiles(t, "DroidSansFallbackFull.ttf"), Places: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	const filler = '\u3164' // of Hangul
	for range 2 {           // the second time from memory
		if _, ok := fonts.Fit(Letters{filler}); ok {
			t.Error("a letter without an outline is drawn")
		}
		if _, ok := fonts.Fit(Letters{'民', '小'}); !ok {
			t.Error("letters with outlines are not drawn")
		}
	}
}

// TestKoreanFont adds a font that has some Han characters: Chinese names still
// have theirs from the system's font.
func TestKoreanFont(t *testing.T) {
	files := fontFiles(t, "NanumGothic.ttf", "DroidSansFallbackFull.ttf")
	fonts, err := OpenFonts(FontOptions{Files: files[:1], Places: files[1:]})
	if err != nil {
		t.Fatal(err)
	}
	for _, letter := range "김陳晓" {
		if l, ok := fonts.Fit(Letters{letter}); !ok || l[0] != letter {
			t.Errorf("%c is not drawn", letter)
		}
	}
	if fonts.Han() != files[1] {
		t.Errorf("Han characters come from %q", fonts.Han())
	}
}

// contactSheet draws names in rows of ten, by turns five square and five round
// ones.
func contactSheet(t *testing.T, fonts *Fonts, names []string) *image.NRGBA {
	t.Helper()
	s := &Service{Fonts: fonts}
	s.prepare()
	r := &Renderer{Fonts: fonts}
	const side, gap, columns = 64, 8, 10
	rows := (len(names) + columns - 1) / columns
	sheet := image.NewNRGBA(image.Rect(0, 0, gap+columns*(side+gap), gap+rows*(side+gap)))
	for i, name := range names {
		p := s.grant(wish{name: s.limits.Mend(name), picture: Picture{Size: side, Shape: Shape(i / 5 % 2)}})
		img := decode(t, r, p)
		at := image.Pt(gap+i%columns*(side+gap), gap+i/columns*(side+gap))
		draw.Draw(sheet, img.Bounds().Add(at), img, image.Point{}, draw.Src)
	}
	return sheet
}

// compareSheet compares pixels: another version of Go may compress otherwise.
func compareSheet(t *testing.T, file string, got *image.NRGBA) {
	t.Helper()
	if *update {
		var b bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, got); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if stored.Bounds() != got.Bounds() {
		t.Fatalf("%s has %v pixels, and %v are drawn; run this test with -update, and look at the picture", file, stored.Bounds(), got.Bounds())
	}
	for y := range got.Bounds().Dy() {
		for x := range got.Bounds().Dx() {
			if want := color.NRGBAModel.Convert(stored.At(x, y)); want != got.At(x, y) {
				t.Fatalf("%s shows %v at %d, %d, and %v is drawn; run this test with -update, and look at the picture", file, want, x, y, got.At(x, y))
			}
		}
	}
}
