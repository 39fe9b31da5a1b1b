package avatar

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// lab is a colour in CIELAB, whose coordinates follow what the eye sees.
type lab struct{ l, a, b float64 }

// linear is the light of an sRGB component, 0 to 1.
func linear(component uint8) float64 {
	v := float64(component) / 255
	if v <= 0.04045 {
		return v / 12.92
	}
	return math.Pow((v+0.055)/1.055, 2.4)
}

// labOf converts from sRGB, with the white point D65.
func labOf(c Color) lab {
	r, g, b := linear(c.R), linear(c.G), linear(c.B)
	f := func(share float64) float64 {
		if share > 216.0/24389 {
			return math.Cbrt(share)
		}
		return (share*24389/27 + 16) / 116
	}
	x := f((0.4124564*r + 0.3575761*g + 0.1804375*b) / 0.95047)
	y := f(0.2126729*r + 0.7151522*g + 0.0721750*b)
	z := f((0.0193339*r + 0.1191920*g + 0.9503041*b) / 1.08883)
	return lab{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// difference is CIEDE2000, with all weights 1: 1 is a just noticeable
// difference, and from 10 on two areas differ at a glance.
func difference(one, two lab) float64 {
	const seventh25 = 6103515625 // 25 to the power of 7
	chromatic := func(chroma float64) float64 {
		seventh := math.Pow(chroma, 7)
		return math.Sqrt(seventh / (seventh + seventh25))
	}
	stretch := 1 + (1-chromatic((math.Hypot(one.a, one.b)+math.Hypot(two.a, two.b))/2))/2
	polar := func(c lab) (chroma, hue float64) {
		chroma = math.Hypot(c.a*stretch, c.b)
		if chroma == 0 {
			return 0, 0
		}
		hue = math.Atan2(c.b, c.a*stretch) * 180 / math.Pi
		if hue < 0 {
			hue += 360
		}
		return chroma, hue
	}
	chroma1, hue1 := polar(one)
	chroma2, hue2 := polar(two)

	turn, hue := hue2-hue1, (hue1+hue2)/2
	switch {
	case chroma1*chroma2 == 0:
		turn, hue = 0, hue1+hue2
	case turn > 180:
		turn -= 360
		hue += 180
	case turn < -180:
		turn += 360
		hue += 180
	}
	if hue >= 360 {
		hue -= 360
	}
	light, chroma := (one.l+two.l)/2, (chroma1+chroma2)/2
	cos := func(degrees float64) float64 { return math.Cos(degrees * math.Pi / 180) }
	t := 1 - 0.17*cos(hue-30) + 0.24*cos(2*hue) + 0.32*cos(3*hue+6) - 0.20*cos(4*hue-63)
	square := (light - 50) * (light - 50)
	dl := (two.l - one.l) / (1 + 0.015*square/math.Sqrt(20+square))
	dc := (chroma2 - chroma1) / (1 + 0.045*chroma)
	dh := 2 * math.Sqrt(chroma1*chroma2) * math.Sin(turn/2*math.Pi/180) / (1 + 0.015*chroma*t)
	blue := (hue - 275) / 25
	rotation := -2 * chromatic(chroma) * math.Sin(60*math.Exp(-blue*blue)*math.Pi/180)
	return math.Sqrt(dl*dl + dc*dc + dh*dh + rotation*dc*dh)
}

// TestDifference compares difference with the published test data, both ways
// round.
func TestDifference(t *testing.T) {
	data, err := os.ReadFile("testdata/ciede2000.txt")
	if err != nil {
		t.Fatal(err)
	}
	pairs := 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var one, two lab
		var want float64
		if n, err := fmt.Sscan(line, &one.l, &one.a, &one.b, &two.l, &two.a, &two.b, &want); n != 7 {
			t.Fatalf("%q: %v", line, err)
		}
		for _, got := range []float64{difference(one, two), difference(two, one)} {
			if math.Abs(got-want) > 0.00005 {
				t.Errorf("%v and %v: %.5f, want %.4f", one, two, got, want)
			}
		}
		pairs++
	}
	if pairs != 34 {
		t.Errorf("%d pairs of 34", pairs)
	}
}
