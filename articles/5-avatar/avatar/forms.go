package avatar

import (
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/hone-go/hone/route"
)

// The URL formats of the article's service and of others, as documented: values that they clamp are
// clamped, and values that they ignore are ignored.

// refusal is an answer other than a picture.
type refusal struct {
	status int
	detail string // what happened, and what to try
}

// Error returns what the client is told.
func (r *refusal) Error() string { return r.detail }

// named fills in a name's letters, and its colour.
func (s *Service) named(p Picture, name string, rules Rules) Picture {
	p.Letters, _ = s.Fonts.Fit(rules.Of(name)) // without a font for them, there is only the colour
	p.Background = colourOf(name)
	return p
}

// articleForm parses /avatar/NAME?size=, the article's form, and /avatar/HASH.
func (s *Service) articleForm(r *http.Request, path route.Params) (Picture, error) {
	name := path.At(0)
	if hash, _, _ := strings.Cut(name, "."); isHash(hash) {
		return s.gravatarForm(r, strings.ToLower(hash))
	}
	p := s.named(Picture{Size: 128, Scale: 50, Ink: rgb(0xffffff)}, s.tidy(name), Rules{})
	var err error
	eachParam(r.URL.RawQuery, func(key, value string) {
		if key != "size" || value == "" {
			return
		}
		var isNumber bool
		if p.Size, isNumber = s.clamped(value, 128); !isNumber {
			err = &refusal{http.StatusBadRequest, "size is no number; use a whole number from 16 to " + strconv.Itoa(s.limits.Size)}
		}
	})
	return p, err
}

func isHash(text string) bool {
	return (len(text) == 32 || len(text) == 64) && strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

// gravatarForm parses /avatar/HASH?s=&d=, the form of Gravatar and Libravatar. There are no uploaded
// pictures, so the answer is always the default that was asked for.
func (s *Service) gravatarForm(r *http.Request, hash string) (Picture, error) {
	p := Picture{Size: 80, Scale: 50, Ink: rgb(0xffffff)}
	missing, initials, name := "", "", ""
	eachParam(r.URL.RawQuery, func(key, value string) {
		switch key {
		case "s", "size":
			p.Size, _ = s.clamped(value, 80)
		case "d", "default":
			missing = value
		case "initials":
			initials = value
		case "name":
			name = value
		}
	})
	switch missing {
	case "404":
		return p, &refusal{http.StatusNotFound, "no picture has been uploaded for this hash; leave d=404 out for one that is made"}
	case "blank":
		p.Shape = Blank
		return p, nil
	case "initials":
		rules := Rules{}
		if initials != "" {
			name, rules = initials, Rules{Fill: true}
		}
		p = s.named(p, s.tidy(name), rules)
	}
	p.Background = colourOf(hash)
	return p, nil
}

// The positions of ui-avatars' parameters in a path.
var uiPlaces = [...]string{"name", "size", "background", "color", "length", "font-size", "rounded", "uppercase", "bold", "format"}

// uiWish is a parsed request in the form of ui-avatars.
type uiWish struct {
	picture Picture
	name    string
	rules   Rules
	random  bool // the background is the name's
}

// uiForm parses /api/?name=… and /api/NAME/SIZE/…, the forms of ui-avatars.
func (s *Service) uiForm(r *http.Request, path route.Params) (Picture, error) {
	w := uiWish{name: "John Doe", rules: Rules{Fill: true}}
	w.picture = Picture{Size: 64, Scale: 50, Background: rgb(0xf0e9e9), Ink: rgb(0x8b5d5d)}
	if path.Len() > 0 {
		rest := path.At(0)
		for i := 0; i < len(uiPlaces) && rest != ""; i++ {
			var value string
			value, rest, _ = strings.Cut(rest, "/")
			s.uiParam(&w, uiPlaces[i], strings.ReplaceAll(value, "+", " ")) // in a path, too
		}
	}
	eachParam(r.URL.RawQuery, func(key, value string) { s.uiParam(&w, key, value) })
	p := s.named(w.picture, w.name, w.rules)
	if !w.random {
		p.Background = w.picture.Background
	}
	return p, nil
}

func (s *Service) uiParam(w *uiWish, key, value string) {
	if value == "" {
		return
	}
	p, yes := &w.picture, value == "true" || value == "1" || value == "yes"
	switch key {
	case "name":
		w.name = s.tidy(value)
	case "size":
		p.Size, _ = s.clamped(value, 64)
	case "background":
		if c, ok := parseColor(value); ok {
			p.Background = c
		}
		w.random = value == "random"
	case "color":
		if c, ok := parseColor(value); ok {
			p.Ink = c
		}
	case "length":
		n, _ := number(value)
		w.rules.Most = min(max(n, 1), len(Letters{}))
	case "font-size":
		if share, err := strconv.ParseFloat(value, 64); err == nil && share > 0 {
			p.Scale = uint8(min(max(share, 0.1), 1)*100 + 0.5)
		}
	case "rounded":
		p.Shape = Square
		if yes {
			p.Shape = Round
		}
	case "uppercase":
		w.rules.KeepCase = value == "false" || value == "0" || value == "no"
	case "bold":
		p.Bold = yes
	case "format":
		if value == "svg" {
			p.Format = SVG
		}
	}
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
		if value, err = url.QueryUnescape(value); err == nil {
			f(key, value)
		}
	}
}

// clamped parses a size.
func (s *Service) clamped(text string, usual int) (size uint16, isNumber bool) {
	n, isNumber := number(text)
	if !isNumber {
		n = usual
	}
	if n < smallest || n > s.limits.Size {
		s.sizeClamped.Add(1)
	}
	return uint16(min(max(n, smallest), s.limits.Size)), isNumber
}

// number parses a whole number, and clamps one that is too large.
func number(text string) (int, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return int(min(max(n, math.MinInt32), math.MaxInt32)), err == nil || n == math.MaxInt64 || n == math.MinInt64
}

// tidy returns a name as it can be drawn.
func (s *Service) tidy(name string) string {
	clean, cut := s.limits.tidy(name)
	if cut {
		s.nameTooLong.Add(1)
	}
	return clean
}
