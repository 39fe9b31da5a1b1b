package compare

import (
	"fmt"

	"github.com/hone-go/hone/tool/record"
)

// Short explains why there are fewer valid samples than wanted; of two runs it counts
// pairs, both of which must be valid. Empty: there are enough. Samples with a profile are not counted.
func Short(runs []*record.Run, wanted int) (reasons []string) {
	valid := make(map[int]int) // of each pair; 0 of one that was taken and is not valid
	last := ""
	for _, run := range runs {
		for i, s := range run.Samples {
			if s.Pair > 0 {
				i = s.Pair
			}
			switch {
			case s.Valid:
				valid[i]++
			case s.Unfit != record.Profiled:
				valid[i] += 0
				last = s.Reasons[len(s.Reasons)-1]
			}
		}
	}
	whole := 0
	for _, n := range valid {
		if n == len(runs) {
			whole++
		}
	}
	switch taken := len(valid); {
	case whole >= wanted:
	case taken < wanted:
		reasons = append(reasons, fmt.Sprintf("%d of %d samples are valid, and %d are needed: %s", whole, taken, wanted, last))
	default:
		reasons = append(reasons, fmt.Sprintf("%d of %d samples are valid: %s", whole, wanted, last))
	}
	return reasons
}
