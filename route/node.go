package route

import "math/bits"

// A node is a position in a compiled tree: some segments of a path have been read. Nodes are
// immutable once the tree is built.
//
// A literal is found by its first eight bytes, as one number, in a table with few collisions;
// only a longer one is compared as text. The same numbers find the next slash. A segment takes 3 to
// 5 ns (BenchmarkLookup).
type node struct {
	edges       []edge // a hash table whose size is a power of two, or nil
	multiplier  uint64
	shift       uint8
	wild        *node
	closing     *node  // after a slash that ends the path
	leaf        *entry // the path ends here
	rest        *entry // matches the rest of the path, from the slash on
	methods     uint64 // of leaf, in the tree for all methods
	restMethods uint64 // of rest, in the tree for all methods
}

// An edge leads over one literal to the next node.
type edge struct {
	word uint64 // its first bytes in little-endian order, padded with zeros
	size int
	text string
	to   *node // nil: an empty slot
	next *edge // a collision: literals with equal ends, and of others 4 in 100 or 90 in 1000
}

const (
	ones    = 0x0101010101010101
	tops    = 0x8080808080808080
	slashes = '/' * ones
)

// load returns the eight bytes at s[i:] in little-endian order.
func load(s string, i int) uint64 {
	b := s[i : i+8]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// loadTail returns the bytes at s[i:], fewer than eight, in little-endian order.
func loadTail(s string, i int) uint64 {
	if len(s) >= 8 {
		return load(s, len(s)-8) >> (8 * uint(8-len(s)+i) & 63)
	}
	if left := len(s) - i; left >= 4 {
		return load4(s, i) | load4(s, len(s)-4)<<(8*uint(left-4)&63)
	}
	var w uint64
	for j := len(s) - 1; j >= i; j-- {
		w = w<<8 | uint64(s[j])
	}
	return w
}

func load4(s string, i int) uint64 {
	b := s[i : i+4]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24
}

// zeros sets the top bit of each byte of w that is zero. Bytes above the lowest zero byte may
// be false positives.
func zeros(w uint64) uint64 { return (w - ones) &^ w & tops }

// segmentAt returns the first bytes and the size of the segment that starts at i.
func segmentAt(path string, i int) (word uint64, size int) {
	left := len(path) - i
	if left < 8 {
		word = loadTail(path, i)
	} else {
		word = load(path, i)
	}
	if found := zeros(word ^ slashes); found != 0 {
		at := bits.TrailingZeros64(found) &^ 7
		return word & (1<<at - 1), at >> 3
	}
	if left <= 8 {
		return word, left
	}
	return word, 8 + slashAt(path[i+8:])
}

// slashAt returns the index of the first slash, or the length of s.
func slashAt(s string) int {
	i := 0
	for ; len(s)-i >= 8; i += 8 {
		if found := zeros(load(s, i) ^ slashes); found != 0 {
			return i + bits.TrailingZeros64(found)>>3
		}
	}
	for ; i < len(s) && s[i] != '/'; i++ {
	}
	return i
}

// hash is the hash of a literal whose first bytes are word.
func hash(word uint64, text string, size int) uint64 {
	if size > 8 {
		return word ^ bits.RotateLeft64(load(text, size-8), 23)*0x9E3779B97F4A7C15
	}
	return word
}

// child returns the node after a literal.
func (n *node) child(word uint64, segment string) *node {
	if n.edges == nil {
		return nil
	}
	return n.edges[hash(word, segment, len(segment))*n.multiplier>>n.shift].search(word, segment)
}

// search finds a literal among colliding edges.
func (e *edge) search(word uint64, segment string) *node {
	for ; e != nil; e = e.next {
		if e.word == word && e.size == len(segment) && (e.size <= 8 || e.text == segment) {
			return e.to
		}
	}
	return nil
}

// isDots reports whether a segment is empty, "." or "..".
func isDots(word uint64, size int) bool {
	return size == 0 || size <= 2 && (word == '.' || word == '.'|'.'<<8)
}

// walk finds the entry for an unescaped path, of which n has read everything before i. With
// slash, it does so as if the path had one more slash at its end. A segment that cleaning
// would remove matches no {x}; what a {x...} matches is not checked.
//
// Literals take precedence over {x}, which takes precedence over {x...}. Each node is visited
// at most once.
func (n *node) walk(path string, i int, slash bool) *entry {
	var remainder *entry
	for i < len(path) {
		var word uint64
		var size int
		if i+8 <= len(path) {
			word = load(path, i)
			if found := zeros(word ^ slashes); found != 0 {
				at := bits.TrailingZeros64(found) &^ 7
				word, size = word&(1<<(at&63)-1), at>>3
			} else {
				size = 8 + slashAt(path[i+8:])
			}
		} else {
			word, size = segmentAt(path, i)
		}
		var to *node
		if n.edges != nil {
			h := word
			if size > 8 {
				h = hash(word, path[i:i+size], size)
			}
			e := &n.edges[h*n.multiplier>>(n.shift&63)]
			if e.word == word && e.size == size && (size <= 8 || e.text == path[i:i+size]) {
				to = e.to
			} else if e.next != nil {
				to = e.next.search(word, path[i:i+size])
			}
		}
		if n.rest != nil {
			remainder = n.rest
		}
		if n.wild != nil {
			if to != nil {
				if e := to.walkOn(path, i+size, slash); e != nil {
					return e
				}
			}
			to = n.wild
			if isDots(word, size) {
				return remainder
			}
		}
		if to == nil {
			return remainder
		}
		n, i = to, i+size
		if i == len(path) {
			if e := n.ending(slash); e != nil {
				return e
			}
			return remainder
		}
		i++
	}
	if e := n.ending(true); e != nil {
		return e
	}
	return remainder
}

// walkOn continues walk after a segment.
func (n *node) walkOn(path string, i int, slash bool) *entry {
	if i == len(path) {
		return n.ending(slash)
	}
	return n.walk(path, i+1, slash)
}

// ending returns the entry for a path that ends here, or here with one more slash.
func (n *node) ending(slash bool) *entry {
	if !slash {
		return n.leaf
	}
	if n.closing != nil && n.closing.leaf != nil {
		return n.closing.leaf
	}
	return n.rest
}

// seek is walk for a path that may be escaped or unclean. path is the rest of it, starting
// with a slash.
func (n *node) seek(path string, escaped bool) *entry {
	if path == "" {
		return n.leaf
	}
	segment, left := first(path, escaped)
	for _, to := range n.ways(segment) {
		if to != nil {
			if e := to.seek(left, escaped); e != nil {
				return e
			}
		}
	}
	return n.rest
}

// collect returns the methods of all entries that match the path, or the path with one more
// slash.
func (n *node) collect(path string, escaped bool) uint64 {
	if path == "" {
		methods := n.methods | n.restMethods
		if n.closing != nil {
			methods |= n.closing.methods
		}
		return methods
	}
	methods := n.restMethods
	if path == end {
		if n.closing != nil {
			methods |= n.closing.methods
		}
		return methods
	}
	segment, left := first(path, escaped)
	for _, to := range n.ways(segment) {
		if to != nil {
			methods |= to.collect(left, escaped)
		}
	}
	return methods
}

// gather is collect for an unescaped, clean path, of which n has read everything before i.
func (n *node) gather(path string, i int) uint64 {
	var methods uint64
	for i < len(path) {
		methods |= n.restMethods
		word, size := segmentAt(path, i)
		to := n.child(word, path[i:i+size])
		i += size
		switch {
		case to == nil:
			to = n.wild
		case n.wild != nil:
			methods |= to.gatherOn(path, i)
			to = n.wild
		}
		if to == nil {
			return methods
		}
		if n = to; i == len(path) {
			return methods | n.collect("", false)
		}
		i++
	}
	return methods | n.collect(end, false)
}

// gatherOn continues gather after a segment.
func (n *node) gatherOn(path string, i int) uint64 {
	if i == len(path) {
		return n.collect("", false)
	}
	return n.gather(path, i+1)
}

// ways returns the nodes that a segment may lead to, in order of precedence.
func (n *node) ways(segment string) [2]*node {
	if segment == end {
		return [2]*node{n.closing}
	}
	return [2]*node{n.child(firstWord(segment), segment), n.wild}
}

// first cuts the first segment off a path. A slash at the end counts as a segment.
func first(path string, escaped bool) (segment, left string) {
	if path == end {
		return end, ""
	}
	stop := 1 + slashAt(path[1:])
	segment = path[1:stop]
	if escaped {
		segment = unescape(segment)
	}
	return segment, path[stop:]
}

// firstWord returns the first bytes of a literal, as in edge.word.
func firstWord(text string) uint64 {
	if len(text) < 8 {
		return loadTail(text, 0)
	}
	return load(text, 0)
}
