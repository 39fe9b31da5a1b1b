package avatar

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/hone-go/hone/route"
)

// ownWish parses hone's own format, /v1/NAME.png?size=…, and refuses invalid values.
func (s *Service) ownWish(r *http.Request, path route.Params) (wish, error) {
	w := wish{picture: Picture{Size: usual}}
	name := path.At(0)
	if bare, ok := strings.CutSuffix(name, ".png"); ok {
		name = bare
	} else if bare, ok := strings.CutSuffix(name, ".svg"); ok {
		name, w.picture.Format = bare, SVG
	} else {
		w.negotiated = true
		if prefersSVG(r.Header["Accept"]) {
			w.picture.Format = SVG
		}
	}
	clean, err := s.limits.Clean(name)
	if err != nil {
		if errors.Is(err, ErrNameTooLong) {
			s.counters.nameTooLong.Add(1)
		}
		return w, refuse(http.StatusBadRequest, err.Error())
	}
	w.name = clean
	eachParam(r.URL.RawQuery, func(key, value string) {
		if err == nil {
			err = s.ownParam(&w, key, value)
		}
	})
	return w, err
}

func (s *Service) ownParam(w *wish, key, value string) error {
	ok, want := true, ""
	switch p := &w.picture; key {
	case "size":
		n, err := strconv.Atoi(value)
		if ok = err == nil && n >= smallest && n <= s.limits.Size; !ok {
			s.counters.sizeClamped.Add(1)
			want = "a whole number from 16 to " + strconv.Itoa(s.limits.Size)
		}
		p.Size = uint16(n)
	case "shape":
		want = "square or round"
		p.Shape, ok = word(value, Square, "square", "round")
	case "weight":
		want = "regular, medium or bold"
		p.Weight, ok = word(value, Regular, "regular", "medium", "bold")
	case "background":
		want = "a colour as in 1e7e7e"
		p.Background, w.background = parseColor(value)
		ok = w.background
	case "color":
		want = "a colour as in ffffff"
		p.Ink, w.ink = parseColor(value)
		ok = w.ink
	case "letters":
		want = "1, 2, 3 or 4"
		n, err := strconv.Atoi(value)
		ok = err == nil && n >= 1 && n <= len(Letters{})
		w.rules.Most = n
	case "han":
		want = "family or given"
		var part uint8
		part, ok = word(value, uint8(0), "family", "given")
		w.rules.Given = part == 1
	}
	if !ok {
		return refuse(http.StatusBadRequest, key+" cannot be that; use "+want)
	}
	return nil
}

// word returns the index of a value in words.
func word[E ~uint8](value string, zero E, words ...string) (E, bool) {
	for i, w := range words {
		if w == value {
			return zero + E(i), true
		}
	}
	return zero, false
}

// prefersSVG reports whether an Accept header names SVG. The wildcards that every client sends do
// not count: every client can show PNG.
func prefersSVG(accept []string) bool {
	for _, line := range accept {
		for line != "" {
			var one string
			one, line, _ = strings.Cut(line, ",")
			media, params, _ := strings.Cut(one, ";")
			if strings.EqualFold(strings.TrimSpace(media), "image/svg+xml") && !isRefused(params) {
				return true
			}
		}
	}
	return false
}

// isRefused reports a quality of 0.
func isRefused(params string) bool {
	_, q, ok := strings.Cut(params, "q=")
	q, _, _ = strings.Cut(q, ";")
	return ok && strings.Trim(strings.TrimSpace(q), "0.") == ""
}
