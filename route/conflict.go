package route

import (
	"fmt"
	"strings"
)

// A relation says how two sets of requests overlap.
type relation uint8

const (
	same     relation = 0
	wider    relation = 1                // the first is a superset
	narrower relation = 2                // the second is a superset
	crossing          = wider | narrower // they overlap, and each has requests of its own
	apart    relation = 4                // they are disjoint
)

// and is the relation of two pairs whose parts have these relations.
func (a relation) and(b relation) relation {
	if a == apart || b == apart {
		return apart
	}
	return a | b
}

// compareMethods compares the methods of two patterns. GET includes HEAD.
func compareMethods(a, b string) relation {
	switch {
	case a == b:
		return same
	case a == "" || a == "GET" && b == "HEAD":
		return wider
	case b == "" || a == "HEAD" && b == "GET":
		return narrower
	}
	return apart
}

// compareSegments compares what two segments at the same position match.
func compareSegments(a, b segment) relation {
	switch {
	case a.rest || b.rest:
		return rank(a.rest, b.rest)
	case a.isEnd() != b.isEnd():
		return apart
	case a.wild || b.wild:
		return rank(a.wild, b.wild)
	case a.text == b.text:
		return same
	}
	return apart
}

// rank compares two segments of which at least one is of the more general kind.
func rank(a, b bool) relation {
	switch {
	case a && !b:
		return wider
	case b && !a:
		return narrower
	}
	return same
}

// comparePaths compares the paths that two patterns match.
func comparePaths(a, b []segment) relation {
	all := same
	shared := min(len(a), len(b))
	for i := range shared {
		if all = all.and(compareSegments(a[i], b[i])); all == apart {
			return apart
		}
	}
	switch {
	case len(a) == len(b):
		return all
	case len(a) < len(b) && a[shared-1].rest:
		return all.and(wider)
	case len(b) < len(a) && b[shared-1].rest:
		return all.and(narrower)
	}
	return apart
}

// conflict says why two patterns of the same host cannot both be registered, or "". If both
// match some request, one of them must be more specific. With overlap, only patterns that
// match exactly the same requests conflict.
func conflict(a, b *pattern, overlap bool) string {
	methods, paths := compareMethods(a.method, b.method), comparePaths(a.segments, b.segments)
	switch both := methods.and(paths); {
	case both == same:
		return "both match the same requests; remove one"
	case both != crossing || overlap:
		return ""
	case paths == crossing:
		return fmt.Sprintf("both match %s, and neither is more specific: only the first matches %s, only the second matches %s; "+
			"make one more specific, or set Mux.Overlap", sharedPath(a.segments, b.segments),
			onlyPath(a.segments, b.segments), onlyPath(b.segments, a.segments))
	case methods == wider:
		return "the first matches more methods but fewer paths; give both a method"
	}
	return "the first matches fewer methods but more paths; give both a method"
}

// sharedPath returns a path that matches both a and b, which overlap.
func sharedPath(a, b []segment) string {
	if len(a) < len(b) {
		a, b = b, a
	}
	var path strings.Builder
	for i, s := range a {
		if i < len(b) && compareSegments(s, b[i]) == wider {
			s = b[i]
		}
		path.WriteString(sample(s, ""))
	}
	return path.String()
}

// onlyPath returns a path that matches a but not b, for patterns that overlap without either
// being more specific: at some position a matches more than b.
func onlyPath(a, b []segment) string {
	var path strings.Builder
	for i, s := range a {
		var other segment
		if i < len(b) {
			other = b[i]
		}
		switch {
		case s.rest && other.isEnd():
			return path.String() + "/x"
		case s.wild && !other.wild:
			path.WriteString(sample(s, other.text))
		default:
			path.WriteString(sample(s, ""))
		}
	}
	return path.String()
}

// sample returns a slash and something that the segment matches, other than the literal
// avoid.
func sample(s segment, avoid string) string {
	switch {
	case s.rest || s.isEnd():
		return "/"
	case s.wild && s.text == avoid:
		return "/" + avoid + "x"
	}
	return "/" + s.text
}
