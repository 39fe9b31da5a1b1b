package avatar

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"golang.org/x/text/unicode/norm"

	"github.com/hone-go/hone/pool"
)

// hanSamples are traditional and simplified characters: a font that has all of them is suitable
// for Chinese names. Korean and Japanese fonts have only some.
const hanSamples = "陳陈晓"

// Fonts are loaded fonts. They are safe for concurrent use.
type Fonts struct {
	regular     *sfnt.Font // the Go fonts
	bold        *sfnt.Font
	others      []*sfnt.Font
	fingerprint uint64 // hash of all fonts, and of the machine's arithmetic
	buffers     pool.Objects[sfnt.Buffer]
}

// OpenFonts loads the Go fonts, which are part of the program: Latin, Greek and Cyrillic are always
// available, and look the same everywhere. Other letters are taken from files, in their order:
// TrueType or OpenType fonts or collections, which stay in memory. Without files it looks where
// systems keep fonts with Han characters, and does without if there are none.
func OpenFonts(files ...string) (*Fonts, error) {
	f, err := openFonts(files)
	for _, file := range usualPlaces() {
		if len(files) > 0 || err != nil {
			break
		}
		if with, missing := openFonts([]string{file}); missing == nil && hasGlyphs(with.others[0], hanSamples) {
			return with, nil
		}
	}
	return f, err
}

func openFonts(files []string) (*Fonts, error) {
	f := new(Fonts)
	sum := sha256.New()
	sum.Write([]byte(runtime.GOARCH)) // outlines are calculated with floating point
	var err error
	if f.regular, err = sfnt.Parse(goregular.TTF); err == nil {
		f.bold, err = sfnt.Parse(gobold.TTF)
	}
	if err != nil {
		return nil, fmt.Errorf("avatar: the Go fonts: %w; build again with another version of golang.org/x/image", err)
	}
	for _, file := range files {
		data, parsed, err := readFont(file)
		if err != nil {
			return nil, fmt.Errorf("avatar: font %s: %w; use a TrueType or OpenType file", file, err)
		}
		f.others = append(f.others, parsed)
		sum.Write(data)
	}
	f.fingerprint = binary.BigEndian.Uint64(sum.Sum(nil))
	return f, nil
}

// usualPlaces returns where systems keep fonts with Han characters, small ones first.
func usualPlaces() []string {
	switch runtime.GOOS {
	case "windows":
		dir := filepath.Join(os.Getenv("SystemRoot"), "Fonts")
		return []string{
			filepath.Join(dir, "simhei.ttf"), filepath.Join(dir, "Deng.ttf"),
			filepath.Join(dir, "msyh.ttc"), filepath.Join(dir, "simsun.ttc"),
		}
	case "darwin":
		return []string{
			"/System/Library/Fonts/STHeiti Medium.ttc",
			"/System/Library/Fonts/STHeiti Light.ttc",
			"/System/Library/Fonts/Hiragino Sans GB.ttc",
			"/Library/Fonts/Arial Unicode.ttf",
		}
	}
	return []string{
		"/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf",
		"/usr/share/fonts/truetype/droid/DroidSansFallback.ttf",
		"/usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
		"/usr/share/fonts/google-droid-sans-fonts/DroidSansFallbackFull.ttf",
		"/usr/share/fonts/wenquanyi/wqy-microhei/wqy-microhei.ttc",
		"/usr/share/fonts/wqy-microhei/wqy-microhei.ttc",
		"/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
		"/usr/share/fonts/noto-cjk/NotoSansCJK-Regular.ttc",
		"/usr/share/fonts/google-noto-cjk/NotoSansCJK-Regular.ttc",
	}
}

// readFont reads a font file; of a collection, the first font with Han characters, or else the
// first.
func readFont(file string) ([]byte, *sfnt.Font, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	all, err := sfnt.ParseCollection(data)
	if err != nil {
		return nil, nil, err
	}
	chosen, err := all.Font(0)
	for i := 1; err == nil && i < all.NumFonts() && !hasGlyphs(chosen, hanSamples); i++ {
		if one, err := all.Font(i); err == nil && hasGlyphs(one, hanSamples) {
			chosen = one
		}
	}
	return data, chosen, err
}

func hasGlyphs(f *sfnt.Font, characters string) bool {
	for _, r := range characters {
		if index, err := f.GlyphIndex(nil, r); err != nil || index == 0 {
			return false
		}
	}
	return true
}

// Fit replaces letters that no font has with their base letters, as Ế with E. It reports whether
// every letter now has a glyph. ASCII letters always have one; for others it searches the fonts,
// 50 to 100 ns each.
func (f *Fonts) Fit(l Letters) (Letters, bool) {
	for _, r := range l[:l.len()] {
		if !isASCIILetter(r) {
			return f.fit(l)
		}
	}
	return l, l[0] != 0
}

func (f *Fonts) fit(l Letters) (Letters, bool) {
	b := f.buffers.Get()
	defer f.buffers.Put(b)
	for i, r := range l[:l.len()] {
		if _, _, ok := f.find(b, r, false); ok {
			continue
		}
		bare := withoutMarks(r)
		if _, _, ok := f.find(b, bare, false); !ok {
			return Letters{}, false
		}
		l[i] = bare
	}
	return l, true
}

// withoutMarks returns the base letter of a letter with marks. NFD also decomposes Hangul
// syllables, which are left alone.
func withoutMarks(r rune) rune {
	parts := norm.NFD.String(string(r))
	bare, size := utf8.DecodeRuneInString(parts)
	if mark, _ := utf8.DecodeRuneInString(parts[size:]); !unicode.Is(unicode.Mn, mark) {
		return r
	}
	return bare
}

func isASCIILetter(r rune) bool {
	return r < 0x80 && strings.IndexByte(letterBytes, byte(r)) >= 0
}

const letterBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// find returns the first font that has a letter, and the glyph's index in it.
func (f *Fonts) find(b *sfnt.Buffer, r rune, bold bool) (*sfnt.Font, sfnt.GlyphIndex, bool) {
	own := f.regular
	if bold {
		own = f.bold
	}
	if index, err := own.GlyphIndex(b, r); err == nil && index != 0 {
		return own, index, true
	}
	for _, other := range f.others {
		if index, err := other.GlyphIndex(b, r); err == nil && index != 0 {
			return other, index, true
		}
	}
	return nil, 0, false
}

// em returns a font's em in its own units, at which outlines are exact integers.
func em(f *sfnt.Font) fixed.Int26_6 { return fixed.Int26_6(f.UnitsPerEm()) }

// capitals returns the height of a font's capitals, in its units.
func capitals(b *sfnt.Buffer, f *sfnt.Font) float32 {
	m, err := f.Metrics(b, em(f), font.HintingNone)
	if err != nil || m.CapHeight <= 0 {
		return 0.7 * float32(em(f))
	}
	return float32(m.CapHeight)
}
