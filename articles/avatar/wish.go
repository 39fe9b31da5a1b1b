package avatar

import (
	"math"
	"net/url"
	"strconv"
	"strings"
)

// A wish is a parsed request, in the format of any of the services.
type wish struct {
	name       string
	identity   string // what colours and identicons depend on; "": name
	rules      Rules
	picture    Picture
	background bool // picture has the background
	ink        bool // picture has the ink
	negotiated bool // the format depends on Accept
}

// refusal is an answer other than a picture.
type refusal struct {
	status int
	detail string // what happened, and what to try
}

// Error returns what the client is told.
func (r *refusal) Error() string { return r.detail }

func refuse(status int, detail string) error { return &refusal{status, detail} }

// grant converts a wish to a picture.
func (s *Service) grant(w wish) Picture {
	p := w.picture
	if w.identity == "" {
		w.identity = w.name
	}
	hash := hashOf(w.identity)
	if p.Motif == Initials {
		var ok bool
		if p.Letters, ok = s.Fonts.Fit(w.rules.Of(w.name)); !ok {
			p.Letters, p.Motif = Letters{}, Identicon
		}
	}
	if p.Motif == Identicon {
		p.Seed = seedOf(hash)
	}
	if !w.background {
		p.Background = colourOf(hash)
	}
	if !w.ink {
		p.Ink = p.Background.Ink()
	}
	if p.Motif == Plain || p.Motif == Blank {
		p.Ink, p.Scale, p.Weight = Color{}, 0, 0
	}
	return p
}

// eachParam calls f for the decoded parameters of a query and skips those that cannot be decoded.
// It allocates only for escaped ones.
func eachParam(query string, f func(key, value string)) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		key, value, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(key)
		if err != nil {
			continue
		}
		if value, err = url.QueryUnescape(value); err != nil {
			continue
		}
		f(key, value)
	}
}

// clamped parses a size for a service that answers any number with a picture.
func (s *Service) clamped(text string, usual int) (size uint16, isNumber bool) {
	n, isNumber := leadingNumber(text)
	if !isNumber {
		n = usual
	}
	most := s.limits.Size
	if n < smallest || n > most {
		s.counters.sizeClamped.Add(1)
	}
	return uint16(min(max(n, smallest), most)), isNumber
}

// leadingNumber parses a whole number, clamped to the range of int.
func leadingNumber(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	if err == nil {
		return n, true
	}
	digits := strings.TrimLeft(text, "+-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	if text[0] == '-' {
		return math.MinInt32, true
	}
	return math.MaxInt32, true
}

// mended returns a valid name for a service that never refuses one.
func (s *Service) mended(name string) string {
	clean, cut := s.limits.mend(name)
	if cut {
		s.counters.nameTooLong.Add(1)
	}
	return clean
}

// percent clamps a share of an em to what can be drawn.
func percent(share float64) uint8 {
	if !(share >= 0.1) { // also for NaN
		return 10
	}
	return uint8(min(share, 1)*100 + 0.5)
}
