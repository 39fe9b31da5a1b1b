package exit

import "fmt"

// DidYouMean suggests the nearest known word, or returns otherwise if none is near.
func DidYouMean(text string, known []string, otherwise string) string {
	if near := nearest(text, known); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return otherwise
}

// nearest returns the known word at the smallest edit distance from text: at most one
// edit per three letters, and at least one. Among equals it prefers a word with the
// prefix text. Empty: there is none.
func nearest(text string, known []string) string {
	best, least := "", max(1, len(text)/3)+1
	for _, k := range known {
		d := distance(text, k)
		if d < least || d == least && best != "" && text != "" && best[0] != text[0] && k[0] == text[0] {
			best, least = k, d
		}
	}
	return best
}

// distance returns the edit distance of a and b: insertions, deletions, substitutions and
// swaps of neighbours.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
