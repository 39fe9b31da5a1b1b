package avatar

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// Limits of the fonts, which stay in memory.
const (
	mostFonts = 16       // files
	mostFont  = 64 << 20 // bytes of one
)

// hanSamples are traditional and simplified characters: a font that has all of them is suitable
// for Chinese names. Korean and Japanese fonts have only some.
const hanSamples = "陳陈晓"

// FontOptions choose the fonts to load.
type FontOptions struct {
	// Files are TrueType or OpenType files, or collections, that are searched in this order after
	// the Go fonts: 16 at most, each up to 64 MiB. Zero: none.
	Files []string
	// Places are paths of fonts with Han characters. The first that exists and can be read is
	// searched last, unless one of Files has the characters for Chinese names. Zero: the usual
	// places of this system; one path that does not exist: no such font.
	Places []string
}

// Fonts are loaded fonts. They are safe for concurrent use.
type Fonts struct {
	regular     *sfnt.Font // the Go fonts
	bold        *sfnt.Font
	others      []*sfnt.Font
	han         string // the file that has Han characters; "": none
	fingerprint uint64 // hash of all fonts, and of the machine's arithmetic
	buffers     pool.Objects[sfnt.Buffer]
}

// OpenFonts loads fonts. The Go fonts are part of the program: Latin, Greek and Cyrillic are
// always available, and look the same everywhere.
func OpenFonts(o FontOptions) (*Fonts, error) {
	f := new(Fonts)
	sum := sha256.New()
	sum.Write([]byte(runtime.GOARCH)) // outlines are calculated with floating point
	for into, data := range map[**sfnt.Font][]byte{&f.regular: goregular.TTF, &f.bold: gobold.TTF} {
		parsed, err := sfnt.Parse(data)
		if err != nil {
			return nil, fmt.Errorf("avatar: the Go fonts: %w; build again with another version of golang.org/x/image", err)
		}
		*into = parsed
	}
	add := func(file string) error {
		data, parsed, err := readFont(file)
		if err != nil {
			return err
		}
		f.others = append(f.others, parsed)
		sum.Write(data)
		if f.han == "" && hasGlyphs(parsed, hanSamples) {
			f.han = file
		}
		return nil
	}
	if len(o.Files) > mostFonts {
		return nil, fmt.Errorf("avatar: %d fonts, and at most %d are read; leave some out", len(o.Files), mostFonts)
	}
	for _, file := range o.Files {
		if err := add(file); err != nil {
			return nil, err
		}
	}
	places := o.Places
	if places == nil {
		places = usualPlaces()
	}
	for _, file := range places {
		if f.han != "" {
			break
		}
		if _, err := os.Stat(file); err == nil {
			add(file) // a font that cannot be read counts as missing; Han tells the caller
		}
	}
	f.fingerprint = binary.BigEndian.Uint64(sum.Sum(nil))
	return f, nil
}

// Han returns the file with the Han characters, or "": then names in Han characters have no
// initials. HanAdvice says what to do about it.
func (f *Fonts) Han() string { return f.han }

// HanAdvice returns how to install a font with Han characters on this system.
func HanAdvice() string {
	switch runtime.GOOS {
	case "linux":
		return "install the package fonts-droid-fallback (Debian, Ubuntu) or fonts-wqy-microhei, or name a font with --font FILE"
	case "windows":
		return `install the Chinese supplemental fonts, or name a font with --font FILE`
	}
	return "name a font with --font FILE"
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
	data, err := readBounded(file)
	if err != nil {
		return nil, nil, err
	}
	if len(data) >= 4 && (string(data[:4]) == "wOFF" || string(data[:4]) == "wOF2") {
		return nil, nil, fmt.Errorf("avatar: font %s is a compressed web font (WOFF); use the TrueType or OpenType file that it was made from", file)
	}
	all, err := sfnt.ParseCollection(data)
	if err != nil {
		return nil, nil, fmt.Errorf("avatar: font %s: %w; use a TrueType or OpenType file", file, err)
	}
	var chosen *sfnt.Font
	for i := range all.NumFonts() {
		var one *sfnt.Font
		if one, err = all.Font(i); err == nil && (chosen == nil || !hasGlyphs(chosen, hanSamples) && hasGlyphs(one, hanSamples)) {
			chosen = one
		}
	}
	if chosen == nil {
		return nil, nil, fmt.Errorf("avatar: font %s: %w; use a TrueType or OpenType file", file, err)
	}
	if _, err := chosen.LoadGlyph(nil, 0, em(chosen), nil); errors.Is(err, sfnt.ErrColoredGlyph) {
		return nil, nil, fmt.Errorf("avatar: font %s has coloured bitmaps instead of outlines (%w); use another font", file, err)
	}
	return data, chosen, nil
}

// readBounded reads a file that may be too large, or endless.
func readBounded(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		err = errors.Unwrap(err) // without the path, which the message names
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("avatar: font %s: there is no such file (%w); check the path", file, err)
		}
		return nil, fmt.Errorf("avatar: font %s: %w; check who may read the file", file, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostFont+1))
	if err != nil {
		return nil, fmt.Errorf("avatar: font %s: %w; use a TrueType or OpenType file", file, err)
	}
	if len(data) > mostFont {
		return nil, fmt.Errorf("avatar: font %s has more than %d MiB; use a smaller font", file, mostFont>>20)
	}
	return data, nil
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
