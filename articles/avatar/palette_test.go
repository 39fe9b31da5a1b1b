package avatar

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// lch is a colour in Oklch: lightness 0 to 1, chroma from 0, hue in degrees.
type lch struct{ l, c, h float64 }

func lchOf(c Color) lch {
	r, g, b := linear(c.R), linear(c.G), linear(c.B)
	long := math.Cbrt(0.4122214708*r + 0.5363325363*g + 0.0514459929*b)
	medium := math.Cbrt(0.2119034982*r + 0.6806995451*g + 0.1073969566*b)
	short := math.Cbrt(0.0883024619*r + 0.2817188376*g + 0.6299787005*b)
	x := 1.9779984951*long - 2.4285922050*medium + 0.4505937099*short
	y := 0.0259040371*long + 0.7827717662*medium - 0.8086757660*short
	hue := math.Atan2(y, x) * 180 / math.Pi
	if hue < 0 {
		hue += 360
	}
	return lch{0.2104542553*long + 0.7936177850*medium - 0.0040720468*short, math.Hypot(x, y), hue}
}

// pleasant is the taste of the palette: nothing grey, black, white or glaring,
// no brown, no olive.
func (c lch) pleasant() bool {
	warm, yellow := c.h > 10 && c.h <= 75, c.h > 75 && c.h < 128
	switch {
	case c.l < 0.43 || c.l > 0.80 || c.c < 0.09 || c.c > 0.16:
		return false
	case c.l > 0.70 && c.c > 0.13 && c.h > 100 && c.h < 280: // glaring greens and cyans
		return false
	case warm && c.l < 0.74 && c.c < 0.13: // brown
		return false
	case warm && c.h > 45 && c.l < 0.68, c.h >= 128 && c.h < 145 && c.l < 0.50, warm && c.h > 30 && c.l < 0.50: // dark orange is brown, too
		return false
	}
	return !yellow || c.l > 0.74 && c.c > 0.13 // dark or pale yellow is olive
}

// clearContrast is the least contrast of letters, above the 4.5 that WCAG asks for: it
// leaves out the middle lightness, on which black and white are hard to read alike.
const clearContrast = 5.5

// paletteSize is how many colours are looked for. With that many, two names
// have the same one in 2.8 % of the cases.
const paletteSize = 36

// findPalette picks colours that are pleasant, clear and far from each other. It starts
// with the darkest candidate and adds the one that is farthest from those chosen,
// then moves one of the closest two as long as that increases the smallest
// distance. Distances are rounded, so that every machine finds the same.
func findPalette() (palette []Color, least float64) {
	type candidate struct {
		color Color
		at    lab
		from  [paletteSize]float64 // distances to the chosen
	}
	var all []candidate
	const step = 5
	for v := range 52 * 52 * 52 {
		c := Color{uint8(v / (52 * 52) * step), uint8(v / 52 % 52 * step), uint8(v % 52 * step)}
		if lchOf(c).pleasant() && contrast(c, c.Ink()) >= clearContrast {
			all = append(all, candidate{color: c, at: labOf(c)})
		}
	}
	darkest := slices.MinFunc(all, func(a, b candidate) int { return cmp.Compare(a.at.l, b.at.l) })
	chosen := make([]Color, 0, paletteSize)
	set := func(k int, c Color) {
		chosen[k] = c
		for i := range all {
			all[i].from[k] = math.Round(difference(all[i].at, labOf(c))*1e6) / 1e6
		}
	}
	farthest := func(without int) (best Color, distance float64) { // from all chosen but one
		distance = -1
		for i := range all {
			near := math.Inf(1)
			for k := range chosen {
				if k != without {
					near = min(near, all[i].from[k])
				}
			}
			if near > distance {
				best, distance = all[i].color, near
			}
		}
		return best, distance
	}
	next := darkest.color
	for range paletteSize {
		chosen = append(chosen, Color{})
		set(len(chosen)-1, next)
		next, _ = farthest(-1)
	}
	for range 100 {
		a, b, distance := closest(chosen)
		least = distance
		moved := false
		for _, k := range []int{a, b} {
			if to, better := farthest(k); better > least+1e-6 {
				set(k, to)
				moved = true
				break
			}
		}
		if !moved {
			break
		}
	}
	slices.SortFunc(chosen, func(a, b Color) int { return cmp.Compare(lchOf(a).h, lchOf(b).h) })
	return chosen, least
}

// closest are the two colours that differ least.
func closest(colors []Color) (a, b int, distance float64) {
	distance = math.Inf(1)
	for i := range colors {
		for k := range i {
			if d := difference(labOf(colors[i]), labOf(colors[k])); d < distance {
				a, b, distance = k, i, d
			}
		}
	}
	return a, b, distance
}

// TestPalette finds the palette again, and checks what is promised of it.
func TestPalette(t *testing.T) {
	found, least := findPalette()
	t.Logf("the closest two of %d colours differ by %.1f", len(found), least)
	if least < 12 {
		t.Errorf("the closest two colours differ by %.2f, want 12", least)
	}
	if !slices.EqualFunc(found, colours[:], func(a Color, b uint32) bool { return a == rgb(b) }) {
		var table strings.Builder
		for i, c := range found {
			table.WriteString(map[bool]string{true: "\n\t", false: " "}[i%9 == 0])
			table.WriteString("0x" + string(c.appendHex(nil)) + ",")
		}
		t.Errorf("colours is not what is found; raise the version and write:%s", table.String())
	}
	for _, c := range found {
		if contrast(c, c.Ink()) < clearContrast {
			t.Errorf("%v: its ink has a contrast of %.2f", c, contrast(c, c.Ink()))
		}
	}
}

// TestNamesDiffer draws pairs of names at random and counts those whose
// backgrounds look alike.
func TestNamesDiffer(t *testing.T) {
	const pairs = 10_000
	r := rand.New(rand.NewPCG(*seed, 25))
	name := func() string {
		var b strings.Builder
		for range 2 + r.IntN(4) {
			b.WriteByte("bdfgklmnprstvz"[r.IntN(14)])
			b.WriteByte("aeiou"[r.IntN(5)])
		}
		return b.String()
	}
	alike := 0
	for range pairs {
		one, two := name(), name()
		if one != two && difference(labOf(colourOf(hashOf(one))), labOf(colourOf(hashOf(two)))) < 10 {
			alike++
		}
	}
	t.Logf("%d of %d pairs look alike (-seed %d)", alike, pairs, *seed)
	if alike > pairs*5/100 {
		t.Errorf("%d of %d pairs look alike, want at most 5 %% (-seed %d)", alike, pairs, *seed)
	}
}

// contrast is what WCAG defines, 1 to 21.
func contrast(a, b Color) float64 {
	luminance := func(c Color) float64 { return 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B) }
	light, dark := max(luminance(a), luminance(b)), min(luminance(a), luminance(b))
	return (light + 0.05) / (dark + 0.05)
}

// TestInk goes over 52 steps of each component: the ink is the better of black
// and white each time, and never below the contrast that WCAG asks of text.
func TestInk(t *testing.T) {
	black, white := Color{}, Color{255, 255, 255}
	worse, low, least := 0, 0, 21.0
	const steps = 52
	for v := range steps * steps * steps {
		c := Color{uint8(v / (steps * steps) * 5), uint8(v / steps % steps * 5), uint8(v % steps * 5)}
		ink := c.Ink()
		got := contrast(c, ink)
		if got < max(contrast(c, black), contrast(c, white)) {
			worse++
		}
		if got < 4.5 {
			low++
		}
		least = min(least, got)
	}
	if worse+low > 0 {
		t.Errorf("the ink is the worse one on %d colours, and below 4.5:1 on %d; the least contrast is %.2f:1", worse, low, least)
	}
	for v, light := range lightOf {
		if want := math.Round(linear(uint8(v)) * fullLight); float64(light) != want {
			t.Errorf("the light of %d is %d, want %.0f", v, light, want)
		}
	}
}
