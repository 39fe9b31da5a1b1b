package main

import (
	"bytes"

	"github.com/hone-go/hone/engine"
)

// mostWords is the largest number of words in a command.
const mostWords = 1024

// parse finds the words of the command at the front of in. They are appended to words and point into
// in; size is the length of the whole command. A command is an array of bulk strings, or a line of
// text as people type it into nc.
//
// need > 0 means that the command is not complete and that at least need more bytes belong to it. It
// is never more: an engine that reads exactly need bytes would otherwise wait for bytes that the
// client does not owe.
func parse(in []byte, words [][]byte, most int) (_ [][]byte, size, need int, err error) {
	if len(in) == 0 {
		return words, 0, 1, nil
	}
	if in[0] != '*' {
		return parseLine(in, words, most)
	}
	count, at, need, err := parseLength(in, 1, mostWords)
	if need > 0 || err != nil {
		return words, 0, need, err
	}
	for left := count; left > 0; left-- {
		missing := left * len("$0\r\n\r\n") // the shortest that the other words can be
		if at == len(in) {
			return words, 0, missing, nil
		}
		if in[at] != '$' {
			return words, 0, 0, engine.Malformed
		}
		long, from, need, err := parseLength(in, at+1, most)
		if err != nil {
			return words, 0, 0, err
		}
		end := from + long + 2
		switch {
		case need > 0:
			return words, 0, need + missing - len("$0\r\n"), nil
		case end > most:
			return words, 0, 0, engine.TooLarge
		case end > len(in):
			return words, 0, end - len(in) + missing - len("$0\r\n\r\n"), nil
		case in[end-2] != '\r' || in[end-1] != '\n':
			return words, 0, 0, engine.Malformed
		}
		words, at = append(words, in[from:end-2]), end
	}
	return words, at, 0, nil
}

// parseLength reads the number at in[at:] and the \r\n after it. It returns where the line ends, or
// how many bytes are certainly missing.
func parseLength(in []byte, at, most int) (n, end, need int, err error) {
	digits := 0
	for ; at+digits < len(in) && in[at+digits] >= '0' && in[at+digits] <= '9'; digits++ {
		if n = n*10 + int(in[at+digits]-'0'); n > most {
			return 0, 0, 0, engine.TooLarge
		}
	}
	end = at + digits
	switch rest := in[end:]; {
	case len(rest) == 0 && digits == 0:
		return 0, 0, len("0\r\n"), nil
	case len(rest) == 0:
		return 0, 0, len("\r\n"), nil
	case digits == 0 || rest[0] != '\r' || len(rest) > 1 && rest[1] != '\n':
		return 0, 0, 0, engine.Malformed
	case len(rest) == 1:
		return 0, 0, 1, nil
	}
	return n, end + 2, 0, nil
}

// parseLine reads a command that is a line of text with blanks between its words.
func parseLine(in []byte, words [][]byte, most int) (_ [][]byte, size, need int, err error) {
	end, most := bytes.IndexByte(in, '\n'), min(most, mostLine)
	switch {
	case end < 0 && len(in) >= most, end >= most:
		return words, 0, 0, engine.TooLarge
	case end < 0:
		return words, 0, 1, nil
	}
	for line := in[:end]; ; {
		line = bytes.TrimLeft(line, " \t\r")
		if len(line) == 0 {
			return words, end + 1, 0, nil
		}
		long := bytes.IndexAny(line, " \t\r")
		if long < 0 {
			long = len(line)
		}
		if len(words) == mostWords {
			return words, 0, 0, engine.TooLarge
		}
		words, line = append(words, line[:long]), line[long:]
	}
}

// mostLine is the longest command as a line of text. A line that arrives byte by byte is scanned again
// for each byte, so it has to be short; of an array, need says how much is missing.
const mostLine = 1024
