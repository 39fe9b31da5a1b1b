package websocket

import "unicode/utf8"

// textState is the continuation that an incomplete text message requires. It is less than 8,
// to fit into three bits of a connection's state.
type textState uint8

const (
	textWhole    textState = iota // none: the last character is complete
	textOne                       // one continuation byte, 80 to BF
	textTwo                       // two of them
	textThree                     // three of them
	textAfterE0                   // A0 to BF, or the encoding is overlong; then one more
	textAfterED                   // 80 to 9F, or it is half of a surrogate pair; then one more
	textAfterF0                   // 90 to BF, or the encoding is overlong; then two more
	textAfterF4                   // 80 to 8F, or it is beyond U+10FFFF; then two more
	textStateEnd                  // the number of states
)

// validate continues with p from the state that the bytes before it led to. ok is false as
// soon as no continuation can make the text valid UTF-8.
func (s textState) validate(p []byte) (next textState, ok bool) {
	for s != textWhole {
		if len(p) == 0 {
			return s, true
		}
		if s, ok = s.continued(p[0]); !ok {
			return s, false
		}
		p = p[1:]
	}
	whole := p[:len(p)-unfinished(p)]
	if !utf8.Valid(whole) {
		return s, false
	}
	if p = p[len(whole):]; len(p) == 0 {
		return textWhole, true
	}
	s = begun(p[0]) // p[0] begins a character: unfinished guarantees that
	for _, b := range p[1:] {
		if s, ok = s.continued(b); !ok {
			return s, false
		}
	}
	return s, true
}

// unfinished is how many bytes at the end of p are an incomplete character: a leading byte
// with fewer continuation bytes than it announces.
func unfinished(p []byte) int {
	for n := 1; n <= min(3, len(p)); n++ {
		switch b := p[len(p)-n]; {
		case b < 0x80:
			return 0
		case b >= 0xF0 && b <= 0xF4, b >= 0xE0 && b < 0xF0 && n < 3, b >= 0xC2 && b < 0xE0 && n < 2:
			return n
		case b >= 0xC0:
			return 0 // complete, or no leading byte
		}
	}
	return 0
}

// begun is the state after a leading byte of two to four.
func begun(b byte) textState {
	switch {
	case b < 0xE0:
		return textOne
	case b == 0xE0:
		return textAfterE0
	case b == 0xED:
		return textAfterED
	case b < 0xF0:
		return textTwo
	case b == 0xF0:
		return textAfterF0
	case b == 0xF4:
		return textAfterF4
	}
	return textThree
}

// continued is the state after one more byte of a character.
func (s textState) continued(b byte) (next textState, ok bool) {
	low, high := byte(0x80), byte(0xBF)
	switch s {
	case textOne:
		next = textWhole
	case textTwo:
		next = textOne
	case textThree:
		next = textTwo
	case textAfterE0:
		next, low = textOne, 0xA0
	case textAfterED:
		next, high = textOne, 0x9F
	case textAfterF0:
		next, low = textTwo, 0x90
	case textAfterF4:
		next, high = textTwo, 0x8F
	}
	return next, low <= b && b <= high
}
