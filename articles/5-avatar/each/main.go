// Command each is the article's first service: an object, a drawing and an encoding for each request.
package main

import (
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/hone-go/hone/articles/5-avatar/draw"
	"github.com/hone-go/hone/articles/stage"
)

type server struct {
	log *log.Logger
}

func main() {
	counts := new(stage.Counts)
	s := &server{log: log.New(os.Stderr, "[avatar] ", log.LstdFlags)}
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
	drawer, err := draw.New(128)
	if err != nil {
		return nil, err
	}
	return draw.Encode(drawer.Draw(initials, name))
}
