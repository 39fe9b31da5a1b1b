package view

import (
	"fmt"
	"io"
	"time"

	"github.com/hone-go/hone/tool/figure"
	"github.com/hone-go/hone/tool/torture"
)

// torturePicture is a run of hone torture.
type torturePicture struct {
	title   string
	now     torture.Progress
	since   time.Duration // when what runs has begun
	results []torture.Result
}

const resultsShown = 12

// lines draws it.
func (p *torturePicture) lines(at time.Duration, width int) []line {
	lines := []line{
		{5, []span{{toneTitle, "hone torture "}, text(p.title)}},
		field(0, "now", text(p.now.Doing), span{toneLabel, ", " + figure.Lasting(at-p.since)}),
		field(2, "scenarios", barAnd(float64(p.now.Done)/float64(max(1, p.now.Of)), width, fmt.Sprintf("%d of %d", p.now.Done, p.now.Of), fmt.Sprintf("%d of %d", p.now.Done, p.now.Of))...),
	}
	for i := max(0, len(p.results)-resultsShown); i < len(p.results); i++ {
		made := p.results[i]
		tones := map[torture.Verdict]tone{torture.Survived: toneGood, torture.Fell: toneBad, torture.Slower: toneWarn, torture.NotFoundOut: toneWarn}
		lines = append(lines, line{10 + len(p.results) - i, []span{
			{tones[made.Verdict], pad(made.Verdict.String(), 15)}, text(pad(made.Name, 24) + " "), {toneLabel, made.Words},
		}})
	}
	return append(lines, howToEnd())
}

// Torture shows the progress of a run of hone torture.
type Torture struct {
	how     watching
	to      io.Writer
	screen  *screen // nil: no view
	picture *torturePicture
}

// NewTorture shows attacks on title.
func NewTorture(how How, title string) *Torture {
	t := &Torture{how: how.watching(), to: how.To, picture: &torturePicture{title: title, now: torture.Progress{Doing: "watching the bystanders before any attack"}}}
	if t.how == asPicture {
		t.screen = openScreen(how.To, t.picture)
	}
	return t
}

// Show is a torture.Plan's Progress. Scenarios that do not apply are left out.
func (t *Torture) Show(now torture.Progress) {
	made := now.Made
	if made != nil && made.Verdict == torture.NotApplicable {
		made = nil
	}
	switch {
	case t.how == inLines && made != nil:
		torture.WriteLine(t.to, made)
	case t.screen != nil:
		t.screen.change(func() {
			p := t.picture
			if made != nil {
				p.results = append(p.results, *made)
			}
			if now.Doing == "" {
				now.Doing = p.now.Doing
			} else {
				p.since = t.screen.age()
			}
			p.now = now
		})
	}
}

// End removes the view and leaves a line. It may be called again.
func (t *Torture) End() {
	if t.screen.close() {
		fmt.Fprintf(t.to, "hone: torture: %s in %s\n", figure.Counted(len(t.picture.results), "scenario"), figure.Lasting(t.screen.age()))
	}
}
