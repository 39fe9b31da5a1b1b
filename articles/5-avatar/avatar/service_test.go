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
		if err := s.crew.Go(t.Context(), func() { held <- true; <-end }); err != nil {
			t.Fatal(err)
		}
		<-held
	}
	return sync.OnceFunc(func() { close(end) })
}

// awaitQueue waits until so many pictures wait to be drawn.
func awaitQueue(t *testing.T, s *Service, n int) {
	t.Helper()
	for until := time.Now().Add(patience); s.crew.Stats().Queued < n; runtime.Gosched() {
		if time.Now().After(until) {
			t.Fatalf("%+v", s.crew.Stats())
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
	contentType := map[Format]string{PNG: "image/png", SVG: "image/svg+xml"}[want.Format]
	if w.Code != 200 || w.Header().Get("Content-Type") != contentType || !bytes.Equal(w.Body.Bytes(), drawn(t, s.Fonts, want)) {
		t.Errorf("GET %s: %d %s, %d bytes; want %+v", target, w.Code, w.Header().Get("Content-Type"), w.Body.Len(), want)
	}
}

// letters are a picture of them, white on the name's colour.
func letters(text string, size uint16, name string) Picture {
	p := Picture{Size: size, Scale: 50, Background: colourOf(name), Ink: white}
	copy(p.Letters[:], []rune(text))
	return p
}

func (p Picture) with(change func(*Picture)) Picture {
	change(&p)
	return p
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
	problem(t, ask(t, s, "GET", "/"), "/", 404)
	problem(t, ask(t, s, "GET", "/avatar/a/b"), "/avatar/a/b", 404)
	w := ask(t, s, "POST", "/avatar/a")
	problem(t, w, "POST", 405)
	if w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow: %q", w.Header().Get("Allow"))
	}
	if w := ask(t, s, "GET", "/avatar/../../etc/passwd"); w.Code != 307 || w.Header().Get("Location") != "/etc/passwd" {
		t.Errorf("a path with ..: %d %v", w.Code, w.Header())
	}
	if st := s.Stats(); st.Refused != 3 {
		t.Errorf("%+v", st)
	}
}

// TestArticleForm is the form of the article.
func TestArticleForm(t *testing.T) {
	s := newService(t, Limits{})
	shows(t, s, "/avatar/bdsad", letters("B", 128, "bdsad"))
	shows(t, s, "/avatar/John%20Doe?size=64", letters("JD", 64, "John Doe"))
	shows(t, s, "/avatar/%20John%20%20Doe%20?size=", letters("JD", 128, "John Doe"))
	shows(t, s, "/avatar/Jos%C3%A9%20%C3%81lvarez", letters("JÁ", 128, "José Álvarez"))
	shows(t, s, "/avatar/Jose%CC%81%20A%CC%81lvarez", letters("JÁ", 128, "José Álvarez")) // not composed
	shows(t, s, "/avatar/%F0%9F%8E%89", letters("", 128, "🎉"))                            // no font has it
	shows(t, s, "/avatar/a%2Fb%20c", letters("AC", 128, "a/b c"))
	shows(t, s, "/avatar/..%2F..%2Fetc", letters("E", 128, "../../etc")) // text like any other
	problem(t, ask(t, s, "GET", "/avatar/hello?size=abc"), "abc", 400)
	shows(t, s, "/avatar/"+strings.Repeat("a", 257), letters("A", 128, strings.Repeat("a", 64)))
	shows(t, s, "/avatar/"+strings.Repeat("a%CC%81", 80), letters("Á", 128, strings.Repeat("á", 64)))
	if st := s.Stats(); st.NameTooLong != 2 || st.SizeClamped != 0 || st.Refused != 1 {
		t.Errorf("%+v", st)
	}
}

// The faults of the article's service, by name.

func TestSeedFaultCacheKeyOfInitialsOnly(t *testing.T) {
	s := newService(t, Limits{})
	for range 2 { // from the cache as well
		shows(t, s, "/avatar/John%20Doe?size=64", letters("JD", 64, "John Doe"))
		shows(t, s, "/avatar/Jane%20Dee?size=64", letters("JD", 64, "Jane Dee")) // another colour
		shows(t, s, "/avatar/John%20Doe?size=96", letters("JD", 96, "John Doe"))
	}
	if st := s.Stats(); st.Drawn != 3 || st.Hits != 3 || st.Pictures != 3 {
		t.Errorf("%+v", st)
	}
}

func TestSeedFaultUnboundedSize(t *testing.T) {
	s := newService(t, Limits{Size: 256})
	for _, size := range []string{"257", "1000000000", "99999999999999999999999"} {
		shows(t, s, "/avatar/hello?size="+size, letters("H", 256, "hello"))
	}
	for _, size := range []string{"0", "-1", "-99999999999999999999999"} {
		shows(t, s, "/avatar/hello?size="+size, letters("H", 16, "hello"))
	}
	if n := s.Stats().SizeClamped; n != 6 {
		t.Errorf("%d sizes were clamped", n)
	}
}

func TestSeedFaultBlankNamePanics(t *testing.T) {
	s := newService(t, Limits{})
	for _, name := range []string{"%20", "%00", "%FF"} {
		shows(t, s, "/avatar/"+name, letters("", 128, ""))
	}
	shows(t, s, "/avatar/...", letters("", 128, "..."))
}

func TestSeedFaultSharedFontFace(t *testing.T) {
	s := newService(t, Limits{Renders: 8, RenderWait: time.Hour})
	var drawing sync.WaitGroup
	for g := range 8 {
		drawing.Go(func() {
			for i := range 208 {
				letter := string(rune('A' + (i*(2*g+1)+g)%26))
				shows(t, s, fmt.Sprintf("/avatar/%s%d?size=%d", letter, g, 64+i/26), letters(letter, uint16(64+i/26), letter+fmt.Sprint(g)))
			}
		})
	}
	drawing.Wait()
}

// TestGravatarForm is what Gravatar and Libravatar document, for hashes that nobody has uploaded a
// picture for.
func TestGravatarForm(t *testing.T) {
	s := newService(t, Limits{})
	md5, sha := strings.Repeat("0bc83cb571cd1c50", 2), strings.Repeat("0bc83cb571cd1c50", 4)
	shows(t, s, "/avatar/"+md5, letters("", 80, md5))
	shows(t, s, "/avatar/"+strings.ToUpper(md5), letters("", 80, md5))
	shows(t, s, "/avatar/"+sha+".png?s=200&d=retro", letters("", 200, sha))
	shows(t, s, "/avatar/"+md5+".jpg?size=2048&r=pg&f=y&d=identicon", letters("", 512, md5))
	shows(t, s, "/avatar/"+md5+"?s=1&d=mp", letters("", 16, md5))
	shows(t, s, "/avatar/"+md5+"?s=abc", letters("", 80, md5))
	shows(t, s, "/avatar/"+md5+"?d=https%3A%2F%2Fexample.com%2Fa.png", letters("", 80, md5)) // no redirect
	shows(t, s, "/avatar/"+md5+"?d=initials&name=John+Doe", letters("JD", 80, md5))
	shows(t, s, "/avatar/"+md5+"?d=initials&initials=XY&name=John+Doe", letters("XY", 80, md5))
	shows(t, s, "/avatar/"+md5+"?default=blank", Picture{Size: 80, Scale: 50, Ink: white, Shape: Blank})
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
	shows(t, s, "/api/?name=Elon+Musk&background=0D8ABC&color=fff", usual("EM", 64).with(func(p *Picture) { p.Background, p.Ink = rgb(0x0d8abc), white }))
	shows(t, s, "/api/?name=Elon+Musk&background=random&color=fff", letters("EM", 64, "Elon Musk"))
	shows(t, s, "/api/?name=Elon+Musk&font-size=0.33&rounded=true&bold=true", usual("EM", 64).with(func(p *Picture) { p.Scale, p.Shape, p.Bold = 33, Round, true }))
	shows(t, s, "/api/?name=Elon+Musk&format=svg", usual("EM", 64).with(func(p *Picture) { p.Format = SVG }))
	shows(t, s, "/api/Elon+Musk", usual("EM", 64))
	shows(t, s, "/api/Elon%20Musk/128/0D8ABC/fff/2/0.5/true/true/true/svg", usual("EM", 128).with(func(p *Picture) {
		p.Background, p.Ink, p.Shape, p.Bold, p.Format = rgb(0x0d8abc), white, Round, true, SVG
	}))
	shows(t, s, "/api/?name=Elon+Musk&size=abc&background=zz&font-size=NaN&length=x", usual("E", 64))
}

// TestConditional is 304 before anything is drawn, and only then.
func TestConditional(t *testing.T) {
	s := newService(t, Limits{})
	const target = "/avatar/John%20Doe"
	tag := string(letters("JD", 128, "John Doe").appendTag(nil, s.Fonts.fingerprint))
	for _, asked := range []string{tag, "W/" + tag, `"x", ` + tag, `"x",` + tag + `,"y"`, "*"} {
		w := ask(t, s, "GET", target, "If-None-Match", asked)
		h := w.Header()
		if w.Code != 304 || w.Body.Len() != 0 || h.Get("Etag") != tag || !strings.Contains(h.Get("Cache-Control"), "max-age=") {
			t.Errorf("If-None-Match: %s: %d %v", asked, w.Code, h)
		}
	}
	if st := s.Stats(); st.Drawn != 0 || st.Hits != 0 || st.NotModified != 5 {
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
	for _, query := range []string{
		"", "&format=svg", "&size=65", "&rounded=1", "&bold=1", "&background=000", "&color=f00", "&length=1", "&font-size=0.4", "&uppercase=0",
	} {
		tag := ask(t, s, "GET", "/api/?name=john+Doe"+query).Header().Get("Etag")
		if other, ok := seen[tag]; ok || tag == "" {
			t.Errorf("%q and %q have the tag %s", query, other, tag)
		}
		seen[tag] = query
	}
}

// TestHeaders is what every answer says of itself.
func TestHeaders(t *testing.T) {
	s := newService(t, Limits{})
	for target, want := range map[string][]string{
		"/avatar/a":               {"X-Content-Type-Options: nosniff", "Cross-Origin-Resource-Policy: cross-origin", "Access-Control-Allow-Origin: *"},
		"/api/?name=a&format=svg": {"X-Content-Type-Options: nosniff", "Content-Security-Policy: default-src 'none'; sandbox"},
		"/avatar/a?size=x":        {"X-Content-Type-Options: nosniff"},
		"/nothing":                {"X-Content-Type-Options: nosniff"},
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
}

// TestSVGIsSafe looks for what an image in a page must not have. There is nothing of the request in
// it but colours and a size.
func TestSVGIsSafe(t *testing.T) {
	s := newService(t, Limits{})
	for _, name := range []string{"Émile Ångström", "O'Brien & Co", `<script>alert(1)</script>`, `" onload="x`, "&amp;"} {
		made := ask(t, s, "GET", "/api/?format=svg&rounded=1&name="+url.QueryEscape(name)).Body.String()
		if !strings.HasSuffix(made, "</svg>") || strings.ContainsAny(made, "&;()") || strings.Contains(made, "script") || strings.Contains(made, "on") {
			t.Errorf("%q: %s", name, made)
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
			if w := ask(t, s, "GET", "/avatar/John%20Doe?size=512"); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	awaitQueue(t, s, 1)
	release()
	asking.Wait()
	if st := s.Stats(); st.Drawn != 1 {
		t.Errorf("drawn %d times", st.Drawn)
	}
}

// TestBusy is 503 when a picture does not begin to be drawn in time, while what is there is served.
func TestBusy(t *testing.T) {
	s := newService(t, Limits{Renders: 1, RenderWait: time.Hour})
	if w := ask(t, s, "GET", "/avatar/a"); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	s.limits.RenderWait = 1
	release := holdCrew(t, s)
	w := ask(t, s, "GET", "/avatar/b")
	problem(t, w, "busy", 503)
	if w.Header().Get("Retry-After") == "" || w.Header().Get("Etag") != "" {
		t.Errorf("%v", w.Header())
	}
	if w := ask(t, s, "GET", "/avatar/a"); w.Code != 200 {
		t.Errorf("from the cache: %d %s", w.Code, w.Body)
	}
	release()
	s.limits.RenderWait = time.Hour
	if w := ask(t, s, "GET", "/avatar/b"); w.Code != 200 {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
	if st := s.Stats(); st.Busy != 1 {
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
			if w := ask(t, s, "GET", "/avatar/"+name); w.Code != 200 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	awaitQueue(t, s, 2)
	problem(t, ask(t, s, "GET", "/avatar/c"), "one too many", 503)
	release()
	asking.Wait()
	if w := ask(t, s, "GET", "/avatar/c"); w.Code != 200 {
		t.Errorf("afterwards: %d %s", w.Code, w.Body)
	}
}

// TestClosed draws nothing more.
func TestClosed(t *testing.T) {
	s := newService(t, Limits{})
	ask(t, s, "GET", "/avatar/a")
	s.Close()
	problem(t, ask(t, s, "GET", "/avatar/b"), "closed", 503)
	if w := ask(t, s, "GET", "/avatar/a"); w.Code != 200 {
		t.Errorf("what is in the cache: %d %s", w.Code, w.Body)
	}
}

// TestDrawingPanics is told to the server, and takes nobody along.
func TestDrawingPanics(t *testing.T) {
	s := newService(t, Limits{})
	s.prepare()
	s.painters.New = func() *painter { panic(errors.ErrUnsupported) }
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, workers.ErrPanicked) {
			t.Errorf("recovered %v", err)
		}
	}()
	ask(t, s, "GET", "/avatar/a")
}

// TestCacheBytes asks for more than may be kept.
func TestCacheBytes(t *testing.T) {
	const limit = 256 << 10
	s := newService(t, Limits{CacheBytes: limit})
	for i := range 1500 {
		if w := ask(t, s, "GET", fmt.Sprintf("/avatar/x%d?size=%d", i, 16+i%240)); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if st := s.Stats(); st.Bytes > limit+(64<<10) {
			t.Fatalf("after %d: %d bytes of %d", i, st.Bytes, limit)
		}
	}
	s.pictures.CleanUp()
	if st := s.Stats(); st.Bytes > limit || st.Evicted == 0 {
		t.Errorf("%+v", st)
	}
}

// quietWriter is a ResponseWriter that keeps nothing.
type quietWriter struct{ header http.Header }

func (w *quietWriter) Header() http.Header         { return w.header }
func (w *quietWriter) Write(b []byte) (int, error) { return len(b), nil }
func (w *quietWriter) WriteHeader(int)             {}

// TestCachedRequestAllocates is a request for what is in the cache, and for a 304. Where the server is
// not http1, the two fields that each picture has for itself, its tag and its length, are allocated.
func TestCachedRequestAllocates(t *testing.T) {
	if testrun.Race {
		t.Skip("the race detector makes pools drop what they hold")
	}
	s := newService(t, Limits{})
	for _, target := range []string{
		"/avatar/John?size=64", "/api/?name=John&size=64&background=fff", "/avatar/0bc83cb571cd1c500bc83cb571cd1c50?s=64&d=identicon",
	} {
		tag := ask(t, s, "GET", target).Header().Get("Etag")
		for asked, most := range map[string]float64{"": 3, tag: 2} {
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

// TestCachedRequestCostsNoMoreThanHello compares the allocations of a cached picture with the least
// that http1 can be asked for.
func TestCachedRequestCostsNoMoreThanHello(t *testing.T) {
	if testrun.Race {
		t.Skip("the race detector makes pools drop what they hold")
	}
	hello := &http1.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })}
	s := newService(t, Limits{})
	count := func(s *http1.Server) float64 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(ln) }()
		defer func() { s.Close(); <-served }()
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		request, answer := []byte("GET /avatar/John HTTP/1.1\r\nHost: x\r\n\r\n"), make([]byte, 4096)
		return testing.AllocsPerRun(1000, func() {
			conn.Write(request)
			if _, err := conn.Read(answer); err != nil {
				t.Error(err)
			}
		})
	}
	least := count(hello)
	if n := count(&http1.Server{Handler: s}); n > least {
		t.Errorf("%v allocations a request, and %v of hello", n, least)
	}
	if st := s.Stats(); st.Hits < 1000 {
		t.Errorf("%+v", st)
	}
}
