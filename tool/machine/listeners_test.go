package machine

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Listening sockets stand first; what follows is not read, however many connections there are.
func TestListeningReadsNoConnections(t *testing.T) {
	const (
		head   = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
		listen = "   %d: 0100007F:%04X 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 %d 1 0 100 0 0 10 0\n"
		waits  = " 100: 0100007F:1B58 0100007F:C350 06 00000000:00000000 03:00000F5B 00000000     0        0 0 3 0\n"
	)
	rest := strings.NewReader(strings.Repeat(waits, 10_000))
	table := io.MultiReader(strings.NewReader(head+fmt.Sprintf(listen, 0, 80, 11)+fmt.Sprintf(listen, 1, 7000, 12)), rest)
	h := &host{root: tables{"proc/net/tcp": table, "proc/net/tcp6": strings.NewReader(head + fmt.Sprintf(listen, 0, 7000, 13))}}
	got := slices.Sorted(maps.Keys(h.listening(7000)))
	if want := []string{"socket:[12]", "socket:[13]"}; !slices.Equal(got, want) {
		t.Errorf("%q listen, want %q", got, want)
	}
	if read := int(rest.Size()) - rest.Len(); read > 1<<16 {
		t.Errorf("%d of %d bytes of connections are read", read, rest.Size())
	}
}

// tables are files that are read once, and count what is left.
type tables map[string]io.Reader

func (f tables) Open(name string) (fs.File, error) {
	if f[name] == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return tableFile{f[name]}, nil
}

// tableFile is one of them, open.
type tableFile struct{ io.Reader }

func (tableFile) Stat() (fs.FileInfo, error) { return nil, fs.ErrInvalid }
func (tableFile) Close() error               { return nil }
