package avatar

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/hone-go/hone/route"
)

// The URL formats of other services, as documented: values that they clamp are clamped, and values
// that they ignore are ignored. README.md lists the differences.

// seedWish parses /NAME?size=, the format of initials-avatar: letters in the case in which they
// were written, 120 pixels, and 400 for a size that is not a number.
func (s *Service) seedWish(r *http.Request, path route.Params) (wish, error) {
	w := wish{name: s.mended(path.At(0)), picture: Picture{Size: 120}, rules: Rules{KeepCase: true, Preferred: true}}
	var err error
	eachParam(r.URL.RawQuery, func(key, value string) {
		if key != "size" || value == "" {
			return
		}
		size, isNumber := s.clamped(value, 120)
		w.picture.Size = size
		if !isNumber {
			err = refuse(http.StatusBadRequest, "size is no number; use a whole number from 16 to "+strconv.Itoa(s.limits.Size))
		}
	})
	return w, err
}

// gravatarWish parses /avatar/HASH?s=&d=, the format of Gravatar and Libravatar, and /avatar/NAME,
// which is the article's. There are no uploaded pictures, so the answer is always the default that
// was asked for.
func (s *Service) gravatarWish(r *http.Request, path route.Params) (wish, error) {
	hash := path.At(0)
	for _, ext := range [...]string{".png", ".jpg", ".jpeg"} {
		hash = strings.TrimSuffix(hash, ext)
	}
	if len(hash) != 32 && len(hash) != 64 || !isHex(hash) {
		return s.seedWish(r, path)
	}
	w := wish{identity: strings.ToLower(hash), picture: Picture{Size: 80, Motif: Identicon}}
	missing, initials, name := "", "", ""
	eachParam(r.URL.RawQuery, func(key, value string) {
		switch key {
		case "s", "size":
			w.picture.Size, _ = s.clamped(value, 80)
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
		return w, refuse(http.StatusNotFound, "no picture has been uploaded for this hash; leave d=404 out for one that is made")
	case "blank":
		w.picture.Motif = Blank
	case "color":
		w.picture.Motif = Plain
	case "initials":
		w.picture.Motif = Initials
		w.name = s.mended(name)
		if initials != "" {
			w.name, w.rules = s.mended(initials), Rules{Fill: true}
		}
	}
	return w, nil
}

// The positions of ui-avatars' parameters in a path.
var uiPlaces = [...]string{"name", "size", "background", "color", "length", "font-size", "rounded", "uppercase", "bold", "format"}

// uiWish parses /api/?name=… and /api/NAME/SIZE/…, the formats of ui-avatars.
func (s *Service) uiWish(r *http.Request, path route.Params) (wish, error) {
	w := wish{
		name: "John Doe", picture: Picture{Size: 64, Background: rgb(0xf0e9e9), Ink: rgb(0x8b5d5d)},
		rules: Rules{Fill: true}, background: true, ink: true,
	}
	if path.Len() > 0 {
		rest := path.At(0)
		for i := 0; i < len(uiPlaces) && rest != ""; i++ {
			var value string
			value, rest, _ = strings.Cut(rest, "/")
			s.uiParam(&w, uiPlaces[i], strings.ReplaceAll(value, "+", " ")) // in a path, too
		}
	}
	eachParam(r.URL.RawQuery, func(key, value string) { s.uiParam(&w, key, value) })
	return w, nil
}

func (s *Service) uiParam(w *wish, key, value string) {
	if value == "" {
		return
	}
	p := &w.picture
	switch key {
	case "name":
		w.name = s.mended(value)
	case "size":
		p.Size, _ = s.clamped(value, 64)
	case "background":
		if value == "random" {
			w.background = false
		} else if c, ok := parseColor(value); ok {
			p.Background = c
		}
	case "color":
		if c, ok := parseColor(value); ok {
			p.Ink = c
		}
	case "length":
		n, _ := leadingNumber(value)
		w.rules.Most = min(max(n, 1), len(Letters{}))
	case "font-size":
		if share, err := strconv.ParseFloat(value, 64); err == nil && share > 0 {
			p.Scale = percent(share)
		}
	case "rounded":
		p.Shape = Square
		if isYes(value) {
			p.Shape = Round
		}
	case "uppercase":
		w.rules.KeepCase = value == "false" || value == "0" || value == "no"
	case "bold":
		p.Weight = Regular
		if isYes(value) {
			p.Weight = Bold
		}
	case "format":
		if value == "svg" {
			p.Format = SVG
		}
	}
}

func isYes(value string) bool { return value == "true" || value == "1" || value == "yes" }

// dicebearWish parses /9.x/initials/svg?seed=…, and options in the path, which are the query's,
// separated with commas.
func (s *Service) dicebearWish(r *http.Request, path route.Params) (wish, error) {
	w := wish{picture: Picture{Size: usual}, rules: Rules{Fill: true}}
	switch path.At(0) {
	case "svg":
		w.picture.Format = SVG
	case "png":
	default:
		return w, refuse(http.StatusNotFound, "there is no such format; use svg or png")
	}
	seed := ""
	param := func(key, value string) {
		if key == "seed" {
			seed = value
			return
		}
		s.dicebearParam(&w, key, value)
	}
	if path.Len() > 1 {
		for rest := path.At(1); rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, ",")
			key, value, _ := strings.Cut(pair, "=")
			param(key, value)
		}
	}
	eachParam(r.URL.RawQuery, param)
	w.name = s.mended(seed)
	return w, nil
}

func (s *Service) dicebearParam(w *wish, key, value string) {
	p := &w.picture
	first, _, _ := strings.Cut(value, ",") // of several colours
	n, isNumber := leadingNumber(value)
	switch key {
	case "size":
		p.Size, _ = s.clamped(value, usual)
	case "backgroundColor":
		if c, ok := parseColor(first); ok {
			p.Background, w.background = c, true
		}
	case "textColor":
		if c, ok := parseColor(first); ok {
			p.Ink, w.ink = c, true
		}
	case "radius":
		p.Shape = Square
		if isNumber && n >= 50 {
			p.Shape = Round
		}
	case "fontSize":
		if isNumber {
			p.Scale = percent(float64(n) / 100)
		}
	case "fontWeight":
		p.Weight = Regular
		if isNumber && n >= 600 {
			p.Weight = Bold
		}
	case "chars":
		p.Motif = Initials
		if isNumber && n <= 0 {
			p.Motif = Plain
		} else if isNumber {
			w.rules.Most = min(n, 2)
		}
	}
}
