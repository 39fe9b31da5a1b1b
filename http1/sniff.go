package http1

import (
	"encoding/binary"
	"net/http"
)

const plainText = "text/plain; charset=utf-8"

// sniff is a faster http.DetectContentType. That function tries its signatures one by one and
// plain text last, which costs more than a tenth of the CPU time of a small response.
func sniff(data []byte) string {
	if isPlain(data[:min(len(data), 512)]) {
		return plainText
	}
	return http.DetectContentType(data)
}

// isPlain reports whether data is certainly plain text: no signature matches and no byte is
// binary. Only the first 512 bytes count. It may return false for text.
func isPlain(data []byte) bool {
	if len(data) < 2 {
		return false
	}
	switch data[0] {
	case ' ', '\t', '\n', '\f', '\r', '<', 0xef, 0xfe, 0xff, 0x89:
		return false // white space may precede markup; byte order marks and images
	}
	switch string(data[:2]) { // the first bytes of all other signatures of text bytes
	case "%P", "%!", "BM", "GI", "RI", "FO", "ID", "Og", "MT", "OT", "tt", "wO", "PK", "Ra":
		return false
	}
	if len(data) >= 36 && data[34] == 'L' && data[35] == 'P' || len(data) >= 8 && string(data[4:8]) == "ftyp" {
		return false // the only signatures that do not start at byte 0: a font and MP4
	}
	return !hasBinary(data)
}

// hasBinary reports whether data has a byte that plain text cannot have.
func hasBinary(data []byte) bool {
	const tops, space = 0x8080808080808080, 0x2020202020202020
	for ; len(data) >= 8; data = data[8:] {
		x := binary.LittleEndian.Uint64(data)
		if (x-space)&^x&tops != 0 && anyBinary(data[:8]) { // a byte below the space
			return true
		}
	}
	return anyBinary(data)
}

func anyBinary(data []byte) bool {
	for _, b := range data {
		switch {
		case b >= ' ', b == '\t', b == '\n', b == '\f', b == '\r', b == 0x1b:
		default:
			return true
		}
	}
	return false
}
