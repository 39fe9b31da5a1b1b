package fleet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

// stream carries messages over a pair of pipes, each message after its length.
type stream struct {
	in  io.ReadCloser
	out io.WriteCloser
}

// Send writes one message.
func (s *stream) Send(text []byte) error {
	_, err := s.out.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// Receive reads one message. Memory grows with the bytes received, not with the length claimed.
func (s *stream) Receive() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return nil, err
	}
	length := int64(binary.BigEndian.Uint32(head[:]))
	if length > mostMessage {
		return nil, errTooLong
	}
	var text bytes.Buffer
	if _, err := io.CopyN(&text, s.in, length); err != nil {
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	return text.Bytes(), nil
}

// Close closes both.
func (s *stream) Close() error { return errors.Join(s.in.Close(), s.out.Close()) }
