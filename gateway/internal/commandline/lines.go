package commandline

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// PrintList prints a table, or a line of JSON for each item.
func PrintList[T any](out io.Writer, asJSON bool, items []T, head string, line func(T) string) error {
	if asJSON {
		lines := json.NewEncoder(out)
		lines.SetEscapeHTML(false)
		for _, item := range items {
			if err := lines.Encode(item); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, head)
	for _, item := range items {
		fmt.Fprintln(table, line(item))
	}
	return table.Flush()
}
