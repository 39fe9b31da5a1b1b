package compare

import (
	"math"
	"slices"
	"time"

	"github.com/hone-go/hone/tool/record"
)

// Session is one figure of a program measured against itself: pairs of runs of two builds
// of the same source.
type Session struct {
	At    time.Time
	Pairs []Pair
}

// Floor is the difference between two builds of the same source, which no number of pairs
// averages away.
type Floor struct {
	// RMS is the root mean square of the sessions' estimates, as a relative difference.
	// For unpaired runs it is between sessions.
	RMS      float64   `json:"rms"`
	Sessions int       `json:"sessions"`
	Pairs    int       `json:"pairs"` // in the smallest session
	Oldest   time.Time `json:"oldest"`
	// Given is the bound that the caller gave instead of sessions. 0: none.
	Given float64 `json:"given,omitempty"`

	deviation, df float64 // of logarithms
}

// fewestSessions is how many sessions are needed to estimate the variance of their differences;
// unpaired runs need one more.
const fewestSessions = 4

// AddSessions gives each figure its sessions from repeats, in which a program was
// measured against itself.
func AddSessions(figures []Figure, repeats [][2]*record.Run) {
	for _, r := range repeats {
		measured, _ := Match(Stored(r[0], r[1])) // none if they are not pairs
		for i := range figures {
			f := &figures[i]
			j := slices.IndexFunc(measured, func(m Figure) bool { return m.Name == f.Name && m.Unit == f.Unit })
			if j >= 0 && measured[j].Pairs != nil {
				f.Sessions = append(f.Sessions, Session{r[0].At, measured[j].Pairs})
			}
		}
	}
}

// Floor returns the noise floor that a verdict on the figure alone would have; nil if
// there are too few sessions.
func (f *Figure) Floor() *Floor {
	method := studentT
	if ranked(len(f.Pairs), alphaOf(1)) {
		method = signedRank
	}
	return floorOf(f, method)
}

// floorOf returns nil if there are too few sessions. It estimates each by the method of
// the verdict that the floor serves.
func floorOf(f *Figure, method Method) *Floor {
	floor := &Floor{}
	var differences, meansA, meansB []float64
	for _, s := range f.Sessions {
		var a, b []float64
		for _, p := range wholePairs(s.Pairs) {
			a, b = append(a, p.A), append(b, p.B)
		}
		if len(a) < FewestPairs || !positive(a, b) {
			continue
		}
		a, b = logs(a), logs(b)
		differences = append(differences, center(minus(b, a), method))
		meanA, _ := moments(a)
		meanB, _ := moments(b)
		meansA, meansB = append(meansA, meanA), append(meansB, meanB)
		if floor.Sessions++; floor.Sessions == 1 || s.At.Before(floor.Oldest) {
			floor.Oldest = s.At
		}
		if floor.Pairs == 0 || len(a) < floor.Pairs {
			floor.Pairs = len(a)
		}
	}
	var square float64
	if f.Pairs != nil {
		floor.df = float64(len(differences))
		for _, d := range differences {
			square += d * d / floor.df
		}
	} else if len(differences) > 1 { // A of one session against B of another
		floor.df = float64(len(differences) - 1)
		_, varA := moments(meansA)
		_, varB := moments(meansB)
		square = varA + varB
	}
	if floor.df < fewestSessions {
		return nil
	}
	floor.deviation = math.Sqrt(square)
	floor.RMS = math.Expm1(floor.deviation)
	return floor
}

// around returns the interval that the floor does not reject around an estimated
// difference.
func (f *Floor) around(center, level float64) estimate {
	if f.Given == 0 {
		return byStudent(center, f.deviation, f.df, level, "")
	}
	half := math.Log1p(f.Given)
	e := estimate{center: center, low: center - half, high: center + half}
	e.p = func(mu float64) float64 {
		if e.holds(mu) {
			return 1
		}
		return 0
	}
	return e
}

// wholePairs returns the pairs that have both values.
func wholePairs(pairs []Pair) []Pair {
	return slices.DeleteFunc(slices.Clone(pairs), func(p Pair) bool { return missing(p.A) || missing(p.B) })
}

// missing reports whether v is not a number that counts.
func missing(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }

func minus(b, a []float64) []float64 {
	differences := make([]float64, len(a))
	for i := range a {
		differences[i] = b[i] - a[i]
	}
	return differences
}
