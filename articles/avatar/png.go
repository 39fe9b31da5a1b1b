package avatar

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/klauspost/compress/zlib"
	"golang.org/x/image/font/sfnt"
)

// A picture of two colours consists of mixtures of them: 16 shades fit into four bits, and only
// the palette contains colours. So the pixels of a PNG belong to its mask, and other colours are
// 48 other bytes at a known offset.
//
// A square picture has shades 0 to 15. A round one has, in addition to transparency, four steps
// for its edge, and 11 shades: its text does not reach the edge.
const (
	shades    = 16
	edgeSteps = 5 // the first of them transparent, the next after them opaque

	paletteAt  = 8 + 25               // after the signature and IHDR
	paletteLen = 4 + 4 + 3*shades + 4 // length, type, colours, checksum
)

const pngSignature = "\x89PNG\r\n\x1a\n"

// painter holds the reusable buffers for drawing. One painter draws one picture at a time.
type painter struct {
	raster raster
	glyphs sfnt.Buffer
	rows   []byte // scan lines in PNG's format: a filter byte, then four bits a pixel
	path   pathSink
	packed []byte
	zip    *zlib.Writer
	image  []byte
	pause  func() // called between two parts of the work; may be nil
}

func (pt *painter) mayPause() {
	if pt.pause != nil {
		pt.pause()
	}
}

// Large pictures are made in parts of this many scan lines, and of this many bytes of them.
const (
	pauseRows  = 128
	pauseBytes = 32 << 10
)

// Write collects the compressor's output.
func (pt *painter) Write(b []byte) (int, error) {
	pt.packed = append(pt.packed, b...)
	return len(b), nil
}

// appendPNG appends p as PNG, in the colours of p.
func (pt *painter) appendPNG(dst []byte, f *Fonts, p Picture) ([]byte, error) {
	if err := pt.paint(f, p); err != nil {
		return dst, err
	}
	if err := pt.pack(); err != nil {
		return dst, err
	}
	dst = append(dst, pngSignature...)
	var head [13]byte
	binary.BigEndian.PutUint32(head[0:], uint32(p.Size))
	binary.BigEndian.PutUint32(head[4:], uint32(p.Size))
	head[8], head[9] = 4, 3 // bits, palette
	dst = appendChunk(dst, "IHDR", head[:])
	dst = appendPalette(dst, p)
	switch {
	case p.Motif == Blank:
		dst = appendChunk(dst, "tRNS", []byte{0})
	case p.Shape == Round:
		dst = appendChunk(dst, "tRNS", []byte{0, 51, 102, 153, 204})
	}
	dst = appendChunk(dst, "IDAT", pt.packed)
	return appendChunk(dst, "IEND", nil), nil
}

// appendChunk appends a chunk with its checksum.
func appendChunk(dst []byte, name string, data []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(data)))
	from := len(dst)
	dst = append(append(dst, name...), data...)
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[from:]))
}

// appendPalette appends the palette chunk with p's colours.
func appendPalette(dst []byte, p Picture) []byte {
	var colors [3 * shades]byte
	for i := range shades {
		share, of := i, shades-1
		if p.Shape == Round {
			share, of = max(i-edgeSteps, 0), shades-1-edgeSteps
		}
		c := p.Background.mix(p.Ink, share, of)
		colors[3*i], colors[3*i+1], colors[3*i+2] = c.R, c.G, c.B
	}
	return appendChunk(dst, "PLTE", colors[:])
}

// recolourPNG appends a PNG, drawn for p's mask, in the colours of p.
func recolourPNG(dst, mask []byte, p Picture) []byte {
	dst = append(dst, mask[:paletteAt]...)
	dst = appendPalette(dst, p)
	return append(dst, mask[paletteAt+paletteLen:]...)
}

// paint fills the scan lines.
func (pt *painter) paint(f *Fonts, p Picture) error {
	side := int(p.Size)
	stride := 1 + (side+1)/2
	if cap(pt.rows) < side*stride {
		pt.rows = make([]byte, side*stride)
	}
	pt.rows = pt.rows[:side*stride]
	ground := uint8(0)
	if p.Shape == Round && p.Motif != Blank {
		ground = edgeSteps
	}
	pt.ground(stride, ground)
	switch p.Motif {
	case Initials:
		pt.raster.reset(side)
		pt.mayPause()
		l := layout{fonts: f, buf: &pt.glyphs, side: int64(side) * subpixels, grain: 1}
		if err := l.letters(p, &pt.raster); err != nil {
			return err
		}
		pt.shade(side, stride, ground, 100)
	case Identicon:
		for _, percent := range [...]int{100, softPercent} {
			pt.raster.reset(side)
			pattern(p.Seed, percent == softPercent, int64(side)*subpixels, &pt.raster)
			pt.shade(side, stride, ground, percent)
		}
	}
	if ground != 0 {
		pt.edge(side, stride)
	}
	return nil
}

// ground fills every scan line with one shade, filter 0.
func (pt *painter) ground(stride int, shade uint8) {
	clear(pt.rows[:stride])
	for i := 1; i < stride; i++ {
		pt.rows[i] = shade<<4 | shade
	}
	for done := stride; done < len(pt.rows); done *= 2 {
		copy(pt.rows[done:], pt.rows[:done])
	}
}

// shade adds coverage to the ground, in shades, scaled by percent. Areas that are added must not
// overlap.
func (pt *painter) shade(side, stride int, ground uint8, percent int) {
	pt.mayPause()
	cover := pt.raster.coverage()
	var shadeOf [256]uint8
	for c := range shadeOf {
		shadeOf[c] = uint8((c*int(shades-1-ground)*percent/100 + 127) / 255)
	}
	pt.mayPause()
	for y := range side {
		if y%pauseRows == pauseRows-1 {
			pt.mayPause()
		}
		line, row := cover[y*side:][:side], pt.rows[y*stride+1:][:stride-1]
		for x := 0; x+1 < side; x += 2 {
			if line[x]|line[x+1] != 0 {
				row[x/2] += shadeOf[line[x]]<<4 | shadeOf[line[x+1]]
			}
		}
		if side&1 == 1 {
			row[side/2] += shadeOf[line[side-1]] << 4
		}
	}
}

func (pt *painter) set(stride, x, y int, shade uint8) {
	b := &pt.rows[y*stride+1+x/2]
	if x&1 == 0 {
		*b = *b&0x0f | shade<<4
	} else {
		*b = *b&0xf0 | shade
	}
}

// edge cuts out the circle: each pixel that is not completely inside gets its step.
func (pt *painter) edge(side, stride int) {
	for y := range (side + 1) / 2 {
		line := discLine(side, y)
		for x := 0; x < line.end; x++ {
			step := line.step(x)
			pt.set(stride, x, y, step)
			pt.set(stride, side-1-x, y, step)
			pt.set(stride, x, side-1-y, step)
			pt.set(stride, side-1-x, side-1-y, step)
		}
	}
}

// discParts is how many parts a pixel has along an axis, for the edge of a circle.
const discParts = 8

// arc is where a circle begins in each of the sub-lines of a line of pixels: in parts from the
// left; it ends symmetrically on the right.
type arc struct {
	from [discParts]int
	end  int // from this pixel to its mirror image all pixels are inside
}

func discLine(side, y int) arc {
	var a arc
	radius := discParts * side // in half parts
	for sub := range a.from {
		dy := 2*(y*discParts+sub) + 1 - radius
		a.from[sub] = (radius - root(radius*radius-dy*dy)) / 2
		a.end = max(a.end, min((a.from[sub]+discParts-1)/discParts, (side+1)/2))
	}
	return a
}

// step returns how much of a pixel of the left half is inside.
func (a arc) step(x int) uint8 {
	inside := 0
	for _, from := range a.from {
		inside += min(max((x+1)*discParts-from, 0), discParts)
	}
	return uint8((inside*edgeSteps + discParts*discParts/2) / (discParts * discParts))
}

// root returns the largest integer whose square is at most v.
func root(v int) int {
	if v <= 0 {
		return 0
	}
	r := 1 << 14 // more than any side of a picture in half parts
	for {
		next := (r + v/r) / 2
		if next >= r {
			return r
		}
		r = next
	}
}

// pack compresses the scan lines.
func (pt *painter) pack() error {
	pt.packed = pt.packed[:0]
	if pt.zip == nil {
		zip, err := zlib.NewWriterLevel(pt, zlib.BestSpeed)
		if err != nil {
			return err
		}
		pt.zip = zip
	} else {
		pt.zip.Reset(pt)
	}
	for part := range slices.Chunk(pt.rows, pauseBytes) {
		if _, err := pt.zip.Write(part); err != nil {
			return err
		}
		pt.mayPause()
	}
	return pt.zip.Close()
}
