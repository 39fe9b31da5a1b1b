package view

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rivo/uniseg"
)

// picture is something to draw. Its values determine it: the same values at the same time
// give the same lines, of which at most width columns are shown.
type picture interface {
	lines(at time.Duration, width int) []line
}

// tone is the meaning of a piece of text, from which a palette chooses its look. It never
// carries more than the text does.
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

// palette maps tones to the parameters of the escape sequence that chooses their look;
// nil has no colour.
type palette []string

// newPalette uses the terminal's own colours, which its user has chosen to be readable,
// except yellow and blue, which often are not.
func newPalette(colour bool) palette {
	if !colour {
		return nil
	}
	return palette{
		toneTitle: "1",    // bold
		toneLabel: "2",    // faint
		toneGood:  "32",   // green
		toneBad:   "1;31", // bold red
		toneWarn:  "1;35", // bold magenta
		toneCurve: "36",   // cyan
	}
}

// span is text of one tone.
type span struct {
	tone tone
	text string
}

// line is a line of a picture. When there is no room for all, the lines with the highest
// rank are dropped first, all of one rank together.
type line struct {
	rank  int
	spans []span
}

// render draws the picture into at most width columns and height lines.
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
			b.WriteString("\x1b[" + colours[s.tone] + "m" + s.text + "\x1b[m")
		}
	}
	return b.String()
}

// fit drops lines until at most height are left.
func fit(lines []line, height int) []line {
	for len(lines) > max(height, 1) {
		worst := slices.MaxFunc(lines, func(a, b line) int { return a.rank - b.rank }).rank
		lines = slices.DeleteFunc(lines, func(l line) bool { return l.rank == worst })
	}
	return lines
}

// cut shortens spans to room columns. A mark replaces what is cut off, because half a
// figure is another figure. Control characters become question marks.
func cut(spans []span, width int) []span {
	total := 0
	kept := slices.Clone(spans)
	for i := range kept {
		kept[i].text = strings.Map(printable, kept[i].text)
	}
	for last := len(kept) - 1; last >= 0; last-- { // drop trailing blanks
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

// columns returns the width of text on a terminal. ASCII and block characters, the bulk
// of a picture, are counted without Unicode's tables.
func columns(text string) (n int) {
	for _, r := range text {
		if r >= 0x7f && (r < '─' || r > '▟') {
			return uniseg.StringWidth(text)
		}
		n++
	}
	return n
}

// firstColumns returns the longest prefix of text that fits.
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

// history holds the last figures; NaN where there was none.
type history []float64

// add appends a figure, and drops the oldest when full.
func (h *history) add(v *float64) {
	if v == nil {
		v = new(math.NaN())
	}
	all := append(*h, *v)
	*h = all[max(0, len(all)-remembered):]
}

// sparkline draws the last figures, one column each, from zero to the highest.
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

// bar draws a progress bar.
func bar(part float64, width int) []span {
	width = max(width, 0)
	done := min(max(int(part*float64(width)), 0), width)
	return []span{{toneCurve, strings.Repeat("█", done)}, {toneLabel, strings.Repeat("░", width-done)}}
}

// barWords is the width from which a bar has words next to it.
const barWords = 60

// barAnd draws a bar followed by words; on a narrow terminal only the short words.
func barAnd(part float64, width int, words, short string) []span {
	if width < barWords {
		return []span{text(short)}
	}
	return append(bar(part, min(width-labelColumns-45, 40)), text("  "+words))
}

// howToEnd is the last line, and the first to be dropped.
func howToEnd() line {
	return line{rankHint, []span{{toneLabel, "press q or Ctrl-C to stop"}}}
}

const rankHint = 1000
