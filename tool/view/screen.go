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

	tea "charm.land/bubbletea/v2"
)

const (
	framesPerSecond = 4
	frameTime       = time.Second / framesPerSecond

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
	tall    int     // height of the drawn picture, which may not shrink

	resized chan struct{} // the terminal's size has changed
	closing chan struct{}
	once    sync.Once
	closed  chan struct{}
}

// openScreen shows p on w, a terminal. Close it in a defer, too, for the case of a panic.
func openScreen(w io.Writer, p picture) *screen {
	s := &screen{
		to: w.(*os.File), colours: newPalette(wantsColour()), began: time.Now(), picture: p,
		resized: make(chan struct{}, 1), closing: make(chan struct{}), closed: make(chan struct{}),
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
		patience := time.NewTimer(stuckTime)
		defer patience.Stop()
		select {
		case <-s.closed:
		case <-patience.C:
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

// showing is the period from showing a picture until it is hidden.
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
		w.program.Run() // it fails only when the terminal is gone
	}()
	return w
}

// draw redraws the picture.
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

// hide removes the picture and restores the keyboard.
func (w *showing) hide() {
	if w == nil {
		return
	}
	w.keys.giveBack() // first: it does not wait for the terminal
	w.program.Quit()
	<-w.over
	// bubbletea leaves the picture on screen, with the cursor in its last line.
	up := ""
	if tall := w.screen.tall; tall > 1 {
		up = "\x1b[" + strconv.Itoa(tall-1) + "A"
	}
	io.WriteString(w.screen.to, "\r"+up+"\x1b[J") // a terminal that is gone needs no clearing
}

// drawnFor returns the environment that decides which escape sequences are used: those
// that most terminals know, without any query, because a late answer would be typed into
// the shell.
func drawnFor(name string) []string {
	kind, _, _ := strings.Cut(name, "-")
	if !slices.Contains([]string{"linux", "screen"}, kind) {
		name = "xterm-256color"
	}
	return []string{"TERM=" + name, "SSH_TTY=none"} // a remote terminal is not queried
}

// frame implements bubbletea's Model for a screen's picture.
type frame struct {
	screen        *screen
	width, height int
}

// redraw is the message to redraw the picture.
type redraw struct{}

// Init has nothing to start.
func (f frame) Init() tea.Cmd { return nil }

// Update handles the terminal's size. After a change the screen starts anew.
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
// picture never has fewer lines than before: bubbletea would lose its position.
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
