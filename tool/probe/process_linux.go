package probe

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/hone-go/hone/tool/record"
)

// Local reads what the system says of a process of this machine: its memory, limits
// and threads, and its waiting for processors and disks. Files that may not be read
// are left out.
func Local(pid int) (record.Artefact, error) {
	var text bytes.Buffer
	for _, name := range []string{"status", "smaps_rollup", "limits", "io", "schedstat"} {
		path := "/proc/" + strconv.Itoa(pid) + "/" + name
		if data, err := os.ReadFile(path); err == nil {
			fmt.Fprintf(&text, "-- %s --\n%s", name, data)
		}
	}
	if text.Len() == 0 {
		return record.Artefact{}, &Error{Unreachable, fmt.Sprintf("there is no process %d to be read", pid), "check the number, and whose it is", nil}
	}
	return record.Artefact{Kind: string(Process), Name: "process.txt", Data: text.Bytes()}, nil
}
