package view

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	frameTime = time.Second / 4
	stuckTime = 2 * time.Second // a terminal that accepts no output for so long is not cleared
)

// block shows facts below the existing output of a terminal, redraws them four times a
// second, and removes them at the end. It draws from the latest facts, so that callers
// that update them never wait for the terminal. No state of the terminal changes: there
// is nothing to restore when a signal stops or ends the command.
type block struct {
	to       *os.File
	coloured bool
	began    time.Time
	drawn    int // lines; of run
	closing  chan struct{}
	once     sync.Once
	closed   chan struct{}

	mu    sync.Mutex
	facts facts
}

func openBlock(to *os.File, f facts) *block {
	b := &block{to: to, coloured: os.Getenv("NO_COLOR") == "", began: time.Now(), facts: f, closing: make(chan struct{}), closed: make(chan struct{})}
	go b.run()
	return b
}

// close removes the block.
func (b *block) close() {
	close(b.closing)
	select {
	case <-b.closed:
	case <-time.After(stuckTime):
	}
}

// run is the block's goroutine: only it writes.
func (b *block) run() {
	defer close(b.closed)
	continued, stop := watchContinue()
	defer stop()
	ticker := time.NewTicker(frameTime)
	defer ticker.Stop()
	last := b.began
	for {
		select {
		case <-b.closing:
			if b.drawn > 0 {
				b.to.WriteString(top(b.drawn) + "\x1b[J") // a terminal that is gone needs no clearing
			}
			return
		case <-continued:
			b.drawn = 0 // the shell has written below it
		case now := <-ticker.C:
			stopped := now.Sub(last) > 2*frameTime // perhaps: continued comes before the next frame
			last = now
			if !stopped && !b.draw() {
				return // the terminal is gone; the command goes on without a view
			}
		}
	}
}

// draw redraws the block and reports whether the terminal is still there. The last line
// of the terminal stays free, so that a block is never higher than its terminal; the last
// column, because some terminals begin a new line behind it. A command in the background
// draws nothing over the user's work.
func (b *block) draw() bool {
	width, height := canDraw(b.to)
	if width == 0 {
		b.drawn = 0
		return true
	}
	b.mu.Lock()
	lines := b.facts.render(time.Since(b.began), width, height, b.coloured)
	b.mu.Unlock()
	_, err := b.to.WriteString(top(max(1, b.drawn)) + strings.Join(lines, "\x1b[K\r\n") + "\x1b[K\x1b[J")
	b.drawn = len(lines)
	return err == nil
}

// top moves the cursor from the last of some lines to the beginning of the first.
func top(lines int) string { return strings.TrimSuffix(fmt.Sprintf("\r\x1b[%dA", lines-1), "\x1b[0A") }

// render returns the block's lines for a terminal of that size.
func (f *facts) render(at time.Duration, width, height int, coloured bool) (lines []string) {
	width = max(1, min(width-1, 100))
	for _, l := range f.lines(at, width) {
		var b strings.Builder
		for _, s := range cut(l, width) {
			if coloured && s.tone != toneText {
				s.text = "\x1b[" + string(s.tone) + "m" + s.text + "\x1b[m"
			}
			b.WriteString(s.text)
		}
		lines = append(lines, b.String())
	}
	return lines[:min(len(lines), max(1, height-1))]
}

// tone is the meaning of a piece of text: the parameters of the escape sequence for its
// look. It never carries more than the text does. The terminal's own colours are those
// that its user can read, except yellow and blue, which often are not.
type tone string

const (
	toneText  tone = ""
	toneLabel tone = "2"    // faint
	toneGood  tone = "32"   // green
	toneBad   tone = "1;31" // bold red
	toneWarn  tone = "1;35" // bold magenta
	toneCurve tone = "36"   // cyan
)

// span is text of one tone.
type span struct {
	tone tone
	text string
}

type line []span

func text(s string) span { return span{toneText, s} }

// field is a line with a label.
func field(label string, spans ...span) line {
	return append(line{{toneLabel, fmt.Sprintf("%-11s", label)}}, spans...)
}

// curve is a line with a value and its history.
func curve(label, value string, past []float64, width int) line {
	if room := width - 11 - 27; room > 0 {
		return field(label, text(fmt.Sprintf("%-27s", value)), span{toneCurve, sparkline(past, room)})
	}
	return field(label, text(value))
}

// cut shortens a line to width columns. A mark replaces what is cut off, because half a
// figure is another figure. Control characters become question marks.
func cut(l line, width int) (short line) {
	total, mark := 0, line(nil) // the line up to where the mark fits
	for _, s := range l {
		s.text = strings.Map(func(r rune) rune {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				return '?'
			}
			return r
		}, s.text)
		for at, r := range s.text {
			before := total
			if total += columnsOf(r); before < width && total >= width {
				mark = append(slices.Clone(short), span{s.tone, s.text[:at] + "…"})
			}
		}
		short = append(short, s)
	}
	if total > width {
		return mark
	}
	return short
}

// columnsOf counts two for every character of the blocks that have wide ones, and one for
// a combining mark: a line that is cut too soon harms nobody, one that wraps does.
func columnsOf(r rune) int {
	if r >= 0x1100 && (r < 0x2000 || r >= 0x2600) {
		return 2
	}
	return 1
}

// sparkline draws the last values, one column each, from zero to the highest.
func sparkline(values []float64, width int) string {
	values = values[max(0, len(values)-width):]
	highest := slices.Max(append([]float64{math.SmallestNonzeroFloat64}, values...))
	var b strings.Builder
	for _, v := range values {
		b.WriteRune([]rune("▁▂▃▄▅▆▇█")[min(int(max(v, 0)/highest*8), 7)])
	}
	return b.String()
}
