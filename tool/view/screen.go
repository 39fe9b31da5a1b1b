// Package view shows the progress of a command: as a picture on a terminal that can draw,
// and in lines elsewhere.
package view

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	frameTime = time.Second / 4

	// stuckTime is how long a terminal may accept no output before the command ends
	// without clearing it.
	stuckTime = 2 * time.Second
)

// screen shows a picture below the existing output of a terminal, redraws it four times a
// second, and removes it at the end. It draws from the latest values, so that callers
// that update them never wait for the terminal.
//
// The terminal is in its original state whenever no picture is shown: after close, while
// the command is stopped (Ctrl-Z) or in the background, and when a signal ends it.
type screen struct {
	to      *os.File
	colours palette
	began   time.Time

	mu      sync.Mutex
	picture picture // and the values that it is made of

	closing chan struct{}
	once    sync.Once
	closed  chan struct{}
}

// openScreen shows p on w, a terminal. Close it in a defer, too, for the case of a panic.
func openScreen(w io.Writer, p picture) *screen {
	s := &screen{
		to: w.(*os.File), colours: newPalette(wantsColour()), began: time.Now(), picture: p,
		closing: make(chan struct{}), closed: make(chan struct{}),
	}
	go s.run()
	return s
}

// change updates the picture.
func (s *screen) change(how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
}

// age returns the time since it was opened.
func (s *screen) age() time.Duration { return time.Since(s.began) }

// close removes the picture and reports whether it was still open.
func (s *screen) close() (was bool) {
	if s == nil {
		return false
	}
	s.once.Do(func() {
		was = true
		close(s.closing)
		select {
		case <-s.closed:
		case <-time.After(stuckTime):
		}
	})
	return was
}

// run is the screen's goroutine: only it shows and hides the picture.
func (s *screen) run() {
	defer close(s.closed)
	jobs := watchJobs()
	defer jobs.stop()
	ticker := time.NewTicker(frameTime)
	defer ticker.Stop()
	shown := s.show()
	for {
		select {
		case <-s.closing:
			shown.hide()
			return
		case <-shown.ended():
			shown.keys.giveBack()
			return // the error has been reported; the command goes on without a view
		case sig := <-jobs.signals:
			shown.hide()
			jobs.obey(sig)
			shown = s.show()
		case <-ticker.C:
			if !shown.fits() {
				shown.hide()
				shown = s.show()
			}
			shown.draw()
		}
	}
}

// showing is the period from showing a picture until it is hidden.
type showing struct {
	screen        *screen
	width, height int // of the terminal
	keys          *keyboard
	frames        chan []string // the next frame; a newer one replaces it
	over          chan struct{}
	drawn         []string // the lines on the terminal; of write until over
}

// show shows the picture; nil in the background.
func (s *screen) show() *showing {
	width, height, known := sizeOf(s.to)
	if !known || !inForeground(s.to) {
		return nil
	}
	w := &showing{screen: s, width: width, height: height, keys: takeKeyboard(), frames: make(chan []string, 1), over: make(chan struct{})}
	go w.write()
	w.draw()
	return w
}

// fits reports whether the picture is shown, on a terminal that has the same size as at
// first. A terminal that changes its width breaks lines anew.
func (w *showing) fits() bool {
	if w == nil {
		return false
	}
	width, height, known := sizeOf(w.screen.to)
	return !known || width == w.width && height == w.height
}

// draw redraws the picture. The last line of the terminal stays free, so that nothing
// scrolls.
func (w *showing) draw() {
	if w == nil {
		return
	}
	s := w.screen
	s.mu.Lock()
	frame := render(s.picture, time.Since(s.began), w.width, w.height-1, s.colours)
	s.mu.Unlock()
	select {
	case <-w.frames: // the terminal is slow: it never gets this one
	default:
	}
	w.frames <- strings.Split(frame, "\n")
}

// write writes frames until there are no more: what has changed, from the first line on.
func (w *showing) write() {
	defer close(w.over)
	out := "\x1b[?25l" // hides the cursor
	for frame := range w.frames {
		for len(frame) < len(w.drawn) { // a picture never gets shorter: the position of its end would be lost
			frame = append(frame, "")
		}
		if slices.Equal(frame, w.drawn) {
			continue
		}
		out += top(len(w.drawn))
		for i, line := range frame {
			if i > 0 {
				out += "\r\n"
			}
			if i >= len(w.drawn) || line != w.drawn[i] {
				out += "\x1b[K" + line
			}
		}
		if _, err := io.WriteString(w.screen.to, out); err != nil {
			return // the terminal is gone
		}
		w.drawn, out = frame, ""
	}
}

// top moves the cursor from the last line of a picture to the beginning of its first one.
func top(tall int) string {
	if tall < 2 {
		return "\r"
	}
	return "\r\x1b[" + strconv.Itoa(tall-1) + "A"
}

// ended is closed when nothing can be shown any more.
func (w *showing) ended() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.over
}

// hide removes the picture and restores the keyboard.
func (w *showing) hide() {
	if w == nil {
		return
	}
	w.keys.giveBack() // first: it does not wait for the terminal
	close(w.frames)
	<-w.over
	io.WriteString(w.screen.to, top(len(w.drawn))+"\x1b[J\x1b[?25h") // a terminal that is gone needs no clearing
}
