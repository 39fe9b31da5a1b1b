// Package number writes and reads the number of a record: its envelope's position in the log, and its index in that.
package number

import (
	"fmt"
	"strconv"
	"strings"
)

// IndexBits is how many bits of a number are the index.
const IndexBits = 16

// Format returns a number as POSITION.INDEX.
func Format(number uint64) string {
	return fmt.Sprintf("%d.%d", number>>IndexBits, number&(1<<IndexBits-1))
}

// Parse reads what Format returns; without an index, 0.
func Parse(text string) (uint64, error) {
	before, after, _ := strings.Cut(text, ".")
	pos, err := strconv.ParseUint(before, 10, 64-IndexBits)
	index := uint64(0)
	if err == nil && after != "" {
		index, err = strconv.ParseUint(after, 10, IndexBits)
	}
	return pos<<IndexBits | index, err
}
