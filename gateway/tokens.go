package gateway

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Tokens are the clients that may connect and their secrets, from a file with a line
// "CLIENT TOKEN" or "CLIENT sha256:HEX" for each. Two lines for one client let it change
// its token without a pause. A line that begins with # says nothing.
//
// A change of the file counts for connections that come a second later or after Reload;
// see Server.Revoke for those that are open.
type Tokens struct {
	path string

	mu      sync.Mutex
	hashes  map[string][]proof
	checked time.Time // when the file was last looked at
	changed time.Time // the file's own time
	size    int64
	failed  error // why the file that is there now is not used
}

// Bounds of a token and its file.
const (
	leastToken   = 16
	mostFile     = 64 << 20
	tokensLookUp = time.Second
)

// ReadTokens reads a file of tokens. One that holds tokens in clear must not be readable
// by other users.
func ReadTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	if err := t.Reload(); err != nil {
		return nil, err
	}
	return t, nil
}

// Reload reads the file again. When it cannot be used, what was read before stays.
func (t *Tokens) Reload() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.read()
}

// Err says why the file as it is now is not used, and is nil when it is.
func (t *Tokens) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// read reads the file; mu is held.
func (t *Tokens) read() error {
	info, err := os.Stat(t.path)
	if err == nil {
		t.changed, t.size = info.ModTime(), info.Size()
		var hashes map[string][]proof
		if hashes, err = tokensIn(t.path, info); err == nil {
			t.hashes = hashes
		}
	}
	if err != nil {
		err = fmt.Errorf("gateway: tokens: %w", err)
	}
	t.failed = err
	return err
}

func tokensIn(path string, info fs.FileInfo) (map[string][]proof, error) {
	if info.Size() > mostFile {
		return nil, fmt.Errorf("%s has %d bytes; at most %d are read", path, info.Size(), mostFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	hashes, clear := map[string][]proof{}, false
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0][0] == '#' {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("%s:%d: not CLIENT TOKEN", path, n)
		}
		if err := checkClientID(fields[0]); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		hash, hashed, err := hashOf(fields[1])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		clear = clear || !hashed
		hashes[fields[0]] = append(hashes[fields[0]], hash)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if clear && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s holds tokens in clear and other users can read it (mode %04o); chmod 600 it", path, info.Mode().Perm())
	}
	return hashes, nil
}

// hashOf is the hash of a token as the file has it, in clear or hashed already.
func hashOf(field string) (p proof, hashed bool, err error) {
	if text, ok := strings.CutPrefix(field, "sha256:"); ok {
		raw, err := hex.DecodeString(text)
		if err != nil || len(raw) != len(p) {
			return p, true, fmt.Errorf("sha256: is followed by 64 hexadecimal digits")
		}
		return proof(raw), true, nil
	}
	if len(field) < leastToken || len(field) > mostToken {
		return p, false, fmt.Errorf("a token has %d to %d characters, not %d", leastToken, mostToken, len(field))
	}
	return sha256.Sum256([]byte(field)), false, nil
}

// check reports whether token is one of the client's, and its hash. It takes as long for
// a client that is unknown.
func (t *Tokens) check(client, token string) (proof, bool) {
	shown := proof(sha256.Sum256([]byte(token)))
	return shown, t.valid(client, shown)
}

// valid reports whether a hash is one of the client's tokens.
func (t *Tokens) valid(client string, shown proof) bool {
	t.mu.Lock()
	t.look()
	hashes := t.hashes[client]
	t.mu.Unlock()
	found := false
	for _, hash := range hashes {
		found = hash.equals(shown) || found
	}
	return found
}

// look reads the file again when it has changed, at most once a second; mu is held.
func (t *Tokens) look() {
	now := time.Now()
	if now.Sub(t.checked) < tokensLookUp {
		return
	}
	t.checked = now
	info, err := os.Stat(t.path)
	if err == nil && info.ModTime().Equal(t.changed) && info.Size() == t.size {
		return
	}
	t.read()
}
