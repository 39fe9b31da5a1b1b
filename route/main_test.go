package route_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hone-go/hone/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience limits everything that a test waits for.
const patience = 20 * time.Second

// get sends a request to h; target is parsed as a server parses it.
func get(h http.Handler, method, target string) (*httptest.ResponseRecorder, *http.Request) {
	r := httptest.NewRequest(method, target, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w, r
}

// echoing registers patterns whose handlers answer with the pattern and its values.
func echoing(mux *route.Mux, patterns ...string) *route.Mux {
	for _, pattern := range patterns {
		mux.HandleParams(pattern, func(w http.ResponseWriter, _ *http.Request, p route.Params) {
			text := p.Pattern()
			for i := range p.Len() {
				text += " " + p.Name(i) + "=" + p.At(i)
			}
			w.Write([]byte(text))
		})
	}
	return mux
}

// httpAnswer sends h a request that a client would send.
func httpAnswer(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
