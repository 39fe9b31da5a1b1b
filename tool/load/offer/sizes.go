package offer

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Sizes is the distribution of the requests' content sizes in bytes, for example
//
//	uniform:16..1024       any size from the first to the last, equally likely
//	lognormal:300,1.2      with this median; the second is the standard deviation of the logarithm
//	file:@sizes.txt        those in a file, one per line, equally likely
//
// Lognormal sizes are no further than four standard deviations from the
// middle, where one in 16,000 would be, and none is below 0 or above 16 MiB. The zero
// Sizes is none.
type Sizes struct {
	text string
	draw *drawing
}

// drawing is the parsed form of the text. It is immutable.
type drawing struct {
	least, most int
	size        func(seed, n uint64) float64
}

const (
	mostSize   = 16 << 20
	mostLines  = 1 << 20
	mostSpread = 4 // standard deviations
	mostSigma  = 20
)

// UnmarshalText parses sizes as above, and reads the file.
func (s *Sizes) UnmarshalText(text []byte) error { return s.Read(string(text), os.ReadFile) }

// Read parses sizes as above, and reads the file by readFile.
func (s *Sizes) Read(text string, readFile func(name string) ([]byte, error)) error {
	kind, rest, _ := strings.Cut(text, ":")
	read, ok := map[string]func(string) (*drawing, error){
		"uniform": uniform, "lognormal": lognormal,
		"file": func(text string) (*drawing, error) { return fromFile(text, readFile) },
	}[kind]
	err := errors.New("write them as uniform:LOW..HIGH, lognormal:MEDIAN,SIGMA or file:@FILE")
	var d *drawing
	if ok {
		d, err = read(rest)
	}
	if err != nil {
		return fmt.Errorf("load: there are no sizes %q; %w", text, err)
	}
	*s = Sizes{text, d}
	return nil
}

// String returns the sizes as they were written; empty for none.
func (s Sizes) String() string { return s.text }

// None reports whether the sizes are empty.
func (s Sizes) None() bool { return s.draw == nil }

// Bounds returns the least and the most that At can return.
func (s Sizes) Bounds() (least, most int) {
	if s.draw == nil {
		return 0, 0
	}
	return s.draw.least, s.draw.most
}

// At returns the size of request n. It allocates nothing; BenchmarkSizes: 0.1 to 0.7 µs.
func (s Sizes) At(seed, n uint64) int {
	d := s.draw
	return min(max(int(math.Round(d.size(seed, n))), d.least), d.most)
}

// part returns a pseudo-random number in (0, 1): the k-th of request n.
func part(seed, n, k uint64) float64 {
	const sizes = 0x5317e5 // separates them from the arrivals of the same seed
	return (float64(Scramble(Scramble(seed^sizes, n), k)>>12) + 0.5) / (1 << 52)
}

// Scramble maps a seed and a number to 64 pseudo-random bits: the n-th output of the generator
// SplitMix64, whose state advances by a constant.
func Scramble(seed, n uint64) uint64 {
	z := seed + (n+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func parseSize(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > mostSize {
		return 0, fmt.Errorf("%q is not a size: write it in digits, at most %d", text, mostSize)
	}
	return n, nil
}

func uniform(text string) (*drawing, error) {
	low, high, ok := strings.Cut(text, "..")
	if !ok {
		return nil, errors.New("write them as LOW..HIGH, as in uniform:16..1024")
	}
	least, err := parseSize(low)
	if err != nil {
		return nil, err
	}
	most, err := parseSize(high)
	if err == nil && least > most {
		err = errors.New("name the smaller one first")
	}
	span := float64(most-least) + 1
	return &drawing{least, most, func(seed, n uint64) float64 {
		return float64(least) + math.Floor(part(seed, n, 0)*span)
	}}, err
}

// deviations returns a normally distributed number of standard deviations.
func deviations(seed, n uint64) float64 {
	return min(max(math.Sqrt2*math.Erfinv(2*part(seed, n, 0)-1), -mostSpread), mostSpread)
}

func bounded(size float64) int { return int(math.Round(min(max(size, 0), mostSize))) }

func lognormal(text string) (*drawing, error) {
	first, second, _ := strings.Cut(text, ",")
	median, err := strconv.ParseFloat(first, 64)
	sigma, also := strconv.ParseFloat(second, 64)
	switch err = errors.Join(err, also); {
	case err != nil || !(median >= 0 && median <= mostSize && sigma >= 0):
		err = errors.New("write two numbers with a comma between them, as in lognormal:300,1.2")
	case sigma > mostSigma:
		err = fmt.Errorf("use a sigma of %d at most", mostSigma)
	}
	return &drawing{
		bounded(median * math.Exp(-mostSpread*sigma)), bounded(median * math.Exp(mostSpread*sigma)),
		func(seed, n uint64) float64 { return min(median*math.Exp(sigma*deviations(seed, n)), mostSize) },
	}, err
}

// fromFile reads sizes from a file.
func fromFile(text string, readFile func(name string) ([]byte, error)) (*drawing, error) {
	name, ok := strings.CutPrefix(text, "@")
	if !ok || name == "" {
		return nil, errors.New("name the file as in file:@sizes.txt")
	}
	all, err := readFile(name)
	if err != nil {
		return nil, fmt.Errorf("the file cannot be read: %w", err)
	}
	var sizes []int
	number := 0
	for line := range bytes.Lines(all) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		size, err := parseSize(string(line))
		if err != nil {
			return nil, fmt.Errorf("line %d of the file: %w", number, err)
		}
		if sizes = append(sizes, size); len(sizes) > mostLines {
			return nil, fmt.Errorf("have %d lines at most", mostLines)
		}
	}
	if len(sizes) == 0 {
		return nil, errors.New("the file is empty: write one size on each line")
	}
	return &drawing{slices.Min(sizes), slices.Max(sizes), func(seed, n uint64) float64 {
		return float64(sizes[int(part(seed, n, 0)*float64(len(sizes)))])
	}}, nil
}
