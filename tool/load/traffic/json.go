package traffic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// A JSON field is found by scanning the bytes up to it, without allocation. Only what is scanned
// is verified: FuzzJSONField compares the scan with package encoding/json for all valid JSON.

// pathStep is the key of an object, or an index into a list.
type pathStep struct {
	key   string
	place int // -1: a key
}

// parsePath parses user.orders[0].id, or user.orders.0.id.
func parsePath(text string) (path []pathStep, err error) {
	for word := range strings.SplitSeq(strings.ReplaceAll(strings.ReplaceAll(text, "[", "."), "]", ""), ".") {
		if word == "" && len(path) == 0 {
			continue // a list at the top
		}
		if word == "" {
			return nil, fmt.Errorf("there is no field %q; write it as in user.id or orders[0].id", text)
		}
		step := pathStep{key: word, place: -1}
		if n, err := strconv.Atoi(word); err == nil && n >= 0 {
			step.place = n
		}
		path = append(path, step)
	}
	return path, nil
}

// findField returns the raw value at a path.
func findField(in []byte, path []pathStep) (value []byte, ok bool) {
	w := walker{in: in}
	for _, step := range path {
		if ok := w.enter(step); !ok {
			return nil, false
		}
	}
	w.blanks()
	from := w.at
	if !w.skip() {
		return nil, false
	}
	return in[from:w.at], true
}

// eachField calls with with the raw keys and values of an object, and reports whether in is one.
func eachField(in []byte, with func(key, value []byte)) bool {
	w := walker{in: in}
	if !w.take('{') {
		return false
	}
	for first := true; ; first = false {
		if w.take('}') {
			return true
		}
		if !first && !w.take(',') {
			return false
		}
		w.blanks()
		from := w.at
		if w.peek() != '"' || !w.skip() {
			return false
		}
		key := in[from:w.at]
		if !w.take(':') {
			return false
		}
		w.blanks()
		from = w.at
		if !w.skip() {
			return false
		}
		with(key, in[from:w.at])
	}
}

// walker scans JSON.
type walker struct {
	in []byte
	at int
}

func (w *walker) blanks() {
	for w.at < len(w.in) && (w.in[w.at] == ' ' || w.in[w.at] == '\n' || w.in[w.at] == '\r' || w.in[w.at] == '\t') {
		w.at++
	}
}

func (w *walker) peek() byte {
	if w.at < len(w.in) {
		return w.in[w.at]
	}
	return 0
}

// take skips blanks, and then takes the byte if it is that one.
func (w *walker) take(b byte) bool {
	w.blanks()
	if w.peek() != b {
		return false
	}
	w.at++
	return true
}

// enter moves to the value of a key or index.
func (w *walker) enter(step pathStep) bool {
	w.blanks()
	switch {
	case w.take('{'):
		return w.enterKey(step.key)
	case step.place >= 0 && w.take('['):
		return w.enterPlace(step.place)
	}
	return false
}

func (w *walker) enterKey(key string) bool {
	for first := true; ; first = false {
		if !first && !w.take(',') {
			return false
		}
		w.blanks()
		from := w.at
		if w.peek() != '"' || !w.skip() {
			return false
		}
		found := isText(w.in[from:w.at], key)
		if !w.take(':') {
			return false
		}
		if found {
			return true
		}
		w.blanks()
		if !w.skip() {
			return false
		}
	}
}

func (w *walker) enterPlace(place int) bool {
	for i := 0; ; i++ {
		w.blanks()
		if w.peek() == ']' || i > 0 && !w.take(',') {
			return false
		}
		if i == place {
			return true
		}
		w.blanks()
		if !w.skip() {
			return false
		}
	}
}

// skip skips a value.
func (w *walker) skip() bool {
	depth := 0
	for w.at < len(w.in) {
		switch b := w.in[w.at]; b {
		case '"':
			if !w.skipText() {
				return false
			}
		case '{', '[':
			depth++
			w.at++
		case '}', ']':
			depth--
			w.at++
		case ',', ':', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return false // a value was expected
			}
			w.at++
			continue
		default:
			from := w.at
			for w.at < len(w.in) && bytes.IndexByte([]byte(",:{}[]\" \n\r\t"), w.in[w.at]) < 0 {
				w.at++
			}
			if w.at == from {
				return false
			}
		}
		if depth <= 0 {
			return depth == 0
		}
	}
	return false
}

func (w *walker) skipText() bool {
	for w.at++; w.at < len(w.in); w.at++ {
		switch w.in[w.at] {
		case '\\':
			w.at++
		case '"':
			w.at++
			return true
		}
	}
	return false
}

// isText compares a raw string, including its quotes, with text.
func isText(raw []byte, text string) bool {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1:len(raw)-1]) == text
	}
	return string(appendText(nil, raw)) == text
}

// appendText appends a raw value: a string unquoted, any other value as it is.
func appendText(dst, raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return append(dst, raw...)
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return append(dst, raw[1:len(raw)-1]...)
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return append(dst, raw...)
	}
	return append(dst, text...)
}
