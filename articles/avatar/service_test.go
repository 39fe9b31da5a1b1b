package avatar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hone-go/hone/http1"
	"github.com/hone-go/hone/internal/testrun"
	"github.com/hone-go/hone/workers"
)

func newService(tb testing.TB, l Limits) *Service {
	s := &Service{Fonts: onlyGo(tb), Limits: l}
	tb.Cleanup(s.Close)
	return s
}

// holdCrew has everybody who draws wait until release is called.
func holdCrew(t *testing.T, s *Service) (release func()) {
	t.Helper()
	s.prepare()
	held, end := make(chan bool), make(chan struct{})
	for range s.limits.Renders {
		if err := s.store.crew.Go(t.Context(), func() { held <- true; <-end }); err != nil {
			t.Fatal(err)
		}
		<-held
	}
	return sync.OnceFunc(func() { close(end) })
}

// awaitQueue waits until so many pictures wait to be drawn.
func awaitQueue(t *testing.T, s *Service, n int) {
	t.Helper()
	for until := time.Now().Add(patience); s.store.crew.Stats().Queued < n; runtime.Gosched() {
		if time.Now().After(until) {
			t.Fatalf("%+v", s.store.crew.Stats())
		}
	}
}

// ask has the service answer one request.
func ask(tb testing.TB, s *Service, method, target string, headers ...string) *httptest.ResponseRecorder {
	tb.Helper()
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// shows expects a picture, byte by byte.
func shows(t *testing.T, s *Service, target string, want Picture) {
	t.Helper()
	w := ask(t, s, "GET", target)
	image, err := (&Renderer{Fonts: s.Fonts}).Append(nil, want)
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	if w.Code != 200 || w.Header().Get("Content-Type") != want.Format.ContentType() || !bytes.Equal(w.Body.Bytes(), image) {
		t.Errorf("GET %s: %d %s, %d bytes; want %+v", target, w.Code, w.Header().Get("Content-Type"), w.Body.Len(), want)
	}
}

// letters are a picture of them, black or white on the name's colour.
func letters(text string, size uint16, identity string) Picture {
	p := Picture{Size: size, Background: colourOf(hashOf(identity))}
	p.Ink = p.Background.Ink()
	copy(p.Letters[:], []rune(text))
	return p
}

func (p Picture) with(change func(*Picture)) Picture {
	change(&p)
	return p
}

func identicon(size uint16, identity string) Picture {
	return letters("", size, identity).with(func(p *Picture) { p.Motif, p.Seed = Identicon, seedOf(hashOf(identity)) })
}

// TestOwn is hone's own form.
func TestOwn(t *testing.T) {
	s := newService(t, Limits{})
	john := letters("JD", 128, "John Doe")
	shows(t, s, "/v1/John%20Doe.png", john)
	shows(t, s, "/v1/%20John%20%20Doe%20.png", john)
	shows(t, s, "/v1/John%20Doe", john)
	shows(t, s, "/v1/John%20Doe.svg", john.with(func(p *Picture) { p.Format = SVG }))
	shows(t, s, "/v1/John%20Doe.png?size=16", letters("JD", 16, "John Doe"))
	shows(t, s, "/v1/John%20Doe.png?shape=round&weight=bold", john.with(func(p *Picture) { p.Shape, p.Weight = Round, Bold }))
	shows(t, s, "/v1/John%20Doe.png?background=fff", john.with(func(p *Picture) { p.Background, p.Ink = rgb(0xffffff), rgb(0) }))
	shows(t, s, "/v1/John%20Doe.png?background=fff&color=%23ff0000", john.with(func(p *Picture) { p.Background, p.Ink = rgb(0xffffff), rgb(0xff0000) }))
	shows(t, s, "/v1/John%20Doe.png?letters=1", letters("J", 128, "John Doe"))
	shows(t, s, "/v1/Jos%C3%A9%20%C3%81lvarez.png", letters("JÁ", 128, "José Álvarez"))
	shows(t, s, "/v1/Jose%CC%81%20A%CC%81lvarez.png", letters("JÁ", 128, "José Álvarez")) // not composed
	shows(t, s, "/v1/%F0%9F%8E%89.png", identicon(128, "🎉"))
	shows(t, s, "/v1/%D7%A9.png", identicon(128, "ש"))
	shows(t, s, "/v1/a%2Fb%20c.png", letters("AC", 128, "a/b c"))
	shows(t, s, "/v1/..%2F..%2Fetc", letters("E", 128, "../../etc")) // text like any other
	shows(t, s, "/v1/joe@example.com", letters("J", 128, "joe@example.com"))
	for _, target := range []string{
		"/v1/John.png?size=15", "/v1/John.png?size=513", "/v1/John.png?size=-1", "/v1/John.png?size=abc", "/v1/John.png?size=1e9",
		"/v1/John.png?size=1000000000", "/v1/John.png?size=", "/v1/John.png?shape=oval", "/v1/John.png?weight=900",
		"/v1/John.png?background=red", "/v1/John.png?color=12345", "/v1/John.png?letters=0", "/v1/John.png?letters=5", "/v1/John.png?han=all",
		"/v1/.png", "/v1/%20.png", "/v1/%00.png", "/v1/a%00b.png", "/v1/%FF%FE.png", "/v1/%E2%80%AE.png",
		"/v1/" + strings.Repeat("a", 257), "/v1/" + strings.Repeat("a%CC%81", 80),
	} {
		problem(t, ask(t, s, "GET", target), target, 400)
	}
	if st := s.Stats(); st.SizeClamped != 7 || st.NameTooLong != 2 || st.Refused != 22 {
		t.Errorf("%+v", st)
	}
}

// problem expects an answer of RFC 9457 that says what to do.
func problem(t *testing.T, w *httptest.ResponseRecorder, target string, status int) {
	t.Helper()
	var p struct {
		Type, Title, Detail string
		Status              int
	}
	err := json.Unmarshal(w.Body.Bytes(), &p)
	if w.Code != status || err != nil || p.Status != status || p.Type != "about:blank" || !strings.Contains(p.Detail, ";") ||
		w.Header().Get("Content-Type") != "application/problem+json" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%.80s: %d %v %q, want %d", target, w.Code, w.Header(), w.Body, status)
	}
}

// TestOtherPaths asks for anything but pictures.
func TestOtherPaths(t *testing.T) {
	s := newService(t, Limits{})
	problem(t, ask(t, s, "GET", "/v1/a/b"), "/v1/a/b", 404)
	problem(t, ask(t, s, "GET", "/9.x/initials/gif"), "gif", 404)
	problem(t, ask(t, s, "GET", "/10.x/initials/svg"), "10.x", 404)
	w := ask(t, s, "POST", "/v1/a.png")
	problem(t, w, "POST", 405)
	if w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow: %q", w.Header().Get("Allow"))
	}
	if w := ask(t, s, "GET", "/v1/../../etc/passwd"); w.Code != 307 || w.Header().Get("Location") != "/etc/passwd" {
		t.Errorf("a path with ..: %d %v", w.Code, w.Header())
	}
}

// TestSeedForm is the form of initials-avatar.
func TestSeedForm(t *testing.T) {
	s := newService(t, Limits{})
	shows(t, s, "/hello", letters("h", 120, "hello"))
	shows(t, s, "/John%20Doe?size=64", letters("JD", 64, "John Doe"))
	shows(t, s, "/john%20doe?size=64", letters("jd", 64, "john doe"))
	shows(t, s, "/hello?size=", letters("h", 120, "hello"))
	shows(t, s, "/avatar/bdsad", letters("b", 120, "bdsad"))
	shows(t, s, "/%E5%AD%94", identicon(120, "孔"))
	problem(t, ask(t, s, "GET", "/hello?size=abc"), "abc", 400)
}

// The faults of the article's service, by name.

func TestSeedFaultCacheKeyOfInitialsOnly(t *testing.T) {
	s := newService(t, Limits{})
	for range 2 { // from the cache as well
		shows(t, s, "/John%20Doe?size=64", letters("JD", 64, "John Doe"))
		shows(t, s, "/Jane%20Dee?size=64", letters("JD", 64, "Jane Dee")) // another colour
		shows(t, s, "/John%20Doe?size=96", letters("JD", 96, "John Doe"))
		shows(t, s, "/v1/John%20Doe.svg?size=96", letters("JD", 96, "John Doe").with(func(p *Picture) { p.Format = SVG }))
	}
	if st := s.Stats(); st.Pictures.Misses != 4 || st.Masks.Misses != 3 || st.Masks.Hits != 1 || st.Pictures.Hits != 4 {
		t.Errorf("%+v", st)
	}
}

func TestSeedFaultUnboundedSize(t *testing.T) {
	s := newService(t, Limits{Size: 256})
	for _, size := range []string{"257", "1000000000", "99999999999999999999999"} {
		shows(t, s, "/hello?size="+size, letters("h", 256, "hello"))
	}
	for _, size := range []string{"0", "-1", "-99999999999999999999999"} {
		shows(t, s, "/hello?size="+size, letters("h", 16, "hello"))
	}
	if n := s.Stats().SizeClamped; n != 6 {
		t.Errorf("%d sizes were clamped", n)
	}
}

func TestSeedFaultBlankNamePanics(t *testing.T) {
	s := newService(t, Limits{})
	shows(t, s, "/%20", identicon(120, ""))
	shows(t, s, "/%00", identicon(120, ""))
	shows(t, s, "/%FF", identicon(120, ""))
	shows(t, s, "/...", identicon(120, "..."))
	if n := s.Stats().Failed; n != 0 {
		t.Errorf("%d failed", n)
	}
}

func TestSeedFaultSharedFontFace(t *testing.T) {
	s := newService(t, Limits{Renders: 8})
	var want [26][]byte
	for i := range want {
		image, err := (&Renderer{Fonts: s.Fonts}).Append(nil, letters(string(rune('A'+i)), 64, "x"))
		if err != nil {
			t.Fatal(err)
		}
		want[i] = image
	}
	r := &Renderer{Fonts: s.Fonts}
	var drawing sync.WaitGroup
	for g := range 8 {
		drawing.Go(func() {
			for i := range 260 {
				letter := (i*(2*g+1) + g) % len(want)
				image, err := r.Append(nil, letters(string(rune('A'+letter)), 64, "x"))
				if err != nil || !bytes.Equal(image, want[letter]) {
					t.Errorf("%c is drawn otherwise beside others (%v)", 'A'+letter, err)
					return
				}
			}
		})
	}
	drawing.Wait()
}

// TestGravatarForm is what Gravatar and Libravatar document, for hashes that
// nobody has uploaded a picture for.
func TestGravatarForm(t *testing.T) {
	s := newService(t, Limits{})
	md5, sha := strings.Repeat("0bc83cb571cd1c50", 2), strings.Repeat("0bc83cb571cd1c50", 4)
	shows(t, s, "/avatar/"+md5, identicon(80, md5))
	shows(t, s, "/avatar/"+strings.ToUpper(md5), identicon(80, md5))
	shows(t, s, "/avatar/"+sha+".png?s=200&d=retro", identicon(200, sha))
	shows(t, s, "/avatar/"+md5+".jpg?size=2048&r=pg&f=y&d=identicon", identicon(512, md5))
	shows(t, s, "/avatar/"+md5+"?s=1&d=mp", identicon(16, md5))
	shows(t, s, "/avatar/"+md5+"?s=abc", identicon(80, md5))
	shows(t, s, "/avatar/"+md5+"?d=https%3A%2F%2Fexample.com%2Fa.png", identicon(80, md5)) // no redirect
	shows(t, s, "/avatar/"+md5+"?d=initials&name=John+Doe", letters("JD", 80, md5))
	shows(t, s, "/avatar/"+md5+"?d=initials&initials=XY&name=John+Doe", letters("XY", 80, md5))
	shows(t, s, "/avatar/"+md5+"?d=initials", identicon(80, md5))
	shows(t, s, "/avatar/"+md5+"?d=color", letters("", 80, md5).with(func(p *Picture) { p.Motif, p.Ink = Plain, Color{} }))
	shows(t, s, "/avatar/"+md5+"?default=blank", letters("", 80, md5).with(func(p *Picture) { p.Motif, p.Ink = Blank, Color{} }))
	problem(t, ask(t, s, "GET", "/avatar/"+md5+"?d=404"), "d=404", 404)
}

// TestUIAvatarsForm is what ui-avatars documents, by query and by path.
func TestUIAvatarsForm(t *testing.T) {
	s := newService(t, Limits{})
	usual := func(text string, size uint16) Picture {
		return letters(text, size, "").with(func(p *Picture) { p.Background, p.Ink = rgb(0xf0e9e9), rgb(0x8b5d5d) })
	}
	shows(t, s, "/api/", usual("JD", 64))
	shows(t, s, "/api/?name=Elon+Musk", usual("EM", 64))
	shows(t, s, "/api?name=Elon", usual("EL", 64))
	shows(t, s, "/api/?name=Elon+Musk&size=128&length=1", usual("E", 128))
	shows(t, s, "/api/?name=Elon+Musk&length=3", usual("EMU", 64))
	shows(t, s, "/api/?name=Elon+Musk&size=9999", usual("EM", 512))
	shows(t, s, "/api/?name=Elon+Musk&size=1&length=-1", usual("E", 16))
	shows(t, s, "/api/?name=elon+musk&uppercase=false", usual("em", 64))
	shows(t, s, "/api/?name=Elon+Musk&background=0D8ABC&color=fff", usual("EM", 64).with(func(p *Picture) { p.Background, p.Ink = rgb(0x0d8abc), rgb(0xffffff) }))
	shows(t, s, "/api/?name=Elon+Musk&background=random&color=fff", letters("EM", 64, "Elon Musk").with(func(p *Picture) { p.Ink = rgb(0xffffff) }))
	shows(t, s, "/api/?name=Elon+Musk&font-size=0.33&rounded=true&bold=true", usual("EM", 64).with(func(p *Picture) { p.Scale, p.Shape, p.Weight = 33, Round, Bold }))
	shows(t, s, "/api/?name=Elon+Musk&format=svg", usual("EM", 64).with(func(p *Picture) { p.Format = SVG }))
	shows(t, s, "/api/Elon+Musk", usual("EM", 64))
	shows(t, s, "/api/Elon%20Musk/128/0D8ABC/fff/2/0.5/true/true/true/svg", usual("EM", 128).with(func(p *Picture) {
		p.Background, p.Ink, p.Scale, p.Shape, p.Weight, p.Format = rgb(0x0d8abc), rgb(0xffffff), 50, Round, Bold, SVG
	}))
	shows(t, s, "/api/?name=Elon+Musk&size=abc&background=zz&font-size=NaN&length=x", usual("E", 64))
	if w := ask(t, s, "GET", "/api/?name=a", "Accept", "image/svg+xml"); w.Header().Get("Content-Type") != "image/png" || w.Header().Get("Vary") != "" {
		t.Errorf("the format depends on Accept: %v", w.Header())
	}
}

// TestDiceBearForm is what DiceBear documents of its initials.
func TestDiceBearForm(t *testing.T) {
	s := newService(t, Limits{})
	svg := func(p *Picture) { p.Format = SVG }
	shows(t, s, "/9.x/initials/svg?seed=Florian", letters("FL", 128, "Florian").with(svg))
	shows(t, s, "/7.x/initials/png?seed=Frank%20Walter%20%C3%96sternbach&size=96", letters("FÖ", 96, "Frank Walter Östernbach"))
	shows(t, s, "/9.x/initials/svg/seed=John%20Doe,size=64", letters("JD", 64, "John Doe").with(svg))
	shows(t, s, "/9.x/initials/svg?seed=John+Doe&chars=1&radius=50", letters("J", 128, "John Doe").with(svg).with(func(p *Picture) { p.Shape = Round }))
	shows(t, s, "/9.x/initials/svg?seed=John+Doe&chars=0", letters("", 128, "John Doe").with(svg).with(func(p *Picture) { p.Motif, p.Ink = Plain, Color{} }))
	shows(t, s, "/5.x/initials/png?seed=John+Doe&backgroundColor=00897b,00acc1&textColor=000&fontSize=30&fontWeight=700",
		letters("JD", 128, "John Doe").with(func(p *Picture) { p.Background, p.Ink, p.Scale, p.Weight = rgb(0x00897b), rgb(0), 30, Bold }))
	shows(t, s, "/9.x/initials/svg", identicon(128, "").with(svg))
}

// TestConditional is 304 before anything is drawn, and only then.
func TestConditional(t *testing.T) {
	s := newService(t, Limits{})
	const target = "/v1/John%20Doe.png"
	tag := string(letters("JD", 128, "John Doe").appendTag(nil, s.Fonts.fingerprint))
	for _, asked := range []string{tag, "W/" + tag, `"x", ` + tag, `"x",` + tag + `,"y"`, "*"} {
		w := ask(t, s, "GET", target, "If-None-Match", asked)
		h := w.Header()
		if w.Code != 304 || w.Body.Len() != 0 || h.Get("Etag") != tag || !strings.Contains(h.Get("Cache-Control"), "max-age=") {
			t.Errorf("If-None-Match: %s: %d %v", asked, w.Code, h)
		}
	}
	if st := s.Stats(); st.Pictures.Misses != 0 || st.Pictures.Hits != 0 || st.NotModified != 5 {
		t.Errorf("a cache was asked for a 304: %+v", st)
	}
	for _, asked := range []string{`"x"`, strings.Trim(tag, `"`), "", "W/"} {
		if w := ask(t, s, "GET", target, "If-None-Match", asked); w.Code != 200 || w.Header().Get("Etag") != tag {
			t.Errorf("If-None-Match: %s: %d %v", asked, w.Code, w.Header())
		}
	}
	if other := letters("JD", 128, "John Doe").appendTag(nil, s.Fonts.fingerprint+1); string(other) == tag {
		t.Error("the tag does not depend on the fonts")
	}
	seen := map[string]string{}
	for _, other := range []string{
		target, "/v1/John%20Doe.svg", "/v1/Jane%20Dee.png", target + "?size=64", target + "?shape=round",
		target + "?weight=bold", target + "?background=000", target + "?color=f00", target + "?letters=1",
	} {
		tag := ask(t, s, "GET", other).Header().Get("Etag")
		if seen[tag] != "" {
			t.Errorf("%s and %s have the tag %s", other, seen[tag], tag)
		}
		seen[tag] = other
	}
}

// TestHeaders is what every answer says of itself.
func TestHeaders(t *testing.T) {
	s := newService(t, Limits{})
	for target, want := range map[string][]string{
		"/v1/a.png":       {"X-Content-Type-Options: nosniff", "Cross-Origin-Resource-Policy: cross-origin", "Access-Control-Allow-Origin: *", "Vary: ", "Content-Security-Policy: "},
		"/v1/a.svg":       {"X-Content-Type-Options: nosniff", "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; sandbox", "Vary: "},
		"/v1/a":           {"Vary: Accept"},
		"/v1/a?size=1":    {"X-Content-Type-Options: nosniff", "Vary: "},
		"/":               {"X-Content-Type-Options: nosniff"},
		"/a":              {"Vary: "},
		"/api/?name=a":    {"Vary: "},
		"/v1/a/nothing/a": {"X-Content-Type-Options: nosniff"},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			w := ask(t, s, method, target)
			for _, line := range want {
				key, value, _ := strings.Cut(line, ": ")
				if got := w.Header().Get(key); got != value {
					t.Errorf("%s %s: %s is %q, want %q", method, target, key, got, value)
				}
			}
			if got, want := w.Header().Get("Content-Length"), fmt.Sprint(w.Body.Len()); got != want {
				t.Errorf("%s %s: Content-Length is %s, want %s", method, target, got, want)
			}
		}
	}
	for accept, want := range map[string]string{
		"image/avif,image/webp,image/svg+xml,*/*;q=0.8": "image/svg+xml", "image/svg+xml;q=0": "image/png",
		"image/svg+xml; q=0.0,*/*": "image/png", "*/*": "image/png", "image/*": "image/png", "IMAGE/SVG+XML": "image/svg+xml",
	} {
		if got := ask(t, s, "GET", "/v1/a", "Accept", accept).Header().Get("Content-Type"); got != want {
			t.Errorf("Accept: %s: %s, want %s", accept, got, want)
		}
		if got := ask(t, s, "GET", "/v1/a.png", "Accept", accept).Header().Get("Content-Type"); got != "image/png" {
			t.Errorf("a .png for Accept: %s: %s", accept, got)
		}
	}
}

// TestPage is the page with names that try to be more than names.
func TestPage(t *testing.T) {
	s := newService(t, Limits{})
	if body := ask(t, s, "GET", "/").Body.String(); !strings.Contains(body, "/v1/Ada%20Lovelace.png?size=128") {
		t.Errorf("no picture: %s", body)
	}
	for _, name := range []string{`"><script>alert(1)</script>`, `javascript:alert(1)`, "' onerror='x", "../../x", "{{.Name}}"} {
		for _, key := range []string{"name", "shape", "background", "color"} {
			body := ask(t, s, "GET", "/?"+url.Values{key: {name}}.Encode()).Body.String()
			if strings.Contains(body, "<script") || strings.Contains(body, "onerror='") || strings.Contains(body, `src="../`) || strings.Contains(body, `src="javascript`) {
				t.Errorf("%s=%s: %s", key, name, body)
			}
		}
	}
}

// TestSingleFlight has many ask for the same at once: it is drawn once.
func TestSingleFlight(t *testing.T) {
	s := newService(t, Limits{})
	release := holdCrew(t, s) // so that nobody is done before the others come
	var asking sync.WaitGroup
	for range 50 {
		asking.Go(func() {
			if w := ask(t, s, "GET", "/v1/John%20Doe.png?size=512"); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	awaitQueue(t, s, 1)
	release()
	asking.Wait()
	if st := s.Stats(); st.Masks.Misses != 1 {
		t.Errorf("drawn %d times", st.Masks.Misses)
	}
}

// TestBusy is 503 when a picture does not begin to be drawn in time, while what is there
// is served, and what is there in another colour.
func TestBusy(t *testing.T) {
	s := newService(t, Limits{Renders: 1, RenderWait: 1})
	s.prepare()
	s.store.wait = time.Hour
	if w := ask(t, s, "GET", "/v1/a.png"); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	s.store.wait = s.limits.RenderWait
	release := holdCrew(t, s)
	w := ask(t, s, "GET", "/v1/b.png")
	problem(t, w, "busy", 503)
	if w.Header().Get("Retry-After") == "" || w.Header().Get("Etag") != "" {
		t.Errorf("%v", w.Header())
	}
	for _, target := range []string{"/v1/a.png", "/v1/a.png?background=123456"} {
		if w := ask(t, s, "GET", target); w.Code != 200 {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	release()
	s.store.wait = time.Hour
	if w := ask(t, s, "GET", "/v1/b.png"); w.Code != 200 {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
	if st := s.Stats(); st.Busy != 1 || st.Failed != 0 {
		t.Errorf("%+v", st)
	}
}

// TestWaiting is 503 at once when as many pictures wait to be drawn as may.
func TestWaiting(t *testing.T) {
	s := newService(t, Limits{Renders: 1, Waiting: 2, RenderWait: time.Hour})
	release := holdCrew(t, s)
	var asking sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		asking.Go(func() {
			if w := ask(t, s, "GET", "/v1/"+name+".png"); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	awaitQueue(t, s, 2)
	problem(t, ask(t, s, "GET", "/v1/c.png"), "one too many", 503)
	release()
	asking.Wait()
	if w := ask(t, s, "GET", "/v1/c.png"); w.Code != 200 {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

// TestClosed draws nothing more.
func TestClosed(t *testing.T) {
	s := newService(t, Limits{})
	ask(t, s, "GET", "/v1/a.png")
	s.Close()
	problem(t, ask(t, s, "GET", "/v1/b.png"), "closed", 503)
	if w := ask(t, s, "GET", "/v1/a.png"); w.Code != 200 {
		t.Errorf("what is in the cache: %d %s", w.Code, w.Body)
	}
}

// TestDrawingPanics is told to the server, and takes nobody along.
func TestDrawingPanics(t *testing.T) {
	s := newService(t, Limits{})
	s.prepare()
	s.store.renderer = nil
	func() {
		defer func() {
			if err, _ := recover().(error); !errors.Is(err, workers.ErrPanicked) {
				t.Errorf("recovered %v", err)
			}
		}()
		ask(t, s, "GET", "/v1/a.png")
	}()
	if st := s.Stats(); st.Failed != 1 {
		t.Errorf("%+v", st)
	}
}

// TestCacheBytes asks for more than may be kept.
func TestCacheBytes(t *testing.T) {
	const limit = 256 << 10
	s := newService(t, Limits{CacheBytes: limit})
	for i := range 1500 {
		if w := ask(t, s, "GET", fmt.Sprintf("/v1/x%d%%F0%%9F%%8E%%89.png?size=%d&background=%06x", i, 16+i%240, i)); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if st := s.Stats(); st.Pictures.Bytes+st.Masks.Bytes > limit+(64<<10) {
			t.Fatalf("after %d: %d bytes of %d", i, st.Pictures.Bytes+st.Masks.Bytes, limit)
		}
	}
	s.store.pictures.CleanUp()
	s.store.masks.CleanUp()
	st := s.Stats()
	if st.Pictures.Bytes+st.Masks.Bytes > limit || st.Pictures.Evicted == 0 || st.Masks.Evicted == 0 {
		t.Errorf("%+v", st)
	}
}

// TestPanic is counted and logged, and goes on to the server.
func TestPanic(t *testing.T) {
	var lines bytes.Buffer
	log := &AccessLog{To: &lines}
	s := newService(t, Limits{})
	s.Log = log
	s.prepare()
	s.mux.HandleFunc("GET /v1/panic/now", func(http.ResponseWriter, *http.Request) { panic(errors.ErrUnsupported) })
	func() {
		defer func() {
			if recover() != errors.ErrUnsupported {
				t.Error("the panic has been swallowed")
			}
		}()
		ask(t, s, "GET", "/v1/panic/now")
	}()
	log.Close()
	if n := s.Stats().Failed; n != 1 || !strings.Contains(lines.String(), `"status":500`) {
		t.Errorf("%d failed; logged %s", n, lines.String())
	}
}

// quietWriter is a ResponseWriter that keeps nothing.
type quietWriter struct{ header http.Header }

func (w *quietWriter) Header() http.Header         { return w.header }
func (w *quietWriter) Write(b []byte) (int, error) { return len(b), nil }
func (w *quietWriter) WriteHeader(int)             {}

// TestCachedRequestAllocatesNothing is a request for what is in the cache, and for a 304,
// with the log on. Where the server is not http1, the two fields that each picture has for
// itself, its tag and its length, are allocated.
func TestCachedRequestAllocatesNothing(t *testing.T) {
	if testrun.Race {
		t.Skip("the race detector makes pools drop what they hold")
	}
	s := newService(t, Limits{})
	s.Log = &AccessLog{To: io.Discard}
	defer s.Log.Close()
	for _, target := range []string{
		"/v1/John.png?size=64", "/v1/John", "/v1/John.svg?shape=round&weight=bold&background=1e7e7e", "/hello?size=64",
		"/api/?name=John&size=64&background=fff", "/avatar/0bc83cb571cd1c500bc83cb571cd1c50?s=64&d=identicon", "/9.x/initials/svg?seed=John",
	} {
		tag := ask(t, s, "GET", target).Header().Get("Etag")
		for asked, most := range map[string]float64{"": 3, tag: 0} {
			r := httptest.NewRequest("GET", target, nil)
			if asked != "" {
				r.Header.Set("If-None-Match", asked)
			}
			w := &quietWriter{http.Header{}}
			n := testing.AllocsPerRun(500, func() {
				clear(w.header)
				s.ServeHTTP(w, r)
			})
			if n > most {
				t.Errorf("%s (If-None-Match: %s): %v allocations", target, asked, n)
			}
		}
	}
}

// TestCachedRequestCostsNoMoreThanHello compares the allocations of a cached picture, log
// included, with the least that http1 can be asked for.
func TestCachedRequestCostsNoMoreThanHello(t *testing.T) {
	if testrun.Race {
		t.Skip("the race detector makes pools drop what they hold")
	}
	hello := &http1.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })}
	s := newService(t, Limits{})
	s.Log = &AccessLog{To: io.Discard}
	defer s.Log.Close()
	type server interface {
		Serve(net.Listener) error
		Close() error
	}
	count := func(s server) float64 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		defer func() { s.Close(); <-served }()
		conn := dial(t, ln.Addr().String())
		request, answer := []byte("GET /v1/John.png HTTP/1.1\r\nHost: x\r\n\r\n"), make([]byte, 4096)
		return testing.AllocsPerRun(1000, func() {
			conn.Write(request)
			if _, err := conn.Read(answer); err != nil {
				t.Error(err)
			}
		})
	}
	least := count(hello)
	if n := count(&Server{Service: s}); n > least {
		t.Errorf("%v allocations a request, and %v of hello", n, least)
	}
	if st := s.Stats(); st.Pictures.Hits < 1000 {
		t.Errorf("%+v", st.Pictures)
	}
}
