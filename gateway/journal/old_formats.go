package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// openOld opens the log that an earlier version wrote into the folder dir. accepted may be lost at its end.
func openOld(ctx context.Context, dir string, logger *slog.Logger, accepted Range) (*oldLog, error) {
	isPlain := exists(dir, plainName)
	if isPlain && (exists(dir, readyName) || exists(dir, storeName)) {
		return nil, &Refusal{
			What:   fmt.Sprintf("%s has two logs, %s and %s", dir, plainName, storeName),
			Repair: fmt.Sprintf("move %s, or %s with %s and %s, into a folder of its own", plainName, storeName, readyName, markName),
		}
	}
	if !isPlain {
		l := &oldLog{format: blocks}
		return l, about(dir, l.openBlocks(ctx, dir, logger, accepted))
	}
	path := filepath.Join(dir, plainName)
	info, err := os.Stat(path)
	if err != nil {
		return nil, about(dir, err)
	}
	l := &oldLog{format: plain, parts: []oldPart{{path: path, to: info.Size()}}}
	return l, about(dir, l.settle(ctx, 0, logger))
}

// plain is the format of --log file:, a file of envelopes, one after the other. It has no mark.
var plain = oldFormat{magic: magic, head: func(_ *window, _ int64, want uint64) (oldHead, error) {
	return oldHead{pos: want}, nil
}}

// openBlocks opens a JetStream store.
func (l *oldLog) openBlocks(ctx context.Context, dir string, logger *slog.Logger, accepted Range) error {
	m, err := openMark(filepath.Join(dir, markName), true)
	if err != nil {
		return err
	}
	defer m.f.Close()
	entries, err := os.ReadDir(filepath.Join(dir, blockFolder))
	if err != nil {
		return err
	}
	for _, e := range entries {
		digits, is := strings.CutSuffix(e.Name(), ".blk")
		number, err := strconv.ParseUint(digits, 10, 64)
		if !is || err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		l.parts = append(l.parts, oldPart{path: filepath.Join(dir, blockFolder, e.Name()), number: number, to: info.Size()})
	}
	slices.SortFunc(l.parts, func(a, b oldPart) int { return cmp.Compare(a.number, b.number) })
	if err = l.settle(ctx, m.written, logger); err == nil {
		err = l.checkMark(dir, m.written, accepted)
	}
	return err
}

// blocks is the format of a JetStream store: records of nats-server, little-endian. Each has its length (4
// bytes, the top bit is set if there are headers), sequence (8), time (8) and length of the subject (2); the
// subject; the length of the headers (4), the headers and the message; and a checksum (8). An envelope's own
// checksum is the one that counts. What honed needs of the rest is there twice: the sequence is also in the
// headers, and the length in the envelope.
var blocks = oldFormat{magic: oldSubject, magicAt: blockHead, numbered: true, head: oldBlockHead}

const (
	blockHead   = 22
	blockSum    = 8
	blockLook   = 512     // of a record, at least up to its message
	withHeaders = 1 << 31 // in the length
	headersEnd  = "\r\n\r\n"
	oldSubject  = "honed.log.LOG"
)

// blockRecord is the beginning of a record.
type blockRecord struct {
	size     int64
	sequence uint64
	expected uint64 // from the headers; 0: unreadable
	message  int64  // its offset in the record; 0: there is none
}

func readBlockHead(w *window, at int64) (h blockRecord, err error) {
	b, err := w.bytes(at, blockLook)
	if err != nil || len(b) < blockHead+blockSum {
		return h, err
	}
	subject := int(binary.LittleEndian.Uint16(b[20:]))
	h.size, h.sequence = int64(binary.LittleEndian.Uint32(b)&^withHeaders), binary.LittleEndian.Uint64(b[4:])
	if h.size == blockHead+blockSum && subject == 0 {
		return h, nil // says that a message was deleted
	}
	message := blockHead + subject + 4
	if message <= len(b) {
		message += int(min(binary.LittleEndian.Uint32(b[message-4:]), blockLook))
	}
	if message+len(magic) > len(b) || string(b[message:message+len(magic)]) != magic && !bytes.HasSuffix(b[:message], []byte(headersEnd)) {
		// One of the two lengths is damaged. Nothing that a client has sent comes before the headers' end.
		if message = bytes.Index(b[blockHead:], []byte(headersEnd)); message < 0 {
			return h, nil
		}
		message += blockHead + len(headersEnd)
	}
	h.message = int64(message)
	headers := bytes.TrimSuffix(b[:message], []byte(headersEnd))
	digits := string(headers[bytes.LastIndexByte(headers, ' ')+1:])
	if before, err := strconv.ParseUint(digits, 10, 64); err == nil {
		h.expected = before + 1
	}
	return h, nil
}

// position returns the record's position if it says that twice, or want if it says that once; else 0.
func (h blockRecord) position(want uint64) uint64 {
	switch {
	case h.expected > 0 && h.expected == h.sequence:
		return h.sequence
	case h.expected == want || h.sequence == want:
		return want
	}
	return 0
}

func oldBlockHead(w *window, at int64, want uint64) (oldHead, error) {
	b, err := readBlockHead(w, at)
	h := oldHead{pos: b.position(want), before: -1, after: blockSum}
	if h.pos < want {
		h.pos = 0
	}
	if b.size >= blockHead+blockSum {
		h.end = at + b.size
	}
	if b.message > 0 {
		h.before = b.message
	}
	return h, err
}
