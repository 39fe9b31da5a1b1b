package avatar

import (
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
)

// TestAbuse asks for everything that has brought such services down, and then looks at what is left of it.
func TestAbuse(t *testing.T) {
	const cache = 1 << 20
	s := newService(t, Limits{CacheBytes: cache})
	names := []string{
		"%00", "%FF%FE", "%E2%80%AE%E2%80%AEabc", "..%2f..%2f..%2fetc%2fpasswd", "..%5c..%5c", "%0d%0aSet-Cookie:%20a=b",
		"%3Cscript%3E", "%25s%25n", "%F0%9F%91%A9%E2%80%8D%F0%9F%9A%80", "H" + strings.Repeat("%CC%81", 500), strings.Repeat("a", 8000),
		strings.Repeat("%E5%BC%A0", 1000), "%EF%BF%BF", "%F4%8F%BF%BF", strings.Repeat("(", 250), strings.Repeat("@", 250), strings.Repeat("a@", 120),
	}
	forms := []string{
		"/avatar/%s", "/avatar/%s?size=1000000000", "/avatar/%s?size=-1", "/avatar/%s?size=abc",
		"/api/?name=%s&size=1e9&length=1000000000&font-size=1e308&format=svg", "/api/%s/-1/x/y/-5/-1/yes/no/yes/svg",
		"/avatar/0bc83cb571cd1c500bc83cb571cd1c50?d=initials&name=%s&s=1000000000", "/%s",
	}
	for _, name := range names {
		for _, form := range forms {
			target := strings.Replace(form, "%s", name, 1)
			w := ask(t, s, "GET", target)
			if w.Code >= 500 || w.Code == 200 && w.Body.Len() > 64<<10 || w.Header().Get("Set-Cookie") != "" {
				t.Errorf("%.80s: %d, %d bytes", target, w.Code, w.Body.Len())
			}
			if w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%.80s: %d %v", target, w.Code, w.Header())
			}
		}
	}
	n := 100_000
	if testing.Short() || testrun.Race {
		n = 5_000
	}
	before := heap()
	var asking sync.WaitGroup
	for g := range 16 {
		asking.Go(func() {
			for i := g; i < n; i += 16 {
				r := httptest.NewRequest("GET", fmt.Sprintf("/avatar/%c%c%d?size=%d", 'A'+i%26, 'a'+i/26%26, i, 16+i%48), nil)
				w := httptest.NewRecorder()
				if s.ServeHTTP(w, r); w.Code != 200 && w.Code != 503 {
					t.Errorf("%s: %d", r.URL, w.Code)
					return
				}
			}
		})
	}
	asking.Wait()
	if grown := heap() - before; grown > cache+(64<<20) {
		t.Errorf("%d distinct names have taken %d MiB", n, grown>>20)
	}
	if st := s.Stats(); st.Bytes > cache+(64<<10) {
		t.Errorf("%+v", st)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
