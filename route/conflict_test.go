package route

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The paths in the text of a conflict behave as the text says.
func TestConflictPaths(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	parts := []string{"/a", "/b", "/{x}", "/{y}", "/x", "/y"}
	newPattern := func() *pattern {
		var b strings.Builder
		used := make(map[string]bool)
		for range random.IntN(4) {
			if part := parts[random.IntN(len(parts))]; !used[part] {
				used[part] = true
				b.WriteString(part)
			}
		}
		b.WriteString([]string{"", "/", "/{$}", "/{rest...}"}[random.IntN(4)])
		if b.Len() == 0 {
			b.WriteByte('/')
		}
		p, err := parse(b.String())
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	crossed := 0
	for range 50_000 {
		a, b := newPattern(), newPattern()
		if comparePaths(a.segments, b.segments) != crossing {
			continue
		}
		crossed++
		takes := func(p *pattern, path string) bool { return newEntry(p).matches(path, true) }
		if both := sharedPath(a.segments, b.segments); !takes(a, both) || !takes(b, both) {
			t.Fatalf("%s and %s do not both match %s", a.text, b.text, both)
		}
		if one := onlyPath(a.segments, b.segments); !takes(a, one) || takes(b, one) {
			t.Fatalf("%s does not match %s, or %s does", a.text, one, b.text)
		}
	}
	if crossed < 100 {
		t.Errorf("only %d patterns overlapped", crossed)
	}
}

// Lookups give the same results in tables with and without collisions.
func TestTableCollisions(t *testing.T) {
	for _, family := range []struct {
		name string
		path func(i int) string
		meet bool // a thousand of them collide
	}{
		// equal sizes, and equal first and last eight bytes: they differ only in the middle
		{"regular", func(i int) string {
			return "/12345678-" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)) + "-12345678"
		}, false},
		{"random", func(i int) string { return fmt.Sprintf("/%016x", mix(uint64(i))) }, true},
		{"random and long", func(i int) string { return fmt.Sprintf("/a-long-name-%016x-and-what-follows", mix(uint64(i))) }, true},
	} {
		t.Run(family.name, func(t *testing.T) {
			for _, n := range []int{1, 2, 3, 9, 100, 1000} {
				checkTable(t, n, family.path, family.meet && n == 1000)
			}
		})
	}
}

// checkTable looks the first n paths up in the tree and in the table.
func checkTable(t *testing.T, n int, path func(int) string, meet bool) {
	root := new(trie)
	var all []*entry
	for i := range n {
		p, err := parse(path(i))
		if err != nil {
			t.Fatal(err)
		}
		e := newEntry(p)
		root.insert(e, 0)
		all = append(all, e)
	}
	choose := func(same []*entry) *entry { return best(same, "") }
	tree := root.compile(choose, func([]*entry) uint64 { return 0 })
	x := newExact(all, choose)
	inTree, inTable := slices.ContainsFunc(tree.edges, func(e edge) bool { return e.next != nil }),
		slices.ContainsFunc(x.places, func(p place) bool { return p.next != nil })
	if meet && (!inTree || !inTable) {
		t.Errorf("of %d, some should collide; in the tree: %v, in the table: %v", n, inTree, inTable)
	}
	if stranger := path(n); tree.walk(stranger, 1, false) != nil || x.find(stranger) != nil {
		t.Fatalf("of %d, %s is found", n, stranger)
	}
	for _, e := range all {
		if got := tree.walk(e.text, 1, false); got != e {
			t.Fatalf("of %d, %s is not in the tree", n, e.text)
		}
		if !x.has(len(e.text)) || x.find(e.text) != e {
			t.Fatalf("of %d, %s is not in the table", n, e.text)
		}
		if other := e.text[:len(e.text)-1] + "!"; tree.walk(other, 1, false) != nil || x.find(other) != nil {
			t.Fatalf("of %d, %s is found", n, other)
		}
	}
}
