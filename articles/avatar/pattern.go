package avatar

// A pattern (identicon) represents a name whose letters no font has. It is four by four tiles in
// the middle of the picture: a quarter of two by two tiles, repeated three times, mirrored or
// rotated. So the whole is symmetrical.
const (
	patternSide   = 1024 // of the picture, in the units of tiles
	tileSide      = 160
	patternMargin = (patternSide - 4*tileSide) / 2
	arcHandle     = 88 // control point of a quarter circle across a tile, measured from its ends

	softPercent = 40 // the share of ink in the lighter of two tones; a whole step of every palette
)

// A tile is a form, and how often it is rotated by 90 degrees.
type tile struct{ form, turns uint8 }

// The forms of tiles.
const (
	emptyTile uint8 = iota
	squareTile
	discTile
	diamondTile
	triangleTile // half of the square, at the top left
	quarterTile  // a quarter disc around the top left
	leafTile     // pointed at the top left and bottom right
	hollowTile   // a square without the quarter disc around its bottom right
)

// tiles are the tiles that four bits choose from: for the corner of the picture, next to it in
// both directions, and at the centre.
var tiles = [3][16]tile{
	{
		{emptyTile, 0}, {emptyTile, 0}, {emptyTile, 0}, {discTile, 0}, {diamondTile, 0}, {triangleTile, 0}, {triangleTile, 2},
		{triangleTile, 1}, {triangleTile, 3}, {quarterTile, 2}, {quarterTile, 2}, {quarterTile, 1}, {quarterTile, 3}, {leafTile, 0}, {leafTile, 1}, {hollowTile, 2},
	}, {
		{emptyTile, 0}, {squareTile, 0}, {discTile, 0}, {diamondTile, 0}, {triangleTile, 0}, {triangleTile, 1}, {triangleTile, 2}, {triangleTile, 3},
		{quarterTile, 0}, {quarterTile, 1}, {quarterTile, 2}, {quarterTile, 3}, {leafTile, 0}, {leafTile, 1}, {hollowTile, 0}, {hollowTile, 2},
	}, {
		{squareTile, 0}, {discTile, 0}, {diamondTile, 0}, {triangleTile, 0}, {triangleTile, 1}, {triangleTile, 2}, {triangleTile, 3}, {quarterTile, 0},
		{quarterTile, 1}, {quarterTile, 2}, {quarterTile, 3}, {leafTile, 0}, {leafTile, 1}, {hollowTile, 0}, {hollowTile, 1}, {hollowTile, 2},
	},
}

// seedBits is how many bits a pattern shows: four for each of four tiles, one each for the tone of
// three of them, and one for how the quarter is repeated. The tile at the centre is never empty
// and always in full ink.
const seedBits = 20

// seedOf returns the bits of a hash that a pattern shows.
func seedOf(hash uint64) uint64 { return hash & (1<<seedBits - 1) }

// pattern sends the tiles of one tone to s, for a picture whose side has that many of s's units.
func pattern(seed uint64, soft bool, side int64, s sink) {
	tones, turned := seed>>16&7, seed>>19 == 1
	for i := range 4 {
		if (tones>>i&1 == 1) != soft {
			continue
		}
		chosen := tiles[(i+1)/2][seed>>(4*i)&15]
		for quarter := range 4 {
			mirrored := !turned && quarter%2 == 1
			place := func(x, y int64) point {
				if mirrored { // forms stay the same, and all outlines keep their winding direction
					x, y = y, x
				}
				for range chosen.turns { // within the tile
					x, y = tileSide-y, x
				}
				x, y = x+int64(i%2-2)*tileSide, y+int64(i/2-2)*tileSide // from the middle of the picture
				switch {
				case mirrored && quarter == 1:
					x = -x
				case mirrored:
					y = -y
				case turned && quarter%2 == 1:
					x, y = -y, x
				}
				if quarter >= 2 && !mirrored {
					x, y = -x, -y
				}
				return point{nearest((x+patternSide/2)*side, patternSide), nearest((y+patternSide/2)*side, patternSide)}
			}
			chosen.draw(s, place)
		}
	}
}

// draw sends the outline of a tile whose top left is 0, 0 and whose side is tileSide.
func (t tile) draw(s sink, place func(x, y int64) point) {
	const full, half, handle, rest = tileSide, tileSide / 2, arcHandle, tileSide - arcHandle
	polygon := func(corners ...[2]int64) {
		for i, c := range corners {
			if i == 0 {
				s.move(place(c[0], c[1]))
			} else {
				s.line(place(c[0], c[1]))
			}
		}
	}
	switch t.form {
	case squareTile:
		polygon([2]int64{0, 0}, [2]int64{full, 0}, [2]int64{full, full}, [2]int64{0, full})
	case diamondTile:
		polygon([2]int64{half, 0}, [2]int64{full, half}, [2]int64{half, full}, [2]int64{0, half})
	case triangleTile:
		polygon([2]int64{0, 0}, [2]int64{full, 0}, [2]int64{0, full})
	case discTile:
		s.move(place(half, 0))
		s.cube(place(half+handle/2, 0), place(full, half-handle/2), place(full, half))
		s.cube(place(full, half+handle/2), place(half+handle/2, full), place(half, full))
		s.cube(place(half-handle/2, full), place(0, half+handle/2), place(0, half))
		s.cube(place(0, half-handle/2), place(half-handle/2, 0), place(half, 0))
	case quarterTile:
		s.move(place(0, 0))
		s.line(place(full, 0))
		s.cube(place(full, handle), place(handle, full), place(0, full))
	case leafTile:
		s.move(place(0, 0))
		s.cube(place(handle, 0), place(full, rest), place(full, full))
		s.cube(place(rest, full), place(0, handle), place(0, 0))
	case hollowTile:
		s.move(place(0, 0))
		s.line(place(full, 0))
		s.cube(place(rest, 0), place(0, rest), place(0, full))
	}
}
