package web

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestSizes(t *testing.T) {
	if len(line) != 32 || len(page) != 2048 || len(picture) != 700 {
		t.Errorf("a line has %d bytes, the page %d, the picture %d", len(line), len(page), len(picture))
	}
}

// TestAnswers asks the handler for everything.
func TestAnswers(t *testing.T) {
	handler := Handler(nil)
	for _, path := range []string{HelloPath, PagePath, PicturePath, "/"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		want, found := Body(path)
		if found != (w.Code == http.StatusOK) || found && w.Body.String() != want {
			t.Errorf("%s: %d, %d bytes", path, w.Code, w.Body.Len())
		}
		if path == PicturePath && len(w.Header()) != 6 {
			t.Errorf("a picture is answered with %d headers before Content-Length and Date", len(w.Header()))
		}
	}
}
