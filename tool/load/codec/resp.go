package codec

import (
	"bytes"
	"fmt"
	"strconv"
)

// appendRESP appends a command of Redis: content that begins with an asterisk as it is, a command
// in the server's own form, and any other as an inline command, words on a line.
func appendRESP(dst, content []byte) []byte {
	dst = append(dst, content...)
	if !bytes.HasPrefix(content, []byte("*")) {
		dst = append(dst, "\r\n"...)
	}
	return dst
}

// cutRESP returns the first answer of in, RESP2 or RESP3, and how many bytes it took; 0 when it is
// incomplete. The content is the value of a bulk string, and else all of the answer without its last
// line end. It looks at each part of a nested answer again when more of it has come.
func cutRESP(in []byte, limit int) (content []byte, used int, err error) {
	at, from := 0, 0
	for parts := 1; parts > 0; {
		parts--
		end := bytes.Index(in[at:], []byte("\r\n"))
		switch {
		case end > limit || end < 0 && len(in) > limit:
			return nil, 0, tooLarge(limit)
		case end < 0:
			return nil, 0, nil
		case end == 0:
			return nil, 0, notRESP(in[at:])
		}
		kind, count := in[at], 0
		if bytes.IndexByte([]byte("$=!*~>%|"), kind) >= 0 {
			if count, err = strconv.Atoi(string(in[at+1 : at+end])); err != nil || count < -1 || count > limit {
				return nil, 0, notRESP(in[at:])
			}
		} else if bytes.IndexByte([]byte("+-:_#,("), kind) < 0 {
			return nil, 0, notRESP(in[at:])
		}
		from, at = at+end+2, at+end+2
		switch kind {
		case '$', '=', '!':
			if count >= 0 {
				at += count + 2
			}
		case '*', '~', '>':
			parts += max(0, count)
		case '%':
			parts += 2 * max(0, count)
		case '|':
			parts += 2*max(0, count) + 1 // attributes come before what they describe
		}
		if at-2 > limit || parts > limit {
			return nil, 0, tooLarge(limit)
		}
		if at > len(in) {
			return nil, 0, nil
		}
	}
	if in[0] == '$' && in[1] != '-' {
		return in[from : at-2], at, nil
	}
	return in[:at-2], at, nil
}

// failureOfRESP returns the failure that an answer is; nil: it is none.
func failureOfRESP(in []byte) error {
	if in[0] != '-' && in[0] != '!' {
		return nil
	}
	text := in[1:]
	if in[0] == '!' {
		_, text, _ = bytes.Cut(in, []byte("\r\n"))
	}
	line, _, _ := bytes.Cut(text, []byte("\r\n"))
	return fmt.Errorf("the server answers %q", line[:min(len(line), 200)])
}

func notRESP(in []byte) error {
	e := &Error{Kind: Garbage, What: fmt.Sprintf("the server's answer is not RESP: %q", in[:min(len(in), 20)]), Try: "check that it is a server of Redis's protocol"}
	if bytes.HasPrefix(in, []byte("HTTP/1.")) {
		return speaksHTTP(nil)
	}
	return e
}
