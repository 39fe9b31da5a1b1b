package avatar

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	stdimage "image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/image/vector"
)

// each calls f for pictures of every kind that the Go fonts can draw.
func each(f func(name string, p Picture)) {
	for _, size := range []uint16{16, 17, 31, 64, 127, 128, 512} {
		for _, letters := range []string{"", "J", "JD", "WWWW", "ÉÅ", "ИЖ", "ΨΩ", "gj"} {
			for _, shape := range []Shape{Square, Round, Blank} {
				p := Picture{Size: size, Scale: 50, Shape: shape, Bold: size == 64, Background: rgb(0x1e7e7e), Ink: white}
				if shape != Blank {
					copy(p.Letters[:], []rune(letters))
				}
				f(fmt.Sprintf("%q, %d pixels, shape %d", letters, size, shape), p)
			}
		}
	}
}

func drawn(t *testing.T, fonts *Fonts, p Picture) []byte {
	t.Helper()
	made, err := new(painter).draw(fonts, p)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func decode(t *testing.T, fonts *Fonts, p Picture) stdimage.Image {
	t.Helper()
	p.Format = PNG
	img, err := png.Decode(bytes.NewReader(drawn(t, fonts, p)))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestGolden holds the bytes of all pictures to what they have been, so that equal tags are equal
// bytes.
func TestGolden(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("other arithmetic, and other tags")
	}
	fonts, sum := onlyGo(t), sha256.New()
	each(func(_ string, p Picture) {
		for _, p.Format = range []Format{PNG, SVG} {
			sum.Write(drawn(t, fonts, p))
		}
	})
	const want = "5 56918b4603a9d071"
	if got := fmt.Sprintf("%d %x", version, sum.Sum(nil)[:8]); got != want {
		t.Errorf("the bytes of pictures were %s, and are %s now: raise the version, and write them here", want, got)
	}
}

// TestPNG has package image/png decode everything, and compares what it sees with what was asked
// for.
func TestPNG(t *testing.T) {
	fonts := onlyGo(t)
	each(func(name string, p Picture) {
		img, side := decode(t, fonts, p), int(p.Size)
		if img.Bounds() != stdimage.Rect(0, 0, side, side) {
			t.Fatalf("%s: %v", name, img.Bounds())
		}
		at := func(x, y int) color.NRGBA { return color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA) }
		ground := color.NRGBA{p.Background.R, p.Background.G, p.Background.B, 255}
		if corner := at(0, 0); p.Shape == Square && corner != ground || p.Shape != Square && corner.A != 0 {
			t.Errorf("%s: the corner is %v", name, corner)
		}
		if top := at(side/2, 1); p.Shape != Blank && top != ground {
			t.Errorf("%s: the top is %v", name, top)
		}
		ink := 0
		for i := range side * side {
			if c := at(i%side, i/side); c.A == 255 && c.R > p.Background.R+30 {
				ink++
			}
		}
		if has := p.Letters[0] != 0; has != (ink > 0) || ink > side*side/2 {
			t.Errorf("%s: %d of %d pixels are ink", name, ink, side*side)
		}
	})
}

// TestSVGLooksLikePNG draws the letters of the SVG, read back from its text, and compares them with
// the PNG, pixel by pixel.
func TestSVGLooksLikePNG(t *testing.T) {
	fonts := onlyGo(t)
	each(func(name string, p Picture) {
		if p.Shape != Square || p.Letters[0] == 0 {
			return
		}
		p.Format, p.Background, p.Ink = SVG, Color{}, white
		_, path, ok := strings.Cut(string(drawn(t, fonts, p)), `fill="#ffffff" d="`)
		path, _, closed := strings.Cut(path, `"`)
		if !ok || !closed {
			t.Fatalf("%s: no path", name)
		}
		var pt painter
		side := int(p.Size)
		pt.resize(side)
		pt.raster.Reset(side, side)
		follow(t, &pt.raster, path, float32(side)/svgSide)
		img, far := decode(t, fonts, p), 0
		for i, c := range pt.coverage() {
			seen := color.GrayModel.Convert(img.At(i%side, i/side)).(color.Gray).Y
			if max(seen, c)-min(seen, c) > 40 {
				far++
			}
		}
		if far > side*side/200 {
			t.Errorf("%s: %d of %d pixels differ by more than 40", name, far, side*side)
		}
	})
}

// follow draws the path of an SVG.
func follow(t *testing.T, z *vector.Rasterizer, path string, scale float32) {
	t.Helper()
	for _, op := range regexp.MustCompile(`[MLQCz][-0-9 ]*`).FindAllString(path, -1) {
		var v []float32
		for _, text := range strings.Fields(op[1:]) {
			number, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			v = append(v, float32(number)*scale)
		}
		switch op[0] {
		case 'M':
			z.MoveTo(v[0], v[1])
		case 'L':
			z.LineTo(v[0], v[1])
		case 'Q':
			z.QuadTo(v[0], v[1], v[2], v[3])
		case 'C':
			z.CubeTo(v[0], v[1], v[2], v[3], v[4], v[5])
		default:
			z.ClosePath()
		}
	}
}

// TestFit takes marks off where that helps, and knows what cannot be drawn.
func TestFit(t *testing.T) {
	f := onlyGo(t)
	if got := withoutMarks('김'); got != '김' { // where a font has the parts, too
		t.Errorf("a syllable becomes %c", got)
	}
	for letters, want := range map[string]string{"AÉ": "AÉ", "Ḉ": "C", "AẾ": "AE", "ИЁ": "ИЁ", "张": "", "A🎉": "", "": "", "+": "+", "김": ""} {
		var l Letters
		copy(l[:], []rune(letters))
		got, ok := f.Fit(l)
		if got.String() != want || ok != (want != "") {
			t.Errorf("%q: %q %v, want %q", letters, got.String(), ok, want)
		}
	}
}

// TestAddedFonts draws letters of scripts that the Go fonts lack, with fonts that many machines have.
// Those of scripts without capitals stand in the middle, and those of Arabic apart.
func TestAddedFonts(t *testing.T) {
	added := []string{"/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", "/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf"}
	for _, file := range added {
		if _, err := os.Stat(file); err != nil {
			t.Skipf("no %s: run make deps", file)
		}
	}
	fonts, err := OpenFonts(added...)
	if err != nil || fonts.fingerprint == onlyGo(t).fingerprint {
		t.Fatal(err)
	}
	if usual, err := OpenFonts(); err != nil || len(usual.others) != 1 || !hasGlyphs(usual.others[0], hanSamples) {
		t.Errorf("%s is installed, and not found: %v", added[1], err)
	}
	s := &Service{Fonts: fonts}
	for _, name := range []string{"ნინო", "გიორგი ლევან", "נועה", "דוד קים", "ليلى", "عمر يوسف", "مريم نور", "خالد ليلى", "欧阳小明", "さくら"} {
		const side = 128
		p := s.named(Picture{Size: side, Scale: 50, Ink: white}, name, Rules{})
		if p.Letters[0] == 0 {
			t.Errorf("%s has no initials", name)
			continue
		}
		p.Background = Color{}
		img := decode(t, fonts, p)
		top, bottom := side, 0
		var columns [side]bool
		for i := range side * side {
			x, y := i%side, i/side
			if color.GrayModel.Convert(img.At(x, y)).(color.Gray).Y > 127 {
				top, bottom, columns[x] = min(top, y), max(bottom, y), true
			}
		}
		if off := top + bottom - (side - 1); max(off, -off) > 6 {
			t.Errorf("%s: the letters go from line %d to %d of %d", name, top, bottom, side)
		}
		gap, most := 0, 0
		for x := side / 4; x < side-side/4; x++ {
			gap++
			if columns[x] {
				gap = 0
			}
			most = max(most, gap)
		}
		if unicode.Is(unicode.Arabic, p.Letters[0]) && p.Letters.len() == 2 && most < 10 {
			t.Errorf("%s: the letters %s are %d pixels apart", name, p.Letters, most)
		}
	}
}

// TestFontErrors is what somebody hears who names a wrong file.
func TestFontErrors(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.ttf")
	if err := os.WriteFile(text, []byte("no font"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{text, filepath.Dir(text), "none.ttf"} {
		_, err := OpenFonts(file)
		if said := fmt.Sprint(err); !strings.HasPrefix(said, "avatar: font "+file+": ") {
			t.Errorf("%s: %s", file, said)
		}
	}
}
