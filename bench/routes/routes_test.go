package routes

import (
	"net/http"
	"testing"
)

// BenchmarkContests has every contest of package routes: Published asks as the
// usual benchmark does, Clients as clients do, Values has the handlers read every
// value by its name, Misses asks for what is not there, WrongMethods with a method
// that is not there. ns are for all requests of a set.
func BenchmarkContests(b *testing.B) {
	for _, c := range Contests() {
		b.Run(c.Name, func(b *testing.B) { compete(b, c) })
	}
}

// BenchmarkWhole is a whole request through net/http over loopback.
func BenchmarkWhole(b *testing.B) {
	c, end, err := Whole()
	if err != nil {
		b.Fatal(err)
	}
	defer end()
	compete(b, c)
}

func compete(b *testing.B, c Contest) {
	for i, h := range c.handlers {
		b.Run(c.names[i], func(b *testing.B) {
			w := &sink{header: make(http.Header)}
			b.ReportAllocs()
			for b.Loop() {
				turn(h, w, c.requests)
			}
		})
	}
}
