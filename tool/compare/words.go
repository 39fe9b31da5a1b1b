package compare

import (
	"fmt"
	"math"
	"strconv"
)

// Words is the verdict in one line, as in "better: −8.1 % (−11.2 … −4.9), at least 4.9 %;
// p 0.0004; 12 pairs".
func (c *Change) Words(tolerance float64) string {
	switch {
	case c.Method == exact:
		return c.exactWords(tolerance)
	case c.Verdict == Better, c.Verdict == Worse:
		least := min(math.Abs(*c.Low-1), math.Abs(*c.High-1))
		return fmt.Sprintf("%s: %s, at least %s; p %s; %s", c.Verdict, c.difference(), percent(least), probability(*c.PFamily), c.runs())
	case c.Verdict == Same:
		words := fmt.Sprintf("same within %s: %s", percent(tolerance), c.difference())
		if *c.Low > 1 || *c.High < 1 {
			words += ", small but certain"
		}
		return words
	}
	words := "unclear: "
	if c.Ratio != nil && c.LimitedBy != ByMissing {
		words += c.difference() + "; "
	}
	return words + c.Advice.Reason
}

// Brief is the verdict in a few words, as in "better −8.1 %".
func (c *Change) Brief() string {
	if c.Ratio == nil || c.Verdict == Unclear {
		return string(c.Verdict)
	}
	return fmt.Sprintf("%s %s %%", c.Verdict, signed(*c.Ratio-1))
}

// difference formats the estimate with its interval.
func (c *Change) difference() string {
	return fmt.Sprintf("%s %% (%s … %s)", signed(*c.Ratio-1), signed(*c.Low-1), signed(*c.High-1))
}

func (c *Change) runs() string {
	if c.Method == welch {
		return fmt.Sprintf("%d and %d runs", len(c.A), len(c.B))
	}
	return fmt.Sprintf("%d pairs", c.Pairs)
}

// signed formats a ratio as a signed percentage, without the unit.
func signed(part float64) string {
	text := digits(part)
	switch {
	case text == "0.0":
		return text
	case part < 0:
		return "−" + text
	}
	return "+" + text
}

// percent formats a share without a sign.
func percent(part float64) string {
	text := digits(part)
	if whole, rest := text[:len(text)-2], text[len(text)-2:]; rest == ".0" {
		text = whole
	}
	return text + " %"
}

func digits(part float64) string {
	size := math.Abs(100 * part)
	places := 1
	if size < 0.1 {
		places = 2
	}
	if text := strconv.FormatFloat(size, 'f', places, 64); text != "0.00" {
		return text
	}
	return "0.0"
}

func probability(p float64) string {
	if p < 0.0001 {
		return "< 0.0001"
	}
	return strconv.FormatFloat(p, 'g', 1, 64)
}
