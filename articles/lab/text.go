package lab

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

const columns = 100 // width limit of a text

// WriteText writes the report as text: each lab's claim, a line for each row, and below
// them the explanation, once for rows that share it.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	switch {
	case !r.Valid:
		for i, reason := range r.InvalidReasons {
			indent := "INVALID: "
			if i > 0 {
				indent = "         "
			}
			wrap(&b, indent, "         ", reason)
		}
	case r.Rough:
		b.WriteString("VALID, and rough: --quick shows that it works; do not quote its figures\n")
	default:
		b.WriteString("VALID: median of all rounds (lowest to highest); compared servers alternated\n")
	}
	for _, l := range r.Labs {
		l.write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (l *Lab) write(b *strings.Builder) {
	b.WriteString("\n")
	wrap(b, strings.ToUpper(l.Name)+"  ", "  ", l.Claim)
	for i, r := range l.Rows {
		b.WriteString("\n")
		wrap(b, "  ", "    ", r.What+": "+r.figures())
		wrap(b, "    ", "    ", strings.TrimSpace(string(r.Verdict)+r.ratio()))
		if i+1 == len(l.Rows) || l.Rows[i+1].Why != r.Why {
			wrap(b, "    ", "    ", r.Why)
		}
	}
}

// figures formats the measured figure and the article's.
func (r Row) figures() string {
	text := "no figure"
	if r.Measured != nil {
		text = number(*r.Measured) + " " + r.Unit
		if *r.Low != *r.High {
			text += fmt.Sprintf(" (%s to %s)", number(*r.Low), number(*r.High))
		}
	}
	if r.Article != nil {
		text += "; article " + number(*r.Article)
		if r.Measured == nil {
			text += " " + r.Unit
		}
	}
	return text
}

func (r Row) ratio() string {
	if r.Ratio == nil {
		return ""
	}
	return fmt.Sprintf("; %s × %s", number(*r.Ratio), r.RatioTo)
}

// number formats a figure with three significant digits and commas.
func number(v float64) string {
	size := math.Abs(v)
	switch {
	case size >= 100 || size == math.Trunc(size):
		return thousands(int(math.Round(v)))
	case size >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case size >= 0.1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// thousands formats a whole number with commas.
func thousands(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// wrap writes a paragraph in lines of at most that many columns.
func wrap(b *strings.Builder, begin, indent, text string) {
	line := begin
	bare := true
	for word := range strings.FieldsSeq(text) {
		if !bare && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			b.WriteString(line + "\n")
			line, bare = indent, true
		}
		if !bare {
			line += " "
		}
		line += word
		bare = false
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}
