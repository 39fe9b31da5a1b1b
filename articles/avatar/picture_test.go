package avatar

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash/maphash"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/image/font/gofont/goregular"

	"github.com/hone-go/hone/internal/testrun"
)

// each calls f for pictures of every kind that the Go fonts can draw.
func each(f func(name string, p Picture)) {
	for _, size := range []uint16{16, 17, 31, 64, 127, 128, 255, 512} {
		for _, letters := range []string{"J", "JD", "WWWW", "ÉÅ", "ИЖ", "ΨΩ", "gj"} {
			for _, shape := range []Shape{Square, Round} {
				for _, weight := range []Weight{Regular, Bold} {
					p := Picture{Size: size, Shape: shape, Weight: weight, Background: rgb(0x1e7e7e), Ink: rgb(0xffffff)}
					copy(p.Letters[:], []rune(letters))
					f(fmt.Sprintf("%s %d %d %d", letters, size, shape, weight), p)
				}
			}
		}
		for i, motif := range []Motif{Identicon, Plain, Blank} {
			p := Picture{Size: size, Motif: motif, Background: rgb(0x476ad4), Shape: Shape(i & 1)}
			if motif == Identicon {
				p.Seed, p.Ink = seedOf(0x9e3779b9*uint64(size)), rgb(0xffffff)
			}
			f(fmt.Sprintf("motif %d %d", motif, size), p)
		}
	}
}

// TestGolden holds every byte of every kind of picture to what it has been, on
// every platform. -update writes what is; then raise the version.
func TestGolden(t *testing.T) {
	r := &Renderer{Fonts: onlyGo(t)}
	var got strings.Builder
	fmt.Fprintf(&got, "version %d\n", version)
	each(func(name string, p Picture) {
		for _, p.Format = range []Format{PNG, SVG} {
			if p.Format == SVG && p.Size != 128 {
				continue
			}
			image, err := r.Append(nil, p)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			fmt.Fprintf(&got, "%s %s %d %x\n", name, p.Format.ContentType(), len(image), sha256.Sum256(image))
		}
	})
	const file = "testdata/golden.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Split(strings.ReplaceAll(string(want), "\r", ""), "\n")
	for i, line := range strings.Split(got.String(), "\n") {
		if i >= len(old) || line != old[i] {
			t.Fatalf("line %d of %s: the bytes of a picture have changed:\n%s", i+1, file, line)
		}
	}
}

// TestPNG has package image/png decode everything, and compares what it sees
// with what was asked for.
func TestPNG(t *testing.T) {
	r := &Renderer{Fonts: onlyGo(t)}
	each(func(name string, p Picture) {
		img := decode(t, r, p)
		side := int(p.Size)
		if img.Bounds() != image.Rect(0, 0, side, side) {
			t.Fatalf("%s: %v", name, img.Bounds())
		}
		corner := color.NRGBAModel.Convert(img.At(0, 0)).(color.NRGBA)
		top := color.NRGBAModel.Convert(img.At(side/2, 1)).(color.NRGBA)
		ground := color.NRGBA{p.Background.R, p.Background.G, p.Background.B, 255}
		switch {
		case p.Motif == Blank || p.Shape == Round:
			if corner.A != 0 {
				t.Errorf("%s: the corner is %v", name, corner)
			}
		case corner != ground:
			t.Errorf("%s: the corner is %v", name, corner)
		}
		if p.Motif != Blank && top != ground {
			t.Errorf("%s: the top is %v", name, top)
		}
		ink := 0
		for i := range side * side {
			c := color.NRGBAModel.Convert(img.At(i%side, i/side)).(color.NRGBA)
			if c.A == 255 && c.R > p.Background.R+30 {
				ink++
			}
		}
		if has := p.Motif == Initials || p.Motif == Identicon; has != (ink > 0) || ink > side*side/2 {
			t.Errorf("%s: %d of %d pixels are ink", name, ink, side*side)
		}
	})
}

func decode(t *testing.T, r *Renderer, p Picture) image.Image {
	t.Helper()
	p.Format = PNG
	data, err := r.Append(nil, p)
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestRecolour proves that other colours in an image are the image in other
// colours, byte by byte.
func TestRecolour(t *testing.T) {
	r := &Renderer{Fonts: onlyGo(t)}
	each(func(name string, p Picture) {
		for _, p.Format = range []Format{PNG, SVG} {
			mask, err := r.Append(nil, p.mask())
			if err != nil {
				t.Fatal(err)
			}
			want, err := r.Append([]byte("before"), p)
			if err != nil {
				t.Fatal(err)
			}
			if got := Recolour([]byte("before"), mask, p); !bytes.Equal(got, want) {
				t.Errorf("%s %s: recoloured is not drawn", name, p.Format.ContentType())
			}
		}
	})
}

// TestSVGLooksLikePNG draws the path of the SVG, read back from its text, and
// compares it with the PNG, pixel by pixel.
func TestSVGLooksLikePNG(t *testing.T) {
	r := &Renderer{Fonts: onlyGo(t)}
	each(func(name string, p Picture) {
		if p.Shape != Square || p.Motif > Identicon || p.Size&1 == 1 {
			return
		}
		p.Format, p.Background, p.Ink = SVG, Color{}, Color{255, 255, 255}
		svg, err := r.Append(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		cover := make([]int, int(p.Size)*int(p.Size))
		for tone, percent := range map[string]int{`currentColor" d="`: 100, `currentColor" fill-opacity=".4" d="`: 40} {
			_, path, ok := strings.Cut(string(svg), tone)
			path, _, closed := strings.Cut(path, `"`)
			if !ok && percent == 40 && p.Motif == Initials {
				continue
			}
			if !ok || !closed {
				t.Fatalf("%s: no path in %s", name, svg)
			}
			var z raster
			z.reset(int(p.Size))
			drawPath(t, &z, path, int64(p.Size)*subpixels)
			for i, c := range z.coverage() {
				cover[i] += int(c) * percent / 100
			}
		}
		img := decode(t, r, p)
		far, worst := 0, 0
		for i, c := range cover {
			x, y := i%int(p.Size), i/int(p.Size)
			seen := color.GrayModel.Convert(img.At(x, y)).(color.Gray).Y
			d := int(abs(int64(seen) - int64(c)))
			worst = max(worst, d)
			if d > 40 {
				far++
			}
		}
		if far > len(cover)/200 || worst > 100 {
			t.Errorf("%s: %d of %d pixels differ by more than 40, one by %d", name, far, len(cover), worst)
		}
	})
}

// drawPath is a reader of SVG paths, for those that pathSink writes.
func drawPath(t *testing.T, s sink, path string, side int64) {
	t.Helper()
	pen, op := point{}, byte(0)
	at := func(p point) point { return point{nearest(p.x*side, svgSide), nearest(p.y*side, svgSide)} }
	for path != "" {
		if c := path[0]; c >= 'A' {
			op, path = c, path[1:]
		}
		if op == 'z' {
			continue
		}
		n := map[byte]int{'M': 2, 'l': 2, 'q': 4, 'c': 6, 'h': 1, 'v': 1}[op]
		if n == 0 {
			t.Fatalf("an operation %q", op)
		}
		var v [6]int64
		for i := range n {
			path = strings.TrimPrefix(path, " ")
			end := 1
			for end < len(path) && path[end] >= '0' && path[end] <= '9' {
				end++
			}
			number, err := strconv.ParseInt(path[:end], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			v[i], path = number, path[end:]
		}
		add := func(i int) point { return point{pen.x + v[i], pen.y + v[i+1]} }
		switch op {
		case 'M':
			pen = point{v[0], v[1]}
			s.move(at(pen))
			continue
		case 'h':
			pen.x += v[0]
			s.line(at(pen))
			continue
		case 'v':
			pen.y += v[0]
			s.line(at(pen))
			continue
		case 'l':
			s.line(at(add(0)))
		case 'q':
			s.quad(at(add(0)), at(add(2)))
		case 'c':
			s.cube(at(add(0)), at(add(2)), at(add(4)))
		}
		pen = add(n - 2)
	}
}

// TestPatterns draws patterns of names: each looks the same upside down, and hardly
// any two of them look alike.
func TestPatterns(t *testing.T) {
	fonts := onlyGo(t)
	var pt painter
	const side, pairs = 64, 2000
	draw := func(name string) []uint8 { // shades, from background to ink
		if err := pt.paint(fonts, Picture{Motif: Identicon, Seed: seedOf(hashOf(name)), Size: side}); err != nil {
			t.Fatal(err)
		}
		var pix []uint8
		for line := range slices.Chunk(pt.rows, 1+side/2) {
			for _, two := range line[1:] {
				pix = append(pix, two>>4, two&15)
			}
		}
		for i, shade := range pix {
			if other := pix[len(pix)-1-i]; max(shade, other)-min(shade, other) > 2 {
				t.Fatalf("%s: pixel %d has a shade of %d, and %d on the other side", name, i, shade, other)
			}
		}
		return pix
	}
	numbers := rand.New(rand.NewPCG(*seed, 26))
	alike := 0
	for range pairs {
		one, two := draw(strconv.Itoa(numbers.Int())), draw(strconv.Itoa(numbers.Int()))
		differing := 0
		for i := range one {
			if max(one[i], two[i])-min(one[i], two[i]) > shades/4 {
				differing++
			}
		}
		if differing < side*side*4/100 { // a tenth of the tiles
			alike++
		}
	}
	t.Logf("%d of %d pairs look alike (-seed %d)", alike, pairs, *seed)
	if alike > pairs/100 {
		t.Errorf("%d of %d pairs look alike, want at most 1 %% (-seed %d)", alike, pairs, *seed)
	}
}

// TestAllPatterns counts the different ones among all that there are.
func TestAllPatterns(t *testing.T) {
	if !testrun.All() || testrun.Race {
		t.Skip("draws a million pictures; HONE_TEST_ALL=1 without the race detector runs it")
	}
	fonts, seed := onlyGo(t), maphash.MakeSeed()
	var pt painter
	names := map[uint64]float64{}
	for s := range uint64(1 << seedBits) {
		if err := pt.paint(fonts, Picture{Motif: Identicon, Seed: s, Size: 32}); err != nil {
			t.Fatal(err)
		}
		names[maphash.Bytes(seed, pt.rows)]++
	}
	same := 0.0
	for _, n := range names {
		same += n * n / (1 << (2 * seedBits))
	}
	t.Logf("%d different patterns; two names have the same one in %.1f of a million cases", len(names), same*1e6)
	if len(names) != 763_003 || same > 2.35e-6 {
		t.Errorf("%d different patterns, the same in %.2f of a million cases; README.md says otherwise", len(names), same*1e6)
	}
}

// TestPatternsHaveNoSeams has tiles meet within pixels: in the middle of a picture
// whose side is odd, and where a tile is not a whole number of pixels wide.
func TestPatternsHaveNoSeams(t *testing.T) {
	r := &Renderer{Fonts: onlyGo(t)}
	const squares = 0<<12 | 1<<8 | 1<<4 // at the centre and beside the corners
	for _, size := range []int{16, 17, 31, 80, 127, 255, 511} {
		for _, turned := range []uint64{0, 1 << 19} {
			img := decode(t, r, Picture{Motif: Identicon, Seed: squares | turned, Size: uint16(size), Ink: Color{255, 255, 255}})
			for x := size / 4; x < size-size/4; x++ {
				if got := color.GrayModel.Convert(img.At(x, size/2)).(color.Gray).Y; got != 255 {
					t.Fatalf("%d pixels, turned %v: pixel %d of the line in the middle has a shade of %d", size, turned != 0, x, got)
				}
			}
		}
	}
}

// TestSVGIsSafe looks for what an image in a page must not have. There is nothing
// of the request in it but colours and a size.
func TestSVGIsSafe(t *testing.T) {
	s := &Service{Fonts: onlyGo(t)}
	s.prepare()
	for _, name := range append(sheetNames(), `<script>alert(1)</script>`, `" onload="x`, "&amp;") {
		p := s.grant(wish{name: s.limits.Mend(name), picture: Picture{Size: 64, Format: SVG}})
		image, err := s.store.renderer.Append(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(string(image), "&;()") || strings.Contains(string(image), "script") || strings.Count(string(image), "on") > 0 {
			t.Errorf("%q: %s", name, image)
		}
	}
}

// TestNoAllocations is what Append, Recolour and the lookup promise.
func TestNoAllocations(t *testing.T) {
	if testrun.Race {
		t.Skip("the race detector makes pools drop what they hold")
	}
	s := newService(t, Limits{})
	s.prepare()
	p := s.grant(wish{name: "John Doe", picture: Picture{Size: 128, Shape: Round}})
	room := make([]byte, 0, 64<<10)
	mask, err := s.store.renderer.Append(nil, p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.store.draw(p); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(){
		"draw":     func() { s.store.renderer.Append(room, p) },
		"recolour": func() { Recolour(room, mask, p) },
		"lookup":   func() { s.store.find(p) },
		"name":     func() { s.limits.Clean("John Doe") },
		"picture":  func() { s.grant(wish{name: "Иван Петров", picture: p}) },
		"tag":      func() { p.appendTag(room, 1) },
	} {
		if n := testing.AllocsPerRun(200, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
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

// TestHan is a name in Han characters with a font for them and without.
func TestHan(t *testing.T) {
	without := &Service{Fonts: onlyGo(t)}
	without.prepare()
	a := without.grant(wish{name: "张三", picture: Picture{Size: 64}})
	b := without.grant(wish{name: "张三", picture: Picture{Size: 64}})
	if a.Motif != Identicon || a != b {
		t.Errorf("without a font: %+v and %+v, want an identicon, the same twice", a, b)
	}
	fonts := withHan(t)
	if fonts == nil || fonts.Han() == "" {
		return
	}
	with := &Service{Fonts: fonts}
	with.prepare()
	p := with.grant(wish{name: "欧阳修", picture: Picture{Size: 64}})
	if p.Motif != Initials || p.Letters.String() != "欧阳" {
		t.Errorf("with %s: %+v", fonts.Han(), p)
	}
	decode(t, with.store.renderer, p)
	if fonts.fingerprint == without.Fonts.fingerprint {
		t.Error("other fonts, and the same tags")
	}
}

// TestFontErrors is what somebody hears who names a wrong file.
func TestFontErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	text := write("text.ttf", []byte("no font"))
	large := write("large.ttf", goregular.TTF)
	if err := os.Truncate(large, mostFont+1); err != nil {
		t.Fatal(err)
	}
	wrong := map[string]string{
		filepath.Join(dir, "none.ttf"):         "there is no such file",
		dir:                                    "",
		text:                                   "use a TrueType or OpenType file",
		large:                                  "has more than 64 MiB; use a smaller font",
		write("cut.ttf", goregular.TTF[:1000]): "use a TrueType or OpenType file",
		write("empty.ttf", nil):                "use a TrueType or OpenType file",
		write("web.woff", []byte("wOFF\x00\x01\x00\x00")):  "is a compressed web font (WOFF); use",
		write("web.woff2", []byte("wOF2\x00\x01\x00\x00")): "is a compressed web font (WOFF); use",
		write("colour.ttf", colouredFont(t)):               "has coloured bitmaps instead of outlines",
	}
	if runtime.GOOS == "linux" {
		wrong["/dev/zero"] = "has more than 64 MiB"
	}
	for file, want := range wrong {
		_, err := OpenFonts(FontOptions{Files: []string{file}, Places: []string{}})
		if err == nil {
			t.Errorf("%s is taken for a font", file)
			continue
		}
		said := err.Error()
		if !strings.HasPrefix(said, "avatar: font "+file) || !strings.Contains(said, want) || !strings.Contains(said, "; ") {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
	many := slices.Repeat([]string{write("go.ttf", goregular.TTF)}, mostFonts+1)
	const tooMany = "avatar: 17 fonts, and at most 16 are read; leave some out"
	if _, err := OpenFonts(FontOptions{Files: many, Places: []string{}}); fmt.Sprint(err) != tooMany {
		t.Errorf("17 fonts: %v", err)
	}
	if _, err := OpenFonts(FontOptions{Files: many[1:], Places: []string{}}); err != nil {
		t.Errorf("16 fonts: %v", err)
	}
	if f, err := OpenFonts(FontOptions{Places: []string{text}}); err != nil || f.Han() != "" {
		t.Errorf("a broken file in a usual place: %v", err)
	}
}

// colouredFont is a font that has a table of coloured bitmaps and none of
// outlines, made of one that has.
func colouredFont(t *testing.T) []byte {
	const head, record = 12, 16
	data := bytes.Clone(goregular.TTF)
	tables := data[head:][:record*int(data[5])]
	at := bytes.Index(tables, []byte("fpgm"))
	outlines := bytes.Index(tables, []byte("loca"))
	if at < 0 || at%record != 0 || outlines < 0 {
		t.Fatal("the Go font has other tables than it had")
	}
	copy(tables[outlines:], "locb") // which nobody knows
	bitmaps := bytes.Clone(tables[at:][:record])
	copy(bitmaps, "CBLC")
	copy(tables[record:], tables[:at]) // tables are sorted by their names
	copy(tables, bitmaps)
	return data
}
