package web

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestSizes(t *testing.T) {
	if len(line) != 32 || len(page) != 2048 || len(picture) != 700 {
		t.Errorf("a line has %d bytes, the page %d, the picture %d", len(line), len(page), len(picture))
	}
}

// TestQuestionsAreAnswered by the handler, as net/http reads them.
func TestQuestionsAreAnswered(t *testing.T) {
	for _, q := range Questions() {
		in := bufio.NewReader(bytes.NewReader(q.Request))
		r, err := http.ReadRequest(in)
		if err != nil {
			t.Errorf("%s: %v", q.Name, err)
			continue
		}
		w := httptest.NewRecorder()
		Handler(nil).ServeHTTP(w, r)
		if rest, err := io.ReadAll(r.Body); w.Code != http.StatusOK || w.Body.String() != q.Body || len(rest) > 0 || err != nil || in.Buffered() > 0 {
			t.Errorf("%s: %d, %d bytes; %d bytes of the request are left, %v", q.Name, w.Code, w.Body.Len(), in.Buffered(), err)
		}
		if q.Name == "picture" && len(w.Header()) != 6 {
			t.Errorf("a picture is answered with %d headers before Content-Length and Date", len(w.Header()))
		}
	}
	if _, err := Named("nonsense"); err == nil {
		t.Error("a question of no name is found")
	}
	w := httptest.NewRecorder()
	if Handler(nil).ServeHTTP(w, httptest.NewRequest("GET", "/", nil)); w.Code != http.StatusNotFound {
		t.Errorf("an unknown path is answered with %d", w.Code)
	}
}
