// Command images keeps pictures in an LRU cache, and encodes one for each request.
package main

import (
	"image"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/hone-go/hone/articles/5-avatar/draw"
	"github.com/hone-go/hone/articles/5-avatar/lru"
	"github.com/hone-go/hone/articles/stage"
)

type server struct {
	log     *log.Logger
	cache   lru.Cache[image.Image]
	drawing sync.Mutex // the face is not for several goroutines; the article has no lock
	drawer  *draw.Drawer
}

func main() {
	counts := new(stage.Counts)
	drawer, err := draw.New(128)
	if err != nil {
		log.Fatal(err)
	}
	s := &server{log: log.New(os.Stderr, "[avatar] ", log.LstdFlags), cache: lru.Cache[image.Image]{Most: 1000}, drawer: drawer}
	stage.Run(counts.Web(s), counts.Stats)
}

// ServeHTTP answers /avatar/NAME.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.log.Printf("Started %s %s for %s", r.Method, r.RequestURI, r.RemoteAddr)
	body, err := s.picture(strings.TrimPrefix(r.URL.Path, "/avatar/"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "image/png")
	w.Header().Set("Cache-Control", "max-age=600")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body)
	s.log.Printf("Completed %s 200 OK with %d bytes", r.RequestURI, len(body))
}

func (s *server) picture(name string) ([]byte, error) {
	initials := strings.ToUpper(string([]rune(strings.TrimSpace(name))[0])) // a blank name has none
	if kept, ok := s.cache.Get(initials); ok {
		return draw.Encode(kept)
	}
	s.drawing.Lock()
	drawn := s.drawer.Draw(initials, name)
	s.drawing.Unlock()
	s.cache.Put(initials, drawn)
	return draw.Encode(drawn)
}
