package offer

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

// schedules are one of each shape, and the odd ones.
func schedules() []string {
	return []string{
		"ramp:1000..9000", "ramp:9000..1000", "ramp:0..500", "ramp:500..0", "ramp:700..700", "ramp:0.5..3.25",
		"stages:1000/10s,4000/10s,2000/10s", "stages:0/1s,100/1s,0/1s,200/1s", "stages:100/500ms,0/500ms", "stages:250/1s",
		"stages:0..1000/30s,1000/2m,5000/10s,..0/1m", "stages: 100/1s,\n ..300/2s, 0/1s, 50/1s", "stages:10/1s,0/1s", "stages:" + manyStages(200),
	}
}

// manyStages are n of them, of a second each, that hold, spike and ramp in turn.
func manyStages(n int) string {
	var words []string
	for i := range n {
		words = append(words, fmt.Sprintf([]string{"%d/1s", "..%d/1s", "0..%d/1s"}[i%3], 10+i))
	}
	return strings.Join(words, ",")
}

func read(tb testing.TB, text string) Schedule {
	tb.Helper()
	var s Schedule
	if err := s.UnmarshalText([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	return s
}

func TestScheduleAsText(t *testing.T) {
	for _, text := range schedules() {
		s := read(t, text)
		if s.String() != text || s.None() {
			t.Errorf("%q is written as %q", text, s)
		}
		if !reflect.DeepEqual(s, read(t, text)) {
			t.Errorf("%q read twice differs", text)
		}
	}
	if none := (Schedule{}); !none.None() || none.String() != "" {
		t.Errorf("the zero schedule is %q", none)
	}
	for text, says := range map[string]string{
		"":                             "write it as ramp:",
		"1000":                         "write it as ramp:",
		"spike:1..2":                   "write it as ramp:",
		"ramp":                         "FROM..TO",
		"ramp:1000":                    "FROM..TO",
		"ramp:1000..":                  "in digits",
		"ramp:-1..5":                   "in digits",
		"ramp:1..2000000000":           "at most 1000000000",
		"ramp:1..NaN":                  "in digits",
		"ramp:1..Inf":                  "in digits",
		"ramp:0..0":                    "more than 0",
		"ramp:1..2/10s":                "in digits",
		"sine:1..2/10s":                "write it as ramp:",
		"stages:0/10s,0/10s":           "more than 0",
		"stages:1/0s,2/0s":             "duration",
		"stages:1/1s,/1s,2/1s":         "in digits",
		"stages:1/1us,2/1us":           "1ms at least",
		"stages:":                      "in digits",
		"stages:5":                     "duration",
		"stages:0/1s,0..0/1s":          "more than 0",
		"stages:1..2/1s,x/1s":          "stage 2 is \"x/1s\": write rates in digits",
		"stages:1..2/1s,..3":           "stage 2 is \"..3\": write the duration",
		"stages:" + manyStages(10_001): "10000 stages at most",
	} {
		var s Schedule
		err := s.UnmarshalText([]byte(text))
		if err == nil {
			t.Errorf("%.40q was taken", text)
		} else if line := err.Error(); !strings.Contains(line, says) || !strings.HasPrefix(line, "load: there is no schedule ") {
			t.Errorf("%.40q: %.200q, want %q in it", text, line, says)
		}
	}
}

func TestScheduleLength(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"ramp:1..2": 0, "stages:1/1m,2/1m,3/1m": 3 * time.Minute,
		"stages:0..5/3s,5/1m,..0/500ms": 63*time.Second + 500*time.Millisecond, "stages:" + manyStages(200): 200 * time.Second,
		"stages:1/600000h,1/600000h": longest,
	} {
		if got := read(t, text).Length(); got != want {
			t.Errorf("%q takes %v, want %v", text, got, want)
		}
	}
}

func TestCourseHasTheRates(t *testing.T) {
	const warm, length = 2 * time.Second, 20 * time.Second
	for text, rates := range map[string]map[time.Duration]float64{
		"ramp:1000..9000":                {0: 1000, warm: 1000, warm + 5*time.Second: 3000, warm + length: 9000, time.Hour: 9000},
		"stages:1000/5s,4000/5s,2000/5s": {0: 1000, warm + 4999*time.Millisecond: 1000, warm + 5*time.Second: 4000, warm + 10*time.Second: 2000, time.Hour: 2000},
		"stages:0..1000/4s,3000/2s,..1000/4s,0/2s,500/1s": {0: 0, warm: 0, warm + 2*time.Second: 500, warm + 5*time.Second: 3000,
			warm + 8*time.Second: 2000, warm + 11*time.Second: 0, warm + 12500*time.Millisecond: 500, time.Hour: 500},
	} {
		c := read(t, text).Over(warm, length)
		for at, want := range rates {
			if got := c.Rate(at); math.Abs(got-want) > 0.05 {
				t.Errorf("%s: %v a second at %v, want %v", text, got, at, want)
			}
		}
	}
	if peak := read(t, "stages:10/1s,70/1s,20/1s").Over(0, time.Second).Peak(); peak != 70 {
		t.Errorf("the peak is %v", peak)
	}
}

// The number of requests up to a moment is the integral of the rate, summed here in
// another way; moments are its inverse, and ascend.
func TestMomentsAreTheIntegralsInverse(t *testing.T) {
	for _, text := range schedules() {
		for _, warmup := range []time.Duration{0, 3 * time.Second} {
			c := read(t, text).Over(warmup, 30*time.Second)
			checkIntegral(t, text, c)
			last := time.Duration(-1)
			for n := range 10_000 {
				at := c.Moment(float64(n))
				if at < last {
					t.Fatalf("%s: request %d at %v comes before the one before it, at %v", text, n, at, last)
				}
				if last = at; at >= never {
					break
				}
				// A nanosecond of the highest rate, and what 53 bits leave.
				if due := c.Due(at); math.Abs(due-float64(n)) > c.Peak()*2e-9+1e-9*float64(n+1) {
					t.Fatalf("%s: request %d at %v, when %v are due", text, n, at, due)
				}
			}
		}
	}
}

func checkIntegral(t *testing.T, text string, c *Timeline) {
	t.Helper()
	const step = time.Millisecond
	sum := 0.0
	for at := time.Duration(0); at < 35*time.Second; at += step {
		// A step's edge is at a whole millisecond; the middle is in no doubt.
		sum += c.Rate(at+step/2) * step.Seconds()
		if due := c.Due(at + step); math.Abs(due-sum) > 0.02+1e-4*sum {
			t.Fatalf("%s: %v requests are due by %v, the rates' sum is %v", text, due, at+step, sum)
		}
	}
}

// What a user counts: as many requests in the measured time as the rates say.
func TestRequestsOfTheMeasuredTime(t *testing.T) {
	const warmup, measured = time.Second, 10 * time.Second
	for text, want := range map[string]int{
		"ramp:100..300": 2000, "stages:100/5s,200/5s": 1500, "stages:0/5s,100/5s": 500, "stages:100/5s,0/5s": 500,
	} {
		c := read(t, text).Over(warmup, measured)
		n := 0
		for i := 0; ; i++ {
			at := c.Moment(float64(i))
			if at >= warmup+measured {
				break
			}
			if at >= warmup {
				n++
			}
		}
		if n < want-1 || n > want+1 {
			t.Errorf("%s: %d requests, want %d", text, n, want)
		}
	}
}

func TestNoMoreRequests(t *testing.T) {
	c := read(t, "stages:100/1s,0/1s").Over(0, 10*time.Second)
	if at := c.Moment(99); at != 990*time.Millisecond {
		t.Errorf("the last request at %v", at)
	}
	if at := c.Moment(101); at < 100*365*24*time.Hour/2 {
		t.Errorf("another one at %v", at)
	}
	if at := read(t, "ramp:10..0").Over(0, 10*time.Second).Moment(51); at < 100*365*24*time.Hour/2 {
		t.Errorf("beyond the ramp's end at %v", at)
	}
}

// The same whatever was asked before, and on any machine: the sums were made on one
// and hold on all.
func TestMomentsAreTheSameEverywhere(t *testing.T) {
	hash := fnv.New64a()
	for _, text := range schedules() {
		c := read(t, text).Over(time.Second, 10*time.Second)
		moments := make([]time.Duration, 3000)
		for n := range moments {
			moments[n] = c.Moment(float64(n) * 1.37)
			fmt.Fprintln(hash, int64(moments[n]))
		}
		for _, n := range rand.New(rand.NewPCG(1, 2)).Perm(len(moments)) {
			if got := c.Moment(float64(n) * 1.37); got != moments[n] {
				t.Fatalf("%s: request %d at %v, in order at %v", text, n, got, moments[n])
			}
		}
	}
	if got, want := hash.Sum64(), uint64(momentsSum); got != want {
		t.Errorf("the moments' sum is %#x, want %#x", got, want)
	}
}

func FuzzSchedule(f *testing.F) {
	for _, text := range schedules() {
		f.Add(text, int64(time.Second))
	}
	f.Fuzz(func(t *testing.T, text string, length int64) {
		var s Schedule
		if s.UnmarshalText([]byte(text)) != nil {
			if !s.None() {
				t.Error("what was refused has changed the schedule")
			}
			return
		}
		if again := read(t, s.String()); !reflect.DeepEqual(again, s) || s.None() {
			t.Fatalf("%q is written as %q", text, s)
		}
		c := s.Over(time.Second/3, time.Duration(max(length, 1)))
		last := time.Duration(0)
		for x := 0.0; x < 1e12; x = x*1.5 + 0.25 {
			at := c.Moment(x)
			if at < last {
				t.Fatalf("%q: %v requests are due at %v, fewer at %v", text, x, at, last)
			}
			last = at
		}
		if r := c.Rate(last); !(r >= 0 && r <= mostRate) || c.Due(time.Hour) < 0 {
			t.Fatalf("%q: %v a second, %v in an hour", text, r, c.Due(time.Hour))
		}
	})
}

func BenchmarkMoment(b *testing.B) {
	for _, text := range []string{"ramp:1000..9000", "stages:1000/1s,5000/1s,9000/1s"} {
		c := read(b, text).Over(time.Second, time.Minute)
		b.Run(text[:4], func(b *testing.B) {
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				c.Moment(float64(n))
			}
		})
	}
}
