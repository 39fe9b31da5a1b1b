package avatar

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
)

//go:embed page.html
var pageText string

// page serves an overview, with a form for trying it that needs no script.
func (s *Service) page(w http.ResponseWriter, r *http.Request) {
	parsed, err := template.New("page").Parse(pageText)
	if err != nil {
		s.fail(w, err)
		return
	}
	asked := r.URL.Query()
	name := s.mended(asked.Get("name"))
	if name == "" {
		name = "Ada Lovelace"
	}
	options := url.Values{}
	for _, key := range [...]string{"shape", "weight", "background", "color"} {
		if value := asked.Get(key); value != "" {
			options.Set(key, cutBytes(value, 16))
		}
	}
	link := func(ext string, size int) string {
		options.Set("size", strconv.Itoa(size))
		return "/v1/" + url.PathEscape(name) + ext + "?" + options.Encode()
	}
	var b bytes.Buffer
	err = parsed.Execute(&b, map[string]any{
		"Name": name, "Shape": asked.Get("shape"), "Weight": asked.Get("weight"),
		"Background": cutBytes(asked.Get("background"), 16),
		"PNG":        []string{link(".png", 32), link(".png", 64), link(".png", 128)},
		"SVG":        link(".svg", 128),
		"Han":        s.Fonts.Han() != "",
	})
	if err != nil {
		s.fail(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h["Content-Security-Policy"] = policyPage
	h["X-Content-Type-Options"] = noSniff
	h["Cache-Control"] = noStore
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	w.Write(b.Bytes())
}
