// Package view draws what a command does on a terminal while it does it, or says it in lines
// where no pictures can be drawn.
package view

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
)

const (
	framesPerSecond = 4
	frameTime       = time.Second / framesPerSecond

	// stuckTime is how long a terminal may take nothing before the command ends
	// without having cleared it.
	stuckTime = 2 * time.Second
)

// screen shows a picture below what is on a terminal already, draws it anew four
// times a second, and takes it away in the end. It draws from what it was told
// last, so that nobody who tells it something waits for the terminal.
//
// The terminal is as it was whenever nothing is shown: after close, while the
// command is stopped (Ctrl-Z) or in the background, and when a signal ends it.
type screen struct {
	to      *os.File
	colours palette
	began   time.Time

	mu      sync.Mutex
	picture picture // and all that it is made from
	tall    int     // lines on the terminal

	resized chan struct{} // the terminal has another size
	closing chan struct{}
	once    sync.Once
	closed  chan struct{}
}

// openScreen shows p on w, a terminal. Close it, in a defer too, for the case of
// panics.
func openScreen(w io.Writer, p picture) *screen {
	s := &screen{
		to: w.(*os.File), colours: newPalette(wantsColour()), began: time.Now(), picture: p,
		resized: make(chan struct{}, 1), closing: make(chan struct{}), closed: make(chan struct{}),
	}
	go s.run()
	return s
}

// change changes the picture.
func (s *screen) change(how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
}

// age is the time since it was opened.
func (s *screen) age() time.Duration { return time.Since(s.began) }

// close takes the picture away and reports whether there was one until now.
func (s *screen) close() (was bool) {
	if s == nil {
		return false
	}
	s.once.Do(func() {
		was = true
		close(s.closing)
		patience := time.NewTimer(stuckTime)
		defer patience.Stop()
		select {
		case <-s.closed:
		case <-patience.C:
		}
	})
	return was
}

// run is the screen's own goroutine: it alone shows and hides.
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
			return // what went wrong has been said; the command goes on without
		case <-s.resized:
			shown.hide()
			shown = s.show()
		case sig := <-jobs.signals:
			shown.hide()
			jobs.obey(sig)
			shown = s.show()
		case <-ticker.C:
			if shown == nil {
				shown = s.show()
			}
			shown.draw()
		}
	}
}

// showing is the time from when a picture is shown to when it is hidden.
type showing struct {
	screen  *screen
	program *tea.Program
	keys    *keyboard
	over    chan struct{}
}

// show shows the picture; nil in the background.
func (s *screen) show() *showing {
	if !inForeground(s.to) {
		return nil
	}
	s.tall = 0 // nothing draws now
	w := &showing{screen: s, keys: takeKeyboard(), over: make(chan struct{})}
	w.program = tea.NewProgram(frame{screen: s}, tea.WithOutput(s.to), tea.WithInput(nil), tea.WithoutSignalHandler(),
		tea.WithFPS(framesPerSecond), tea.WithEnvironment(drawnFor(os.Getenv("TERM"))))
	go func() {
		defer close(w.over)
		w.program.Run() // its errors are about a terminal that has gone
	}()
	return w
}

// draw draws the picture anew.
func (w *showing) draw() {
	if w != nil {
		w.program.Send(redraw{})
	}
}

// ended is closed when nothing can be shown any more.
func (w *showing) ended() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.over
}

// hide takes the picture away and gives the keyboard back.
func (w *showing) hide() {
	if w == nil {
		return
	}
	w.keys.giveBack() // first: it does not wait for the terminal
	w.program.Quit()
	<-w.over
	// bubbletea leaves the picture, with the cursor in its last line.
	up := ""
	if tall := w.screen.tall; tall > 1 {
		up = "\x1b[" + strconv.Itoa(tall-1) + "A"
	}
	io.WriteString(w.screen.to, "\r"+up+"\x1b[J") // a terminal that has gone is clear
}

// drawnFor is the environment that decides which escape sequences are used. It
// keeps to those that most terminals know, and leaves out all questions to the
// terminal: an answer that comes late would be typed into the shell.
func drawnFor(name string) []string {
	kind, _, _ := strings.Cut(name, "-")
	if !slices.Contains([]string{"linux", "screen"}, kind) {
		name = "xterm-256color"
	}
	return []string{"TERM=" + name, "SSH_TTY=none"} // far away, where no questions are asked
}

// frame is a screen's picture as bubbletea wants it.
type frame struct {
	screen        *screen
	width, height int
}

// redraw is the message to look at the picture again.
type redraw struct{}

// Init has nothing to begin with.
func (f frame) Init() tea.Cmd { return nil }

// Update takes the terminal's size. With another one the screen begins anew.
func (f frame) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	size, ok := msg.(tea.WindowSizeMsg)
	switch {
	case !ok || size.Width == f.width && size.Height == f.height:
	case f.width == 0:
		f.width, f.height = size.Width, size.Height
	default:
		select {
		case f.screen.resized <- struct{}{}:
		default:
		}
	}
	return f, nil
}

// View draws. The last line of the terminal stays free, so that nothing scrolls. A
// picture never has fewer lines than before: bubbletea would lose its place.
func (f frame) View() tea.View {
	v := tea.View{DisableBracketedPasteMode: true}
	if f.width < 1 {
		return v
	}
	s := f.screen
	s.mu.Lock()
	defer s.mu.Unlock()
	v.Content = render(s.picture, time.Since(s.began), f.width, f.height-1, s.colours)
	tall := strings.Count(v.Content, "\n") + 1
	v.Content += strings.Repeat("\n", max(s.tall-tall, 0))
	s.tall = max(s.tall, tall)
	return v
}
