package fleet

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

// seal encrypts messages over NATS with a key derived from the token, so that others can neither
// read a plan nor command an agent. Each message is bound to its subject, which is unique to the
// run.
type seal struct {
	aead  cipher.AEAD
	group string // identifies the agents of the token to its holders
}

const leastToken = 16 // bytes

var errSeal = errors.New("not sealed with the token")

func newSeal(token string) (*seal, error) {
	if len(token) < leastToken {
		return nil, fmt.Errorf("the token has %d bytes; use %d or more, as openssl rand -hex 16 makes", len(token), leastToken)
	}
	key, err := hkdf.Key(sha256.New, []byte(token), nil, "hone fleet 1 key", 32)
	if err != nil {
		return nil, err
	}
	group, err := hkdf.Key(sha256.New, []byte(token), nil, "hone fleet 1 group", 8)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &seal{aead, hex.EncodeToString(group)}, err
}

// close encrypts a text for a subject.
func (s *seal) close(subject string, text []byte) []byte {
	return s.aead.Seal(nil, nil, text, []byte(subject))
}

// open decrypts what came on a subject.
func (s *seal) open(subject string, sealed []byte) ([]byte, error) {
	text, err := s.aead.Open(nil, nil, sealed, []byte(subject))
	if err != nil {
		return nil, errSeal
	}
	return text, nil
}

// newID returns an unguessable name.
func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}
