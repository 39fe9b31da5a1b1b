package lab

import (
	"bytes"
	"image"
	"image/png"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"golang.org/x/image/math/fixed"

	"github.com/hone-go/hone/articles/avatar"
)

// The faults of the article's published service: each is present in the rebuilt stage and
// absent from ours.

func ownService(t *testing.T) *avatar.Service {
	t.Helper()
	fonts, err := avatar.OpenFonts(avatar.FontOptions{Places: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	service := &avatar.Service{Fonts: fonts}
	t.Cleanup(service.Close)
	return service
}

func articleService(t *testing.T) *portraits {
	t.Helper()
	s, err := newPortraits(keepEncoded)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fetched(t *testing.T, h http.Handler, path string) []byte {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.Bytes()
}

func pictureOf(t *testing.T, h http.Handler, path string) image.Image {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(fetched(t, h, path)))
	if err != nil {
		t.Fatal(err)
	}
	return picture
}

// TestCacheKeyOfInitials shows that Ann gets the colour and size of Adam, who came first.
func TestCacheKeyOfInitials(t *testing.T) {
	alone := fetched(t, articleService(t), "/avatar/Ann?size=64")
	article := articleService(t)
	first := fetched(t, article, "/avatar/Adam?size=128")
	if got := fetched(t, article, "/avatar/Ann?size=64"); !bytes.Equal(got, first) || bytes.Equal(got, alone) {
		t.Error("the article's service does not confuse names with the same initial any more: the fault is not rebuilt")
	}
	alone = fetched(t, ownService(t), "/avatar/Ann?size=64")
	own := ownService(t)
	fetched(t, own, "/avatar/Adam?size=128")
	if got := fetched(t, own, "/avatar/Ann?size=64"); !bytes.Equal(got, alone) {
		t.Error("ours gave Ann another picture because Adam had asked before")
	}
}

// TestSizeWithoutBound shows that any client can make the article's service allocate
// without bound.
func TestSizeWithoutBound(t *testing.T) {
	const side = 2000
	if got := pictureOf(t, articleService(t), "/avatar/a?size=2000").Bounds().Dx(); got != side {
		t.Errorf("the article's service drew %d pixels, not what was asked for: the fault is not rebuilt", got)
	}
	if got := pictureOf(t, ownService(t), "/avatar/a?size=2000").Bounds().Dx(); got > 512 {
		t.Errorf("ours drew %d pixels", got)
	}
}

// TestBlankName shows that a blank name panics, and the client gets no answer.
func TestBlankName(t *testing.T) {
	ask := func(h http.Handler) (int, error) {
		server := httptest.NewUnstartedServer(h)
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // the panic is expected
		server.Start()
		defer server.Close()
		defer server.Client().CloseIdleConnections()
		resp, err := server.Client().Get(server.URL + "/avatar/%20")
		if err != nil {
			return 0, err
		}
		resp.Body.Close()
		return resp.StatusCode, nil
	}
	if code, err := ask(articleService(t)); err == nil {
		t.Errorf("the article's service answered a blank name with %d: the fault is not rebuilt", code)
	}
	if code, err := ask(ownService(t)); err != nil || code >= 500 {
		t.Errorf("ours: %d, %v", code, err)
	}
}

// TestSharedFace shows that a font face draws every letter into the same memory: of two
// requests that share it, one sends the other's letter or half of each. The test steps by
// hand through one possible order. In ours, each reader of a glyph owns what it needs.
func TestSharedFace(t *testing.T) {
	s := articleService(t)
	_, adams, _, _, ok := s.face.Glyph(fixed.Point26_6{}, 'A')
	if !ok {
		t.Fatal("no A")
	}
	before := pixels(adams)
	if _, _, _, _, ok := s.face.Glyph(fixed.Point26_6{}, 'W'); !ok { // another request's, before Adam's is drawn
		t.Fatal("no W")
	}
	if bytes.Equal(before, pixels(adams)) {
		t.Error("Adam's letter is still his: the fault is not rebuilt")
	}

	own := ownService(t)
	paths := []string{"/avatar/Adam?size=128", "/avatar/Willa?size=128", "/avatar/Mo?size=128", "/avatar/Ian?size=128"}
	var want [][]byte
	for _, path := range paths {
		want = append(want, fetched(t, ownService(t), path))
	}
	var all sync.WaitGroup
	for i, path := range paths {
		all.Go(func() {
			w := httptest.NewRecorder()
			own.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			if !bytes.Equal(w.Body.Bytes(), want[i]) {
				t.Errorf("%s: another picture when others are drawn at the same time", path)
			}
		})
	}
	all.Wait()
}

// pixels copies the pixels of a mask.
func pixels(img image.Image) []byte {
	var all []byte
	for y := img.Bounds().Min.Y; y < img.Bounds().Max.Y; y++ {
		for x := img.Bounds().Min.X; x < img.Bounds().Max.X; x++ {
			_, _, _, a := img.At(x, y).RGBA()
			all = append(all, byte(a>>8))
		}
	}
	return all
}

// TestStepsSendTheSame checks that the compared steps send the same picture for the same
// name.
func TestStepsSendTheSame(t *testing.T) {
	var want []byte
	for _, name := range avatarSteps {
		s := startStage(t, name)
		client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
		for range 2 { // drawn, then from the cache
			resp, err := client.Get("http://" + s.addr + "/avatar/a?size=128")
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s, %v", name, resp.Status, err)
			}
			if want == nil {
				want = got
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s sends another picture", name)
			}
		}
	}
}

func TestCacheForgets(t *testing.T) {
	s := articleService(t)
	for i := range mostPicture + 10 {
		s.cache.put(string(rune('一'+i)), i)
	}
	if n := len(s.cache.at); n != mostPicture || s.cache.order.Len() != n {
		t.Errorf("%d kept, in a list of %d; want %d", n, s.cache.order.Len(), mostPicture)
	}
	if _, ok := s.cache.get("一"); ok {
		t.Error("the oldest was kept")
	}
}
