package avatar

import (
	"image"
	"image/draw"

	"golang.org/x/image/vector"
)

// subpixels is how many parts a pixel has along an axis, for outlines.
const subpixels = 64

// raster collects outlines and converts them to coverage. It passes only lines with exact ends to
// the rasteriser, which then computes with integers; raster itself splits curves into lines, also
// with integers.
type raster struct {
	vector vector.Rasterizer
	cover  image.Alpha
	pen    point
	start  point
}

func (z *raster) reset(side int) {
	z.vector.Reset(side, side)
	z.vector.DrawOp = draw.Src
	if cap(z.cover.Pix) < side*side {
		z.cover.Pix = make([]uint8, side*side)
	}
	z.cover.Pix = z.cover.Pix[:side*side]
	z.cover.Stride, z.cover.Rect = side, image.Rect(0, 0, side, side)
}

// coverage returns how much of each pixel is covered, row by row.
func (z *raster) coverage() []uint8 {
	z.close()
	z.vector.Draw(&z.cover, z.cover.Rect, image.Opaque, image.Point{})
	return z.cover.Pix
}

func (z *raster) move(to point) {
	z.close()
	z.pen, z.start = to, to
	z.vector.MoveTo(float32(to.x)/subpixels, float32(to.y)/subpixels)
}

func (z *raster) close() {
	if z.pen != z.start {
		z.line(z.start)
	}
}

func (z *raster) line(to point) {
	z.pen = to
	z.vector.LineTo(float32(to.x)/subpixels, float32(to.y)/subpixels)
}

// quad splits a curve into n lines at equal steps of its parameter.
func (z *raster) quad(via, to point) {
	a := z.pen
	n := steps(a, via, to)
	for i := int64(1); i < n; i++ {
		j := n - i
		z.line(point{
			nearest(a.x*j*j+2*via.x*i*j+to.x*i*i, n*n),
			nearest(a.y*j*j+2*via.y*i*j+to.y*i*i, n*n),
		})
	}
	z.line(to)
}

func (z *raster) cube(via, by, to point) {
	a := z.pen
	n := max(steps(a, via, by), steps(via, by, to)) + 1
	for i := int64(1); i < n; i++ {
		j := n - i
		z.line(point{
			nearest(a.x*j*j*j+3*via.x*i*j*j+3*by.x*i*i*j+to.x*i*i*i, n*n*n),
			nearest(a.y*j*j*j+3*via.y*i*j*j+3*by.y*i*i*j+to.y*i*i*i, n*n*n),
		})
	}
	z.line(to)
}

// steps returns how many lines approximate a curve to within a tenth of a pixel: the distance
// falls with the square of the number.
func steps(a, b, c point) int64 {
	bend := max(abs(a.x-2*b.x+c.x), abs(a.y-2*b.y+c.y)) // eight times the distance of one line
	n := int64(1)
	for n < 32 && bend > n*n*subpixels*8/10 {
		n++
	}
	return n
}

func abs(v int64) int64 { return max(v, -v) }
