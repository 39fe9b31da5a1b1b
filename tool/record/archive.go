package record

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	documentName = "run.json"
	blobFolder   = "blobs/"
	mostDocument = 64 << 20 // bytes
	mostArchive  = 1 << 30
)

// Export writes a run as a tar: run.json, then each blob as blobs/<its SHA-256>. The same
// run gives the same bytes.
func Export(w io.Writer, r *Run) error {
	c, err := seal(r)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	text, err := c.doc.encode()
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	out := tar.NewWriter(w)
	err = put(out, documentName, text)
	for _, hash := range slices.Sorted(maps.Keys(c.blobs)) {
		if err == nil {
			err = put(out, blobFolder+hash, c.blobs[hash])
		}
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		return fmt.Errorf("record: writing the export: %w", err)
	}
	return nil
}

func put(out *tar.Writer, name string, data []byte) error {
	err := out.WriteHeader(&tar.Header{
		Format: tar.FormatUSTAR, Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data)), ModTime: time.Unix(0, 0),
	})
	if err == nil {
		_, err = out.Write(data)
	}
	return err
}

// Import reads what Export wrote, and refuses anything else with ErrDamaged: a different
// hash, a different ID, an extra file. It reads at most a GiB, and allocates memory only
// as data arrives.
func Import(r io.Reader) (*Run, error) {
	return importWithin(r, mostArchive)
}

func importWithin(r io.Reader, most int64) (*Run, error) {
	in := &archive{tar: tar.NewReader(r), room: most}
	text, err := in.next(documentName, mostDocument)
	if err != nil {
		return nil, err
	}
	var d document
	if err := unmarshalStrictly(text, &d); err != nil {
		return nil, fmt.Errorf("%w: %s: %w; export the run again", ErrDamaged, documentName, err)
	}
	if d.Schema != documentSchema {
		return nil, fmt.Errorf("%w: its schema is %q and this program reads %q; use the hone that exported it", ErrDamaged, d.Schema, documentSchema)
	}
	blobs := map[string][]byte{}
	for _, hash := range d.hashes() {
		if blobs[hash], err = in.next(blobFolder+hash, most); err != nil {
			return nil, err
		}
		if digest(blobs[hash]) != hash {
			return nil, fmt.Errorf("%w: %s%s has other content; export the run again", ErrDamaged, blobFolder, hash)
		}
	}
	if _, err := in.tar.Next(); err != io.EOF {
		return nil, fmt.Errorf("%w: it has files that %s does not name; export the run again", ErrDamaged, documentName)
	}
	return d.verified(text, blobs)
}

// verified returns the run if Export would have encoded it identically.
func (d *document) verified(text []byte, blobs map[string][]byte) (*Run, error) {
	c, err := seal(d.run(blobs))
	if err != nil {
		return nil, fmt.Errorf("%w: %w; export the run again", ErrDamaged, err)
	}
	again, err := c.doc.encode()
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if c.ID != d.ID {
		return nil, fmt.Errorf("%w: the ID of run %q does not match its content; export the run again", ErrDamaged, d.ID)
	}
	if !bytes.Equal(again, text) {
		return nil, fmt.Errorf("%w: %s of run %s was not written by hone; export the run again", ErrDamaged, documentName, d.ID)
	}
	return c.Run, nil
}

// hashes returns those of all blobs, in the order of the export.
func (d *document) hashes() []string {
	all := map[string]bool{}
	for _, s := range d.Samples {
		for _, h := range s.Histograms {
			all[h.SHA256] = true
		}
		for _, a := range s.Artefacts {
			all[a.SHA256] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// archive reads a tar whose files are known in advance.
type archive struct {
	tar  *tar.Reader
	room int64 // bytes that may still be read
}

// next reads the next file, which must have this name.
func (a *archive) next(name string, most int64) ([]byte, error) {
	head, err := a.tar.Next()
	if err != nil {
		return nil, fmt.Errorf("%w: %s is missing: %w; export the run again", ErrDamaged, name, err)
	}
	if head.Name != name || head.Typeflag != tar.TypeReg || head.Format != tar.FormatUSTAR {
		return nil, fmt.Errorf("%w: %q is where %s belongs; this is not an export of a run", ErrDamaged, shorten(head.Name), name)
	}
	if head.Size > min(most, a.room) {
		return nil, fmt.Errorf("%w: it is too large; a run has at most %d MiB", ErrDamaged, mostArchive>>20)
	}
	a.room -= head.Size
	data, err := io.ReadAll(a.tar)
	if err != nil {
		return nil, fmt.Errorf("%w: %s is truncated: %w; export the run again", ErrDamaged, name, err)
	}
	return data, nil
}

func shorten(name string) string {
	if len(name) > 100 {
		return strings.ToValidUTF8(name[:100], "") + "…"
	}
	return name
}
