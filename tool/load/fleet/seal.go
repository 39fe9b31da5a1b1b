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

// seal encrypts what goes over NATS with a key made of the token, so that who does not
// have it can neither read a plan nor make an agent do anything. Each text is bound to its
// subject, which no two runs have in common.
type seal struct {
	aead  cipher.AEAD
	group string // names the agents of the token to those who have it
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

// newID is a name that nobody can guess.
func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}
