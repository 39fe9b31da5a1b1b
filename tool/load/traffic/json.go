package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"
)

// parsePath returns user.orders[0].id, or user.orders.0.id, in gjson's syntax, without its
// patterns and queries.
func parsePath(text string) (path string, err error) {
	var words []string
	for word := range strings.SplitSeq(strings.ReplaceAll(strings.ReplaceAll(text, "[", "."), "]", ""), ".") {
		if word == "" && words == nil {
			continue // a list at the top
		}
		if word == "" {
			return "", fmt.Errorf("there is no field %q; write it as in user.id or orders[0].id", text)
		}
		words = append(words, gjson.Escape(word))
	}
	return strings.Join(words, "."), nil
}

// findField appends the value at a path to dst: a string unquoted, any other value as it is. What
// is behind it in the JSON may be wrong or missing, but not the end of the value itself.
func findField(dst, in []byte, path string) (value []byte, ok bool) {
	path = cmp.Or(path, "@this")
	// GetBytes would copy the value. Nothing below keeps the string, or changes it.
	found := gjson.Get(unsafe.String(unsafe.SliceData(in), len(in)), path)
	if found.Raw == "" || !gjson.Valid(found.Raw) {
		return dst, false
	}
	return appendText(dst, found), true
}

func appendText(dst []byte, value gjson.Result) []byte {
	if value.Type == gjson.String {
		return append(dst, value.Str...)
	}
	return append(dst, value.Raw...)
}

var errNoObject = errors.New("no JSON object")

// eachField calls with with the keys and values of an object.
func eachField(in []byte, with func(key, value gjson.Result)) error {
	all := gjson.ParseBytes(in)
	if !all.IsObject() || !gjson.ValidBytes(in) {
		return errNoObject
	}
	all.ForEach(func(key, value gjson.Result) bool {
		with(key, value)
		return true
	})
	return nil
}
