package demo

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Submit is a request in the form that the article's program uses.
type Submit struct {
	ID      string
	Content []byte
}

// NewSubmit allocates a Submit.
func NewSubmit() *Submit { return new(Submit) }

// longestFrame bounds a frame; the article's server would allocate a gigabyte for the
// four bytes 40 00 00 00.
const longestFrame = 64 << 10

// ReadFrame reads a frame's payload. It makes two reads, with an allocation each.
func ReadFrame(in io.Reader) ([]byte, error) {
	var total uint32
	if err := binary.Read(in, binary.BigEndian, &total); err != nil {
		return nil, err
	}
	if total < 5 || total > longestFrame {
		return nil, errors.New("a frame of an impossible length")
	}
	payload := make([]byte, total-4)
	_, err := io.ReadFull(in, payload)
	return payload, err
}

// WriteFrame writes a payload as a frame, with two writes.
func WriteFrame(out io.Writer, payload []byte) error {
	if err := binary.Write(out, binary.BigEndian, uint32(len(payload)+4)); err != nil {
		return err
	}
	_, err := out.Write(payload)
	return err
}

// WholeFrame reports whether the next request has arrived completely.
func WholeFrame(in *bufio.Reader) bool {
	head, _ := in.Peek(min(4, in.Buffered())) // which cannot fail: they are buffered
	return len(head) == 4 && uint32(in.Buffered()) >= binary.BigEndian.Uint32(head)
}

// Decode fills in the Submit that fresh returns. It is what the article's allocs profile points to.
func Decode(payload []byte, fresh func() *Submit) (*Submit, error) {
	if payload[0] != 0x02 || len(payload) < 9 {
		return nil, fmt.Errorf("unknown command %#x", payload[0])
	}
	request := fresh()
	request.ID, request.Content = string(payload[1:9]), payload[9:]
	return request, nil
}

// Ack returns the payload that acknowledges a Submit.
func Ack(id string) []byte {
	body := bytes.Join([][]byte{[]byte(id), {0}}, nil) // a result of 0
	return bytes.Join([][]byte{{0x82}, body}, nil)
}
