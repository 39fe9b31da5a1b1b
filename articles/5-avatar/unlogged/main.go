// Command unlogged is the same without a log.
package main

import (
	"log"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/hone-go/hone/articles/5-avatar/draw"
	"github.com/hone-go/hone/articles/5-avatar/lru"
	"github.com/hone-go/hone/articles/stage"
)

type server struct {
	cache   lru.Cache[[]byte]
	drawing sync.Mutex // the face is not for several goroutines; the article has no lock
	drawer  *draw.Drawer
}

func main() {
	counts := new(stage.Counts)
	drawer, err := draw.New(128)
	if err != nil {
		log.Fatal(err)
	}
	s := &server{cache: lru.Cache[[]byte]{Most: 1000}, drawer: drawer}
	stage.Run(counts.Web(s), counts.Stats)
}

// ServeHTTP answers /avatar/NAME.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := s.picture(strings.TrimPrefix(r.URL.Path, "/avatar/"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "image/png")
	w.Header().Set("Cache-Control", "max-age=600")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
}

func (s *server) picture(name string) ([]byte, error) {
	initials := strings.ToUpper(string([]rune(strings.TrimSpace(name))[0])) // a blank name has none
	if kept, ok := s.cache.Get(initials); ok {
		return kept, nil
	}
	s.drawing.Lock()
	drawn := s.drawer.Draw(initials, name)
	s.drawing.Unlock()
	body, err := draw.Encode(drawn)
	s.cache.Put(initials, body)
	return body, err
}
