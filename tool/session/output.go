package session

import (
	"bytes"
	"encoding/json"
	"io"
	"os"

	"github.com/hone-go/hone/tool/exit"
)

// Output says where a result goes, and in which form.
type Output struct {
	JSON bool
	File string // empty: standard output
}

// Said reports whether people read the result, whose first line says how it went.
func (o Output) Said() bool { return !o.JSON && o.File == "" }

// File is where a result goes.
type File struct {
	io.Writer
	file *os.File // nil: standard output
}

// Open finds out now whether the result can be written later. What is in the file stays
// until there is something to take its place.
func (o Output) Open(stdout io.Writer) (*File, error) {
	if o.File == "" {
		return &File{Writer: stdout}, nil
	}
	file, err := os.OpenFile(o.File, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return nil, exit.Failedf("-o: %w; name a file that can be written", err)
	}
	return &File{Writer: file, file: file}, nil
}

// begin empties the file.
func (f *File) begin() error {
	if f.file == nil {
		return nil
	}
	if info, err := f.file.Stat(); err != nil || !info.Mode().IsRegular() {
		return err // a device has nothing to empty
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

// Stream opens the output, and writes a result into it.
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

// Write writes v as JSON, or its text.
func (o Output) Write(command string, stdout io.Writer, v any, text func(io.Writer)) error {
	return o.Stream(command, stdout, func(w io.Writer) error {
		if o.JSON {
			return WriteJSON(w, v)
		}
		return InText(text)(w)
	})
}

// InText collects a text, and writes it at once.
func InText(text func(io.Writer)) func(io.Writer) error {
	return func(w io.Writer) error {
		var b bytes.Buffer
		text(&b)
		_, err := w.Write(b.Bytes())
		return err
	}
}

// WriteJSON writes one object for people and programs.
func WriteJSON(w io.Writer, v any) error {
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	lines.SetIndent("", "  ")
	return lines.Encode(v)
}
