package route

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// A trie holds the patterns of one host by their segments. Registration works on it, and nodes
// are compiled from it; requests never use it.
type trie struct {
	literals   map[string]*trie // the end after a slash is the literal "/"
	wild       *trie
	ends       []*entry // patterns that end here
	remainders []*entry // patterns that match the rest of the path from here
}

// insert adds e below segments[at:].
func (t *trie) insert(e *entry, at int) {
	if at == len(e.segments) {
		t.ends = append(t.ends, e)
		return
	}
	switch s := e.segments[at]; {
	case s.rest:
		t.remainders = append(t.remainders, e)
	case s.wild:
		if t.wild == nil {
			t.wild = new(trie)
		}
		t.wild.insert(e, at+1)
	default:
		if t.literals == nil {
			t.literals = make(map[string]*trie)
		}
		if t.literals[s.text] == nil {
			t.literals[s.text] = new(trie)
		}
		t.literals[s.text].insert(e, at+1)
	}
}

// rivals calls yield with every entry that may match a path that the segments match, until
// yield returns false.
func (t *trie) rivals(segments []segment, yield func(*entry) bool) bool {
	if !each(t.remainders, yield) {
		return false
	}
	if len(segments) == 0 {
		return each(t.ends, yield)
	}
	s := segments[0]
	if s.rest {
		return t.below(yield)
	}
	for text, child := range t.literals {
		if (s.text == text || s.wild && text != end) && !child.rivals(segments[1:], yield) {
			return false
		}
	}
	return t.wild == nil || s.isEnd() || t.wild.rivals(segments[1:], yield)
}

// below calls yield with every entry deeper than t.
func (t *trie) below(yield func(*entry) bool) bool {
	for child := range t.children() {
		if !each(child.ends, yield) || !each(child.remainders, yield) || !child.below(yield) {
			return false
		}
	}
	return true
}

func each(all []*entry, yield func(*entry) bool) bool {
	for _, e := range all {
		if !yield(e) {
			return false
		}
	}
	return true
}

// children iterates over the tries one segment deeper, in a fixed order: literals, then the
// wildcard.
func (t *trie) children() iter.Seq[*trie] {
	return func(yield func(*trie) bool) {
		for _, text := range slices.Sorted(maps.Keys(t.literals)) {
			if !yield(t.literals[text]) {
				return
			}
		}
		if t.wild != nil {
			yield(t.wild)
		}
	}
}

// print writes one line per segment, indented by depth, followed by the patterns that end
// there.
func (t *trie) print(b *strings.Builder, depth int) {
	for _, text := range slices.Sorted(maps.Keys(t.literals)) {
		child := t.literals[text]
		if text == end {
			text = "{$}"
		}
		printLine(b, depth, text, child.ends)
		child.print(b, depth+1)
	}
	if t.wild != nil {
		printLine(b, depth, "{}", t.wild.ends)
		t.wild.print(b, depth+1)
	}
	if len(t.remainders) > 0 {
		printLine(b, depth, "{...}", t.remainders)
	}
}

func printLine(b *strings.Builder, depth int, text string, ends []*entry) {
	fmt.Fprintf(b, "%*s/%s", 2*depth, "", text)
	byMethod := slices.SortedFunc(slices.Values(ends), func(x, y *entry) int {
		return strings.Compare(x.method, y.method)
	})
	for _, e := range byMethod {
		fmt.Fprintf(b, "  %s (%s)", e.text, e.site)
	}
	b.WriteByte('\n')
}
