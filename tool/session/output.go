package session

import (
	"bytes"
	"encoding/json"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/hone-go/hone/tool/exit"
)

// Output sets the destination and form of a result.
type Output struct {
	JSON, MD bool   // neither: text
	File     string // empty: standard output
}

// Check refuses two forms at once.
func (o Output) Check(command string) error {
	if o.JSON && o.MD {
		return exit.Usagef("%s: choose one of --json and --md", command)
	}
	return nil
}

// Said reports whether the result is text on standard output, whose first line tells the
// user how it went.
func (o Output) Said() bool { return !o.JSON && o.File == "" }

// File is the destination of a result.
type File struct {
	io.Writer
	file *os.File // nil: standard output
}

// Open checks now that the result can be written later. An existing file keeps its
// content until the result replaces it.
func (o Output) Open(stdout io.Writer) (*File, error) {
	if o.File == "" {
		return &File{Writer: stdout}, nil
	}
	file, err := os.OpenFile(o.File, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return nil, exit.Failedf("-o: %w; use a writable file", err)
	}
	return &File{Writer: file, file: file}, nil
}

// begin empties the file.
func (f *File) begin() error {
	if f.file == nil {
		return nil
	}
	if info, err := f.file.Stat(); err != nil || !info.Mode().IsRegular() {
		return err // a device cannot be truncated
	}
	return f.file.Truncate(0)
}

// Close closes the file.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// Stream opens the output and writes a result to it.
func (o Output) Stream(command string, stdout io.Writer, result func(io.Writer) error) error {
	out, err := o.Open(stdout)
	if err != nil {
		return err
	}
	defer out.Close()
	if err = out.begin(); err == nil {
		err = result(out)
	}
	if err != nil {
		return exit.Failedf("%s: %w", command, err)
	}
	return nil
}

// Print writes the result of cmd: v as JSON, or text.
func (o Output) Print(cmd *cobra.Command, v any, text func(io.Writer)) error {
	return o.Stream(cmd.Name(), cmd.OutOrStdout(), func(w io.Writer) error {
		if o.JSON {
			return WriteJSON(w, v)
		}
		return InText(text)(w)
	})
}

// InText buffers a text and writes it at once.
func InText(text func(io.Writer)) func(io.Writer) error {
	return func(w io.Writer) error {
		var b bytes.Buffer
		text(&b)
		_, err := w.Write(b.Bytes())
		return err
	}
}

// WriteJSON writes one indented JSON object.
func WriteJSON(w io.Writer, v any) error {
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	lines.SetIndent("", "  ")
	return lines.Encode(v)
}
