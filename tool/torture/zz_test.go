package torture

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestZZ(t *testing.T) {
	for _, x := range strings.Fields(os.Getenv("ZZ")) {
		f, sc, _ := strings.Cut(x, ":")
		for n, r := range attack(t, plan(t, f, strings.Split(sc, ",")...)) {
			if r.Verdict != NotApplicable {
				fmt.Printf("%s %s %+v %+v\n", f, n, r.Felt, r.Used)
			}
		}
	}
}
