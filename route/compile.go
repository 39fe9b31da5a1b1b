package route

import "math/bits"

// A chooser picks which of several entries for the same paths a tree contains, or nil for
// none.
type chooser func([]*entry) *entry

// compile builds the nodes for the entries of t that choose picks, or returns nil if there are
// none. The tree for all methods stores the methods of every entry instead.
func (t *trie) compile(choose chooser, methods func([]*entry) uint64) *node {
	n := &node{
		leaf:        choose(t.ends),
		rest:        choose(t.remainders),
		methods:     methods(t.ends),
		restMethods: methods(t.remainders),
	}
	empty := n.leaf == nil && n.rest == nil && n.methods|n.restMethods == 0
	if t.wild != nil {
		n.wild = t.wild.compile(choose, methods)
	}
	var edges []edge
	for text, child := range t.literals {
		to := child.compile(choose, methods)
		switch {
		case to == nil:
		case text == end:
			n.closing = to
		default:
			edges = append(edges, edge{word: firstWord(text), size: len(text), text: text, to: to})
		}
	}
	if empty && n.wild == nil && n.closing == nil && len(edges) == 0 {
		return nil
	}
	n.buildTable(edges)
	return n
}

// buildTable puts the edges into a hash table, without collisions if possible.
func (n *node) buildTable(edges []edge) {
	if len(edges) == 0 {
		return
	}
	hashes := make([]uint64, len(edges))
	for i, e := range edges {
		hashes[i] = hash(e.word, e.text, e.size)
	}
	var size int
	n.multiplier, n.shift, size = chooseHash(hashes)
	n.edges = make([]edge, size)
	for i, e := range edges {
		place := &n.edges[hashes[i]*n.multiplier>>n.shift]
		if place.to != nil {
			further := *place
			e.next = &further
		}
		*place = e
	}
}

// chooseHash finds a multiplier and a shift that map the hashes to different slots of a table of
// that size, or otherwise with few collisions.
func chooseHash(hashes []uint64) (multiplier uint64, shift uint8, size int) {
	const tries = 64
	best := len(hashes) + 1
	least := bits.Len(uint(max(len(hashes)-1, 1)))
	for width := least; width <= least+2; width++ {
		random := uint64(0x9E3779B97F4A7C15)
		taken := make([]bool, 1<<width)
		for range tries {
			random = mix(random)
			clear(taken)
			equal := 0
			for _, h := range hashes {
				place := h * (random | 1) >> (64 - width)
				if taken[place] {
					equal++
				}
				taken[place] = true
			}
			if equal < best {
				best, multiplier, shift, size = equal, random|1, uint8(64-width), 1<<width
			}
			if equal == 0 {
				return multiplier, shift, size
			}
		}
	}
	return multiplier, shift, size
}

// mix returns the next number of a deterministic pseudo-random sequence.
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// exact maps paths to the entries that match exactly one path.
type exact struct {
	sizes      uint64  // a bit for each path size, modulo 64
	places     []place // a hash table whose size is a power of two, or nil
	multiplier uint64
	shift      uint8
}

type place struct {
	words
	path string
	to   *entry
	next *place // a collision in the table, as of 4 in 100 paths and 90 in 1000; the tree is slower
}

// words are eight bytes each from a path's beginning, middle and end. Together they cover a
// path of up to wholeInWords bytes completely.
type words struct{ first, middle, last uint64 }

const wholeInWords = 24

func wordsOf(path string) words {
	n := len(path)
	if n < 8 {
		return words{first: loadTail(path, 0)}
	}
	return words{load(path, 0), load(path, (n-8)>>1), load(path, n-8)}
}

// digest is a hash of a path.
func (w words) digest(size int) uint64 {
	return (w.last ^ bits.RotateLeft64(w.middle, 31)) + (w.first^uint64(size))*0xBF58476D1CE4E5B9
}

// has reports whether a path of this size may be in x.
func (x *exact) has(size int) bool { return x.sizes>>(size&63)&1 != 0 }

// find returns the entry that matches exactly this path, or nil. Call has first.
func (x *exact) find(path string) *entry {
	var w words // as wordsOf, which is too large to be inlined
	if n := len(path); n >= 8 {
		w = words{load(path, 0), load(path, (n-8)>>1), load(path, n-8)}
	} else {
		w.first = loadTail(path, 0)
	}
	for p := &x.places[w.digest(len(path))*x.multiplier>>(x.shift&63)]; p != nil; p = p.next {
		if p.first == w.first && p.last == w.last && p.middle == w.middle && len(p.path) == len(path) &&
			(len(path) <= wholeInWords || p.path == path) {
			return p.to
		}
	}
	return nil
}

// newExact builds the table for a tree of entries.
func newExact(entries []*entry, choose chooser) exact {
	byPath := make(map[string][]*entry)
	for _, e := range entries {
		if path, only := e.exactPath(); only {
			byPath[path] = append(byPath[path], e)
		}
	}
	var paths []place
	var digests []uint64
	for path, same := range byPath {
		if e := choose(same); e != nil {
			w := wordsOf(path)
			paths = append(paths, place{words: w, path: path, to: e})
			digests = append(digests, w.digest(len(path)))
		}
	}
	if len(paths) == 0 {
		return exact{}
	}
	var x exact
	var size int
	x.multiplier, x.shift, size = chooseHash(digests)
	x.places = make([]place, size)
	for i, p := range paths {
		x.sizes |= 1 << (len(p.path) & 63)
		at := &x.places[digests[i]*x.multiplier>>x.shift]
		if at.to != nil {
			further := *at
			p.next = &further
		}
		*at = p
	}
	return x
}
