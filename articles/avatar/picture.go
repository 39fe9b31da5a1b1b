package avatar

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// Shape is the outline of a picture.
type Shape uint8

// The shapes. The outside of a round picture is transparent.
const (
	Square Shape = iota
	Round
)

// Weight is the weight of letters. Fonts other than the Go fonts have one weight.
type Weight uint8

// The weights.
const (
	Regular Weight = iota
	Medium
	Bold
)

// Format is the file format of a picture.
type Format uint8

// The formats.
const (
	PNG Format = iota
	SVG
)

// ContentType returns the format's media type.
func (f Format) ContentType() string {
	if f == SVG {
		return "image/svg+xml"
	}
	return "image/png"
}

// Motif is what is drawn.
type Motif uint8

// The motifs.
const (
	Initials  Motif = iota // Letters
	Identicon              // a pattern determined by Seed
	Plain                  // only the background
	Blank                  // nothing: transparent
)

// A Picture is everything that determines the bytes of an image, for a set of fonts. Equal
// pictures have equal bytes on every machine.
type Picture struct {
	Letters    Letters
	Seed       uint64 // of an identicon, 20 bits; else 0
	Background Color
	Ink        Color
	Size       uint16 // in pixels, 16 to 512
	Scale      uint8  // the letters' em in percent of Size; 0: 50
	Motif      Motif
	Shape      Shape
	Weight     Weight
	Format     Format
}

// mask returns p without its colours: pictures with the same mask differ in only a few bytes,
// which recolour replaces.
func (p Picture) mask() Picture {
	p.Background, p.Ink = Color{}, Color{}
	return p
}

// version is part of every ETag. Increment it when the bytes of a Picture change.
const version = 3

// appendTag appends the strong ETag of p, in quotes, for fonts with this fingerprint. It costs one
// SHA-256 and no allocation, and needs no drawing.
func (p Picture) appendTag(dst []byte, fonts uint64) []byte {
	var k [64]byte
	b := append(k[:0], version)
	b = binary.BigEndian.AppendUint64(b, fonts)
	b = binary.BigEndian.AppendUint64(b, p.Seed)
	for _, r := range p.Letters {
		b = binary.BigEndian.AppendUint32(b, uint32(r))
	}
	b = binary.BigEndian.AppendUint16(b, p.Size)
	b = append(b, p.Background.R, p.Background.G, p.Background.B, p.Ink.R, p.Ink.G, p.Ink.B,
		p.Scale, byte(p.Motif), byte(p.Shape), byte(p.Weight), byte(p.Format))
	sum := sha256.Sum256(b)
	dst = append(dst, '"')
	dst = base64.RawURLEncoding.AppendEncode(dst, sum[:12])
	return append(dst, '"')
}
