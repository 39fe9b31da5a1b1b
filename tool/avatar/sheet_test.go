package avatar

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"testing"
)

// sheetNames are names of every kind that the service meets.
func sheetNames() []string {
	return []string{
		"Ada Lovelace", "Florian", "William Wright", "Jill Iljin", "john doe", "Émile Ångström", "Störfried Würgekloß",
		"Frank Walter Östernbach", "Ỳ Đỗ", "Zoë Ḉ", "Иван Петров", "Щука Жёлтый", "Αλέξης Ζορμπάς", "Ψ Ω",
		"张三", "欧阳修", "陳方", "田中 太郎", "김철수", "🎉 party", "👩‍🚀", "שרה לוי", "محمد علي", "राम", "joe@example.com",
		"O'Brien Q", "4 You", "+",
	}
}

// TestSheet draws every kind of name in several ways and, with -sheet, puts
// them beside each other for somebody to look at.
func TestSheet(t *testing.T) {
	fonts := onlyGo(t)
	if *sheet != "" {
		fonts = withHan(t)
	}
	s := &Service{Fonts: fonts}
	s.prepare()
	r := &Renderer{Fonts: fonts}
	sizes := []int{16, 24, 32, 48, 64, 96, 128}
	const cell, columns = 132, 14
	names := sheetNames()
	rows := (len(names)+columns-1)/columns*2 + 4
	page := image.NewRGBA(image.Rect(0, 0, columns*cell, rows*cell))
	draw.Draw(page, page.Bounds(), image.NewUniform(color.RGBA{230, 230, 240, 255}), image.Point{}, draw.Src)
	put := func(column, row int, p Picture) {
		data, err := r.Append(nil, p)
		if err != nil {
			t.Fatalf("%+v: %v", p, err)
		}
		img, err := png.Decode(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%+v: %v", p, err)
		}
		if got := img.Bounds().Dx(); got != int(p.Size) {
			t.Fatalf("%d pixels wide, want %d", got, p.Size)
		}
		draw.Draw(page, img.Bounds().Add(image.Pt(column*cell+2, row*cell+2)), img, image.Point{}, draw.Over)
	}
	for i, name := range names {
		for j, shape := range []Shape{Square, Round} {
			p := s.grant(wish{name: s.limits.Mend(name), picture: Picture{Size: 128, Shape: shape, Weight: Weight(j) * Bold}})
			put(i%columns, i/columns*2+j, p)
		}
	}
	at := (len(names) + columns - 1) / columns * 2
	for i, size := range sizes {
		for j, name := range []string{"Ada Lovelace", "Florian"} {
			put(i+j*len(sizes), at, s.grant(wish{name: name, picture: Picture{Size: uint16(size)}}))
			put(i+j*len(sizes), at+1, s.grant(wish{name: name, picture: Picture{Size: uint16(size), Shape: Round}}))
		}
	}
	for i, name := range []string{"🎉 a", "🎉 b", "🎉 c", "🎉 d"} {
		p := Picture{Motif: Identicon, Size: 128, Shape: Shape(i % 2)}
		put(i, at+2, s.grant(wish{name: name, picture: p}))
	}
	for i, w := range []Weight{Regular, Medium, Bold} {
		put(5+i, at+2, s.grant(wish{name: "Robert Gray", picture: Picture{Size: 128, Weight: w}}))
	}
	for i, scale := range []uint8{10, 30, 70, 100} {
		put(9+i, at+2, s.grant(wish{name: "Robert Gray", picture: Picture{Size: 128, Scale: scale, Shape: Round}}))
	}
	for i, bg := range []uint32{0xffffff, 0xf0e9e9, 0, 0xffff00, 0x00ff00, 0x0000ff, 0x808080} {
		put(i, at+3, s.grant(wish{name: "Robert Gray", background: true, picture: Picture{Size: 127, Background: rgb(bg), Shape: Shape(i % 2)}}))
	}
	if *sheet == "" {
		return
	}
	var b bytes.Buffer
	if err := png.Encode(&b, page); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*sheet, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
