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
	"observe/metrics.md", "tool/torture/requests.md",
}

// longPages are the pages that may have more words than mostOfAPage.
var longPages = map[string]int{"docs/design.md": 4500}

// These keep the manual so short that one person can read it and keep it true. To say more on a page, take
// something out first.
const (
	mostOfAPage = 3000
	mostOfDocs  = 47_000
	mostOfAll   = 54_000 // without the articles, which are texts of their own
)

// TestProseIsShort counts the words of the pages.
func TestProseIsShort(t *testing.T) {
	for _, fault := range wordyPages(repository(t).texts, mostOfDocs, mostOfAll) {
		t.Error(fault)
	}
}

// wordyPages reports the pages, and the sums of pages, that have too many words.
func wordyPages(texts map[string][]byte, docs, all int) (faults []string) {
	inDocs, inAll := 0, 0
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if path.Ext(name) != ".md" || strings.HasPrefix(name, "articles/") || strings.Contains(name, "testdata/") || slices.Contains(madePages, name) {
			continue
		}
		words, most := len(strings.Fields(string(texts[name]))), mostOfAPage
		if long, is := longPages[name]; is {
			most = long
		}
		if words > most {
			faults = append(faults, fmt.Sprintf("%s has %d words, more than %d", name, words, most))
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
	return faults
}

// TestWordyPages has a page and sums that are too long, and texts that do not count.
func TestWordyPages(t *testing.T) {
	words := func(n int) []byte { return []byte(strings.Repeat("word ", n)) }
	texts := map[string][]byte{
		"docs/a.md": words(3001), "docs/design.md": words(4500), "README.md": words(10),
		"articles/README.md": words(9000), "observe/metrics.md": words(9000), "docs/a.svg": words(9000),
	}
	want := []string{"docs/a.md has 3001 words, more than 3000", "docs has 7501 words, more than 7500", "all pages have 7511 words, more than 7510"}
	if got := wordyPages(texts, 7500, 7510); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := wordyPages(texts, 7501, 7511); len(got) != 1 {
		t.Errorf("%q, want one fault", got)
	}
}
