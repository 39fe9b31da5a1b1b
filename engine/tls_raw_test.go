package engine_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// rawTLS is a client that controls every record of TLS 1.3: crypto/tls makes its handshake, and
// from then on it seals and opens records by itself (TLS_AES_128_GCM_SHA256).
type rawTLS struct {
	nc      net.Conn
	in, out traffic
	buf     []byte // received, not yet opened
	read    [4096]byte
	updates int  // key updates of the server
	over    bool // the server has sent a close_notify
}

// The content types of records.
const (
	alertRecord     = 21
	handshakeRecord = 22
	dataRecord      = 23
)

// traffic is one direction's keys.
type traffic struct {
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

func expandLabel(secret []byte, label string, n int) []byte {
	label = "tls13 " + label
	info := append(binary.BigEndian.AppendUint16(nil, uint16(n)), byte(len(label)))
	out, err := hkdf.Expand(sha256.New, secret, string(append(append(info, label...), 0)), n)
	if err != nil {
		panic(err)
	}
	return out
}

func newTraffic(secret []byte) traffic {
	block, err := aes.NewCipher(expandLabel(secret, "key", 16))
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return traffic{secret: secret, aead: aead, iv: expandLabel(secret, "iv", 12)}
}

func (k *traffic) nonce() []byte {
	nonce := bytes.Clone(k.iv)
	for i := range 8 {
		nonce[4+i] ^= byte(k.seq >> (56 - 8*i))
	}
	k.seq++
	return nonce
}

func (k *traffic) update() { *k = newTraffic(expandLabel(k.secret, "traffic upd", 32)) }

// oneRecord gives crypto/tls one record at a time, so that it reads none that follow the handshake.
type oneRecord struct {
	net.Conn
	left int
}

func (o *oneRecord) Read(p []byte) (int, error) {
	if o.left == 0 {
		var head [5]byte
		if _, err := io.ReadFull(o.Conn, head[:]); err != nil {
			return 0, err
		}
		o.left = -5
		o.Conn = &prefixed{o.Conn, head[:]}
		o.left = 5 + int(binary.BigEndian.Uint16(head[3:]))
	}
	n, err := o.Conn.Read(p[:min(len(p), o.left)])
	o.left -= n
	return n, err
}

type prefixed struct {
	net.Conn
	first []byte
}

func (c *prefixed) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// newRawTLS makes the handshake on nc.
func newRawTLS(nc net.Conn) (*rawTLS, error) {
	var keys bytes.Buffer
	config := quick()
	config.MinVersion, config.KeyLogWriter = tls.VersionTLS13, &keys
	c := tls.Client(&oneRecord{Conn: nc}, config)
	if err := c.Handshake(); err != nil {
		return nil, err
	}
	if suite := c.ConnectionState().CipherSuite; suite != tls.TLS_AES_128_GCM_SHA256 {
		return nil, fmt.Errorf("cipher suite %x", suite)
	}
	secret := func(label string) []byte {
		for line := range strings.Lines(keys.String()) {
			if f := strings.Fields(line); f[0] == label {
				s, _ := hex.DecodeString(f[2])
				return s
			}
		}
		return nil
	}
	return &rawTLS{nc: nc, in: newTraffic(secret("SERVER_TRAFFIC_SECRET_0")), out: newTraffic(secret("CLIENT_TRAFFIC_SECRET_0"))}, nil
}

// seal returns a record.
func (r *rawTLS) seal(kind byte, p []byte) []byte {
	head := binary.BigEndian.AppendUint16([]byte{dataRecord, 3, 3}, uint16(len(p)+1+r.out.aead.Overhead()))
	return r.out.aead.Seal(head, r.out.nonce(), append(bytes.Clone(p), kind), head)
}

// keyUpdate returns the records of a key update, in pieces of that size.
func (r *rawTLS) keyUpdate(asks bool, piece int) (out []byte) {
	message := []byte{24, 0, 0, 1, 0}
	if asks {
		message[4] = 1
	}
	for len(message) > 0 {
		n := min(piece, len(message))
		out = append(out, r.seal(handshakeRecord, message[:n])...)
		message = message[n:]
	}
	r.out.update()
	return out
}

// open returns the data of the next record, maybe none. After a close_notify it returns io.EOF at the
// FIN, and io.ErrUnexpectedEOF without one.
func (r *rawTLS) open() ([]byte, error) {
	for len(r.buf) < 5 || len(r.buf) < 5+int(binary.BigEndian.Uint16(r.buf[3:])) {
		p := r.read[:]
		r.nc.SetReadDeadline(time.Now().Add(patience))
		n, err := r.nc.Read(p)
		r.buf = append(r.buf, p[:n]...)
		if err == io.EOF && !r.over {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
	head, n := r.buf[:5], 5+int(binary.BigEndian.Uint16(r.buf[3:]))
	p, err := r.in.aead.Open(nil, r.in.nonce(), r.buf[5:n], head)
	if err != nil || len(p) == 0 || r.over {
		return nil, fmt.Errorf("a record of %d bytes, after a close_notify: %v: %v", n, r.over, err)
	}
	r.buf = r.buf[n:]
	kind, p := p[len(p)-1], p[:len(p)-1]
	switch {
	case kind == alertRecord && p[1] == 0:
		r.over = true
	case kind == alertRecord:
		return nil, fmt.Errorf("alert %d", p[1])
	case kind == handshakeRecord && p[0] == 24:
		r.updates++
		r.in.update()
	case kind == dataRecord:
		return p, nil
	case kind != handshakeRecord:
		return nil, errors.New("an unknown record")
	}
	return nil, nil
}
