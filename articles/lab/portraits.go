package lab

import (
	"bytes"
	"container/list"
	"hash/fnv"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"

	"github.com/hone-go/hone/articles/avatar"
)

// step is one of the stages in the article's optimisation of its service.
type step uint8

const (
	drawEach     step = iota // nothing is cached
	keepImages               // images are cached, and encoded for each request
	keepEncoded              // encoded bytes are cached
	keepUnlogged             // the same without a log
)

// portraits is the article's avatar service at one of its steps, with the faults of its
// published code: a cache keyed by the initials alone, sizes without a bound, a panic for
// a blank name, and one font face for all. The face is locked here, or the service would
// not survive a measurement.
type portraits struct {
	step step
	log  *log.Logger // nil: no log

	cache   recent
	drawing sync.Mutex
	face    font.Face
}

const (
	usualSide   = 128 // pixels
	mostPicture = 1000
)

func newPortraits(s step) (*portraits, error) {
	face, err := newFace(usualSide)
	return &portraits{step: s, face: face, cache: recent{at: make(map[string]*list.Element)}}, err
}

// newFace parses the font and makes a face of it.
func newFace(side int) (font.Face, error) {
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return nil, err
	}
	return opentype.NewFace(parsed, &opentype.FaceOptions{Size: float64(side) / 2, DPI: 72})
}

// ServeHTTP answers /avatar/NAME?size=N.
func (s *portraits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.log != nil {
		s.log.Printf("Started %s %s for %s", r.Method, r.RequestURI, r.RemoteAddr)
	}
	side, err := strconv.Atoi(r.URL.Query().Get("size"))
	if err != nil {
		side = usualSide
	}
	body, err := s.picture(strings.TrimPrefix(r.URL.Path, "/avatar/"), side)
	status := http.StatusOK
	if err != nil {
		status = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "image/png")
	w.Header().Set("Cache-Control", "max-age=600")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body)
	if s.log != nil {
		s.log.Printf("Completed %s %d %s with %d bytes", r.RequestURI, status, http.StatusText(status), len(body))
	}
}

// picture returns the encoded picture of a name.
func (s *portraits) picture(name string, side int) ([]byte, error) {
	initials := strings.ToUpper(string([]rune(strings.TrimSpace(name))[0])) // a blank name has none
	if s.step == drawEach {
		face, err := newFace(side)
		if err != nil {
			return nil, err
		}
		return encode(drawOn(face, initials, name, side))
	}
	if kept, ok := s.cache.get(initials); ok {
		if s.step == keepImages {
			return encode(kept.(*image.RGBA))
		}
		return kept.([]byte), nil
	}
	s.drawing.Lock()
	drawn := drawOn(s.face, initials, name, side)
	s.drawing.Unlock()
	body, err := encode(drawn)
	if s.step == keepImages {
		s.cache.put(initials, drawn)
	} else {
		s.cache.put(initials, body)
	}
	return body, err
}

// drawOn draws letters in white on the name's colour.
func drawOn(face font.Face, letters, name string, side int) *image.RGBA {
	hash := fnv.New32a()
	hash.Write([]byte(name))
	sum := hash.Sum32()
	ground := color.RGBA{uint8(sum) | 0x40, uint8(sum>>8) | 0x40, uint8(sum>>16) | 0x40, 255}
	img := image.NewRGBA(image.Rect(0, 0, side, side))
	draw.Draw(img, img.Bounds(), image.NewUniform(ground), image.Point{}, draw.Src)
	d := font.Drawer{Dst: img, Src: image.White, Face: face}
	d.Dot = fixed.Point26_6{X: (fixed.I(side) - d.MeasureString(letters)) / 2, Y: fixed.I(side * 2 / 3)}
	d.DrawString(letters)
	return img
}

func encode(img *image.RGBA) ([]byte, error) {
	var out bytes.Buffer
	err := png.Encode(&out, img)
	return out.Bytes(), err
}

// recent is an LRU cache keyed by initials.
type recent struct {
	mu    sync.Mutex
	order list.List
	at    map[string]*list.Element
}

type recentEntry struct {
	key   string
	value any
}

func (c *recent) get(key string) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.at[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(recentEntry).value, true
}

func (c *recent) put(key string, value any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.at[key]; ok {
		c.order.Remove(old)
	}
	c.at[key] = c.order.PushFront(recentEntry{key, value})
	if c.order.Len() > mostPicture {
		last := c.order.Back()
		delete(c.at, c.order.Remove(last).(recentEntry).key)
	}
}

// logFile opens a temporary log file, removed when the stage ends.
func logFile() (*os.File, func(), error) {
	file, err := os.CreateTemp("", "hone-lab-*.log")
	if err != nil {
		return nil, nil, err
	}
	return file, func() {
		file.Close()
		os.Remove(file.Name())
	}, nil
}

// movedStage is the article's last step with one change: the server.
const movedStage = "article-http1"

func avatarStages() map[string]func() (*stage, error) {
	all := map[string]func() (*stage, error){
		movedStage: func() (*stage, error) {
			s, err := newPortraits(keepUnlogged)
			return onHTTP1(s), err
		},
		"hone-avatar": ownAvatar,
	}
	for i, name := range avatarSteps {
		all[name] = func() (*stage, error) { return portraitStage(step(i)) }
	}
	return all
}

// portraitStage runs one of the article's steps on net/http, as published.
func portraitStage(at step) (*stage, error) {
	s, err := newPortraits(at)
	if err != nil {
		return nil, err
	}
	forget := func() {}
	if at != keepUnlogged {
		var file *os.File
		if file, forget, err = logFile(); err != nil {
			return nil, err
		}
		s.log = log.New(file, "[portraits] ", log.LstdFlags)
	}
	served := onStd(s)
	closeServer := served.stop
	served.stop = func() { closeServer(); forget() }
	return served, nil
}

// ownAvatar runs hone's service.
func ownAvatar() (*stage, error) {
	fonts, err := avatar.OpenFonts(avatar.FontOptions{Places: []string{}})
	if err != nil {
		return nil, err
	}
	service := &avatar.Service{Fonts: fonts}
	server := &avatar.Server{Service: service}
	return &stage{serve: server.Serve, stop: func() { server.Close(); service.Close() }}, nil
}
