package main

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// message is one chat message.
type message struct {
	Number uint64 `json:"number"` // in its room, from 1
	ID     string `json:"id"`     // chosen by the sender
	Name   string `json:"name"`
	Text   string `json:"text"`
	At     int64  `json:"at"` // Unix milliseconds
}

// store keeps messages in a file: a line with the history's id, then one line of JSON per
// message. A message is written before it is sent to anybody, so if the server is killed, no
// message that anybody saw is lost. A power failure may lose some, because the file is not
// synced. Only one server at a time may use the file.
type store struct {
	history string // numbers of different histories are unrelated

	mu   sync.Mutex
	file *os.File // nil: messages are in memory only
	size int64    // of the complete lines
}

// line is a message's line in the file.
type line struct {
	Room string `json:"room"`
	message
}

// openStore opens a file and calls tell for every message in it. An empty name keeps the
// history in memory.
func openStore(name string, tell func(room string, m message)) (*store, error) {
	s := &store{history: rand.Text()}
	if name == "" {
		return s, nil
	}
	var err error
	if s.file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("%w; choose another file with -history", err)
	}
	if err := s.read(tell); err != nil {
		s.file.Close()
		return nil, fmt.Errorf("%s: %w; move it away, or choose another file with -history", name, err)
	}
	return s, nil
}

// read reads the file. It drops an incomplete last line: the server was killed while writing
// it, so nobody has seen that message.
func (s *store) read(tell func(room string, m message)) error {
	r := bufio.NewReader(s.file)
	for number := 1; ; number++ {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		var first struct{ History string }
		var l line
		if number == 1 {
			err = json.Unmarshal(text, &first)
			s.history = first.History
		} else {
			err = json.Unmarshal(text, &l)
		}
		if err != nil || number == 1 && first.History == "" || number > 1 && (l.Room == "" || l.Number == 0) {
			return fmt.Errorf("line %d is not a chat message", number)
		}
		if number > 1 {
			tell(l.Room, l.message)
		}
		s.size += int64(len(text))
	}
	if err := s.file.Truncate(s.size); err != nil || s.size > 0 {
		return err
	}
	return s.append(map[string]string{"history": s.history})
}

// add stores a message.
func (s *store) add(room string, m message) error {
	if s.file == nil {
		return nil
	}
	return s.append(line{room, m})
}

// append appends a line after the last complete one.
func (s *store) append(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.file.WriteAt(append(text, '\n'), s.size)
	if err != nil {
		return errors.Join(err, s.file.Truncate(s.size))
	}
	s.size += int64(n)
	return nil
}

func (s *store) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
