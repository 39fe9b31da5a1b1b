package avatar

import (
	"math"
	"net/url"
	"strconv"
	"strings"
)

// A wish is a request in the words of whichever service it was written for.
type wish struct {
	name       string
	identity   string // what colours and identicons hang on; "": name
	rules      Rules
	picture    Picture
	background bool // is in picture
	ink        bool // is in picture
	negotiated bool // the format depends on Accept
}

// refusal is an answer other than a picture.
type refusal struct {
	status int
	detail string // what happened, and what to try
}

// Error is what the client is told.
func (r *refusal) Error() string { return r.detail }

func refuse(status int, detail string) error { return &refusal{status, detail} }

// grant makes a wish the picture that it is.
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

// eachParam calls f for the parameters of a query, decoded; one that cannot be
// decoded is left out. It allocates only what is escaped.
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

// clamped reads a size for a service that answers any number with a picture.
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

// leadingNumber reads a whole number; one that no int holds is the largest there
// is, or the smallest.
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

// mended is a name for a service that never refused one.
func (s *Service) mended(name string) string {
	clean, cut := s.limits.mend(name)
	if cut {
		s.counters.nameTooLong.Add(1)
	}
	return clean
}

// percent brings a share of an em into what can be drawn.
func percent(share float64) uint8 {
	if !(share >= 0.1) { // also for NaN
		return 10
	}
	return uint8(min(share, 1)*100 + 0.5)
}
