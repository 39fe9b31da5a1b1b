package view

import (
	"math"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/rivo/uniseg"
)

// picture is something to watch. It is plain values: the same ones at the same
// time make the same lines, of which no more than width columns are shown.
type picture interface {
	lines(at time.Duration, width int) []line
}

// tone is what a piece of text is, so that a palette can say how that looks. It
// never says more than the text does.
type tone uint8

const (
	toneText tone = iota
	toneTitle
	toneLabel
	toneGood
	toneBad
	toneWarn
	toneCurve
)

// palette is how tones look; nil is without any colour.
type palette []lipgloss.Style

// newPalette has the terminal's own colours, which its owner has chosen to be
// readable on its background, but for yellow and blue, which seldom are.
func newPalette(colour bool) palette {
	if !colour {
		return nil
	}
	of := func(c lipgloss.Style) lipgloss.Style { return c.Inline(true) }
	plain := lipgloss.NewStyle()
	return palette{
		toneText:  of(plain),
		toneTitle: of(plain.Bold(true)),
		toneLabel: of(plain.Faint(true)),
		toneGood:  of(plain.Foreground(lipgloss.Green)),
		toneBad:   of(plain.Foreground(lipgloss.Red).Bold(true)),
		toneWarn:  of(plain.Foreground(lipgloss.Magenta).Bold(true)),
		toneCurve: of(plain.Foreground(lipgloss.Cyan)),
	}
}

// span is text of one tone.
type span struct {
	tone tone
	text string
}

// line is a line of a picture. When there is no room for all, those of the highest
// rank go first, all of one rank together.
type line struct {
	rank  int
	spans []span
}

// render draws the picture into no more than width columns and height lines.
func render(p picture, at time.Duration, width, height int, colours palette) string {
	var b strings.Builder
	for i, l := range fit(p.lines(at, width), height) {
		if i > 0 {
			b.WriteByte('\n')
		}
		for _, s := range cut(l.spans, width) {
			if colours == nil || s.tone == toneText || s.text == "" {
				b.WriteString(s.text)
				continue
			}
			b.WriteString(colours[s.tone].Render(s.text))
		}
	}
	return b.String()
}

// fit leaves lines out until there are no more than height.
func fit(lines []line, height int) []line {
	for len(lines) > max(height, 1) {
		worst := slices.MaxFunc(lines, func(a, b line) int { return a.rank - b.rank }).rank
		lines = slices.DeleteFunc(lines, func(l line) bool { return l.rank == worst })
	}
	return lines
}

// cut shortens spans to so many columns. What is cut off is replaced by a mark, for
// half a figure is another figure. Control characters become question marks.
func cut(spans []span, width int) []span {
	total := 0
	kept := make([]span, 0, len(spans))
	for _, s := range spans {
		s.text = strings.Map(printable, s.text)
		kept = append(kept, s)
	}
	for last := len(kept) - 1; last >= 0; last-- { // blanks in the end are nothing to show
		if kept[last].text = strings.TrimRight(kept[last].text, " "); kept[last].text != "" {
			break
		}
	}
	for _, s := range kept {
		total += columns(s.text)
	}
	if total <= width {
		return kept
	}
	room := max(width-1, 0)
	for i, s := range kept {
		whole := columns(s.text)
		if whole <= room {
			room -= whole
			continue
		}
		kept[i].text = firstColumns(s.text, room) + "…"
		return kept[:i+1]
	}
	return kept
}

func printable(r rune) rune {
	if r < ' ' || r >= 0x7f && r < 0xa0 {
		return '?'
	}
	return r
}

// columns is how wide text is on a terminal. What pictures are made of mostly, ASCII
// and blocks, is counted without the help of Unicode's tables.
func columns(text string) (n int) {
	for _, r := range text {
		if r >= 0x7f && (r < '─' || r > '▟') {
			return uniseg.StringWidth(text)
		}
		n++
	}
	return n
}

// firstColumns is as much of text as fits.
func firstColumns(text string, room int) string {
	taken, state := 0, -1
	for rest := text; rest != ""; {
		var width int
		var cluster string
		cluster, rest, width, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if width > room {
			break
		}
		room -= width
		taken += len(cluster)
	}
	return text[:taken]
}

// pad adds blanks up to a width.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-columns(text), 0))
}

// The columns of a line with a label.
const (
	labelColumns = 11
	valueColumns = 13
)

// field is a line with a label.
func field(rank int, label string, spans ...span) line {
	return line{rank, append([]span{{toneLabel, pad(label, labelColumns)}}, spans...)}
}

// text is a span without a tone.
func text(s string) span { return span{toneText, s} }

const remembered = 60 // figures in a history

// history is the last figures of something; NaN where there was none.
type history []float64

// add forgets the oldest figure when there are enough.
func (h *history) add(v *float64) {
	if len(*h) >= remembered {
		*h = append((*h)[:0], (*h)[1:]...)
	}
	if v == nil {
		*h = append(*h, math.NaN())
		return
	}
	*h = append(*h, *v)
}

// sparkline draws the last figures, a column each, from nothing to the highest.
func sparkline(values []float64, width int) string {
	const steps = "▁▂▃▄▅▆▇█"
	marks := []rune(steps)
	values = values[max(0, len(values)-max(width, 0)):]
	highest := 0.0
	for _, v := range values {
		highest = max(highest, orZero(v))
	}
	var b strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			b.WriteByte(' ')
		case highest == 0:
			b.WriteRune(marks[0])
		default:
			b.WriteRune(marks[min(int(max(v, 0)/highest*float64(len(marks))), len(marks)-1)])
		}
	}
	return b.String()
}

func orZero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// bar shows which part of something is done.
func bar(part float64, width int) []span {
	width = max(width, 0)
	done := min(max(int(part*float64(width)), 0), width)
	return []span{{toneCurve, strings.Repeat("█", done)}, {toneLabel, strings.Repeat("░", width-done)}}
}

// barWords is how wide a terminal must be for a bar beside words.
const barWords = 60

// barAnd is a bar with words behind it; on a narrow terminal the short words alone.
func barAnd(part float64, width int, words, short string) []span {
	if width < barWords {
		return []span{text(short)}
	}
	return append(bar(part, min(width-labelColumns-45, 40)), text("  "+words))
}

// howToEnd is the last line, and the first to go.
func howToEnd() line {
	return line{rankHint, []span{{toneLabel, "q or Ctrl-C ends it"}}}
}

const rankHint = 1000
