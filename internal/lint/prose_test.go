package lint

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// madePages are lists and tables that a test or a command makes. Nobody reads them from beginning to end,
// so their words do not count.
var madePages = []string{
	"bench/figures.md", "internal/servetest/results.md", "websocket/autobahn.md",
	"observe/metrics.md",
}

// longPages are the pages that may have more words than mostOfAPage.
var longPages = map[string]int{"docs/design.md": 4500, "docs/log-format.md": 2100}

// These keep the manual so short that one person can read it and keep it true. To say more on a page, take
// something out first.
const (
	mostOfAPage = 2000
	mostOfDocs  = 44_900
	mostOfAll   = 52_000 // without the articles, which are texts of their own
	mostPages   = 45     // of all these
)

// TestProseIsShort counts the words of the pages.
func TestProseIsShort(t *testing.T) {
	for _, fault := range wordyPages(repository(t).texts, mostOfDocs, mostOfAll, mostPages) {
		t.Error(fault)
	}
}

// wordyPages reports the pages, and the sums of pages, that have too many words, and too many pages.
func wordyPages(texts map[string][]byte, docs, all, most int) (faults []string) {
	inDocs, inAll, pages := 0, 0, 0
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if path.Ext(name) != ".md" || strings.HasPrefix(name, "articles/") || strings.Contains(name, "testdata/") || slices.Contains(madePages, name) {
			continue
		}
		pages++
		words, bound := len(strings.Fields(string(texts[name]))), mostOfAPage
		if long, is := longPages[name]; is {
			bound = long
		}
		if words > bound {
			faults = append(faults, fmt.Sprintf("%s has %d words, more than %d", name, words, bound))
		}
		if inAll += words; strings.HasPrefix(name, "docs/") {
			inDocs += words
		}
	}
	if inDocs > docs {
		faults = append(faults, fmt.Sprintf("docs has %d words, more than %d", inDocs, docs))
	}
	if inAll > all {
		faults = append(faults, fmt.Sprintf("all pages have %d words, more than %d", inAll, all))
	}
	if pages > most {
		faults = append(faults, fmt.Sprintf("there are %d pages, more than %d", pages, most))
	}
	return faults
}

// TestWordyPages has a page and sums that are too long, and texts that do not count.
func TestWordyPages(t *testing.T) {
	words := func(n int) []byte { return []byte(strings.Repeat("word ", n)) }
	texts := map[string][]byte{
		"docs/a.md": words(2001), "docs/design.md": words(4500), "README.md": words(10),
		"articles/README.md": words(9000), "observe/metrics.md": words(9000), "docs/a.svg": words(9000),
	}
	want := []string{"docs/a.md has 2001 words, more than 2000", "docs has 6501 words, more than 6500", "all pages have 6511 words, more than 6510", "there are 3 pages, more than 2"}
	if got := wordyPages(texts, 6500, 6510, 2); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := wordyPages(texts, 6501, 6511, 3); len(got) != 1 {
		t.Errorf("%q, want one fault", got)
	}
}
