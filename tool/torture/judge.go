package torture

import (
	"fmt"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/figure"
)

const (
	leastSilence = 1.0 // seconds, for a fall
	silentTimes  = 10  // of the baseline's worst, for a fall
	turns        = 4   // on a CPU that an answer needs, of two programs: each may be as late as hone's own
	slowTimes    = 3   // of the baseline's worst, for slower
	leastSlow    = 0.1 // seconds, for slower
	notAgain     = "does not serve again after the attack"
	mostGrown    = 512 << 20 // bytes, of all connections of a scenario
)

// aftermath is what came after an attack.
type aftermath struct {
	settled  bool          // all bystanders were served again
	after    time.Duration // until then
	together int           // scenarios that share what was felt
	told     bool          // one of them says already how slow it was
	early    time.Duration // after which the attack was ended, as the fall was certain; zero: it was not
}

// starved reports whether a bystander had no answer for too long, hone's own lateness aside.
func (r *run) starved(felt Bystanders, s Scenario) bool {
	silent := felt.Worst - turns*felt.Lag
	return silent >= max(leastSilence, s.Rests.Seconds()) && silent >= silentTimes*r.report.Baseline.Worst
}

// suffers reports whether what was felt is a fall.
func (r *run) suffers(felt Bystanders, s Scenario) bool {
	_, ended := r.process.ended()
	return ended || felt.Wrong+felt.Lost+felt.Refused > 0 || r.starved(felt, s)
}

// judge adds to an attack's finding what the bystanders felt and what the process used.
func (r *run) judge(made *Result, s Scenario, then aftermath) {
	var fell []string
	felt, base := made.Bystanders, r.report.Baseline
	last, ended := r.process.ended()
	if !then.settled && !ended {
		fell = append(fell, notAgain)
	}
	if made.Verdict == Fell {
		fell = append(fell, made.Words)
	}
	if ended {
		fell = append(fell, "the process ends; it said: "+shortened(last))
		felt = Bystanders{} // that needs no words
	}
	fell = append(fell, r.overused(made.Used, s)...)
	count := func(n int, what string) {
		if n > 0 {
			fell = append(fell, fmt.Sprintf("bystanders: %d %s (%s)", n, what, felt.First))
		}
	}
	count(felt.Wrong, "wrong answers")
	count(felt.Lost, "answers lost")
	count(felt.Refused, "newcomers refused")
	starved := r.starved(felt, s)
	if starved {
		fell = append(fell, fmt.Sprintf("a bystander had no answer for %s", figure.Micros(1e6*felt.Worst)))
	}
	if len(fell) > 0 {
		if then.settled && (starved || felt.Wrong+felt.Lost+felt.Refused > 0) {
			fell = append(fell, fmt.Sprintf("serves again after %d ms", then.after.Milliseconds()))
		}
		switch {
		case then.early > 0:
			made.Notes = append(made.Notes, fmt.Sprintf("ended after %s, as the fall was certain", elapsed(then.early)))
		case made.Verdict != Fell && then.together == 1 && made.Words != "":
			made.Notes = append(made.Notes, "the attack itself saw: "+made.Words)
		}
		made.Verdict, made.Words = Fell, strings.Join(fell, "; ")
		return
	}
	if made.Verdict == Survived && !then.told && felt.Worst >= max(leastSlow, s.Rests.Seconds(), slowTimes*base.Worst) && felt.Worst >= 2*felt.Lag {
		made.Verdict = Slower
		beside := ""
		if then.together > 1 {
			beside = fmt.Sprintf(" beside %d scenarios at once", then.together)
		}
		made.Words = fmt.Sprintf("bystanders waited up to %s%s (before: %s); %s", figure.Micros(1e6*felt.Worst), beside, figure.Micros(1e6*base.Worst), made.Words)
	}
}

// overused returns what the process used too much of.
func (r *run) overused(used *Used, s Scenario) (fell []string) {
	if used == nil || s.Alone {
		return nil
	}
	if used.Grown > mostGrown {
		fell = append(fell, fmt.Sprintf("its memory grew by %s", size(used.Grown)))
	}
	if used.Left > fewLeft {
		fell = append(fell, fmt.Sprintf("%d descriptors are still open %v after all have left", used.Left, r.Limits.Gone))
	}
	if r.usual >= 0 && used.Idle >= r.usual+spins {
		fell = append(fell, fmt.Sprintf("it uses %.0f %% of a CPU after all have left (before: %.0f %%)", 100*used.Idle, 100*r.usual))
	}
	return fell
}

const mostSaid = 300

// shortened returns the end of what a process said.
func shortened(text string) string {
	if len(text) > mostSaid {
		text = "…" + text[len(text)-mostSaid:]
	}
	if text == "" {
		return "nothing"
	}
	return text
}
