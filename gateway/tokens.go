package gateway

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Tokens are the clients that may connect and their secrets. They come from a file with a
// line "CLIENT TOKEN" or "CLIENT sha256:HEX" for each. Two lines for one client let it rotate
// its token without downtime. A line that begins with # is a comment. A third word, "reads" or
// "reads:PREFIX", is for a reader instead of a client: it may read the records of all clients, or of
// those whose names begin with PREFIX. With "writes:PREFIX" the token may send as every client whose name
// begins with PREFIX.
//
// A Server looks at the file every second. It ends connections whose token is gone, and those of readers whose token permits
// something else: they open again.
type Tokens struct {
	path   string
	byName atomic.Pointer[map[string][]permission]

	mu      sync.Mutex
	changed time.Time // modification time of the file
	size    int64
	failed  error // why the current file is not in use
}

// Limits of a token and its file.
const (
	minToken = 16
	maxFile  = 64 << 20
)

// ReadTokens reads a file of tokens. A file with plaintext tokens must not be readable by
// other users.
func ReadTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	if err := t.read(); err != nil {
		return nil, err
	}
	return t, nil
}

// Empty reports whether the file names nobody: nobody can connect.
func (t *Tokens) Empty() bool { return len(*t.byName.Load()) == 0 }

// read reads the file if it has changed, or could not be used: that may have been a permission, or a lack of descriptors. If it
// fails, the tokens read before stay in use.
func (t *Tokens) read() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Stat(t.path)
	if err == nil {
		if t.failed == nil && info.ModTime().Equal(t.changed) && info.Size() == t.size {
			return nil
		}
		t.changed, t.size = info.ModTime(), info.Size()
		var byName map[string][]permission
		if byName, err = tokensIn(t.path, info); err == nil {
			t.byName.Store(&byName)
		}
	}
	if err != nil {
		err = fmt.Errorf("gateway: tokens: %w", err)
	}
	t.failed = err
	return err
}

// permission is what a token allows: to send as a client or as several, or to read.
type permission struct {
	proof  proof
	reads  bool
	prefix string // of the clients that a reader may read, or as which a writer may send
}

// writers is the name under which byName has the tokens with writes:PREFIX: no client has it.
const writers = ""

func tokensIn(path string, info fs.FileInfo) (map[string][]permission, error) {
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d bytes; the limit is %d", path, info.Size(), maxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	clear, byName := false, map[string][]permission{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		verb, prefix, limited := "", "", false
		if len(fields) == 3 {
			verb, prefix, limited = strings.Cut(fields[2], ":")
		}
		reads, writes := verb == "reads" && limited == (prefix != ""), verb == "writes" && prefix != ""
		if len(fields) != 2 && !reads && !writes {
			return nil, fmt.Errorf("%s:%d: the line is not CLIENT TOKEN, NAME TOKEN writes:PREFIX, nor READER TOKEN reads[:PREFIX]", path, n)
		}
		if err := checkClientID(fields[0]); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		hash, hashed, err := hashOf(fields[1])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		clear = clear || !hashed
		name := fields[0]
		if writes {
			name = writers
		}
		byName[name] = append(byName[name], permission{hash, reads, prefix})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if clear && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s holds plaintext tokens and other users can read it (mode %04o); run chmod 600", path, info.Mode().Perm())
	}
	return byName, nil
}

// hashOf returns the hash of a token in the file, which is plaintext or hashed already.
func hashOf(field string) (p proof, hashed bool, err error) {
	if text, ok := strings.CutPrefix(field, "sha256:"); ok {
		raw, err := hex.DecodeString(text)
		if err != nil || len(raw) != len(p) {
			return p, true, fmt.Errorf("sha256: must be followed by 64 hexadecimal digits")
		}
		return proof(raw), true, nil
	}
	if len(field) < minToken || len(field) > maxToken {
		return p, false, fmt.Errorf("a token must have %d to %d characters, not %d", minToken, maxToken, len(field))
	}
	return sha256.Sum256([]byte(field)), false, nil
}

// permits reports whether a hash is that of a token which lets a name read, or else send, and the prefix
// of the clients that it may read. It compares with all tokens of the name and of writers.
func (t *Tokens) permits(name string, shown proof, reads bool) (prefix string, ok bool) {
	all := *t.byName.Load()
	for _, p := range all[name] {
		if p.proof.equals(shown) && p.reads == reads {
			prefix, ok = p.prefix, true
		}
	}
	for _, p := range all[writers] {
		if p.proof.equals(shown) && !reads && strings.HasPrefix(name, p.prefix) {
			ok = true
		}
	}
	return prefix, ok
}

// proof is the hash of the token that a client sent.
type proof [32]byte

func (p proof) equals(other proof) bool { return subtle.ConstantTimeCompare(p[:], other[:]) == 1 }
