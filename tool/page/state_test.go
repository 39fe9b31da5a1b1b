package page

import (
	"context"
	"strings"
	"testing"
)

// TestStatusOfAServer checks that a page without the generator's charts shows whether the
// server serves, and one with them waits for the load.
func TestStatusOfAServer(t *testing.T) {
	for _, c := range []struct {
		groups []string
		values map[string]float64
		want   Status
	}{
		{[]string{Server, Host}, map[string]float64{"s.conns": 3}, Waiting}, // the first poll has no rates
		{[]string{Server, Host}, map[string]float64{"s.rate": 1500}, Serving},
		{[]string{Server, Host}, map[string]float64{"s.rate": 0}, Idle},
		{[]string{Client, Server}, map[string]float64{"s.rate": 1500}, Waiting},
	} {
		p := &Page{Groups: c.groups, OnlyWatched: true, Sources: []Source{func(context.Context) map[string]float64 { return nil }}}
		p.ready()
		p.sampled(c.values)
		if told := string(p.stream.latest); !strings.Contains(told, `"status":"`+string(c.want)+`"`) {
			t.Errorf("groups %v with %v: want the status %s, told %s", c.groups, c.values, c.want, told)
		}
		p.Close()
	}
}
