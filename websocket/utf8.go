package websocket

import "unicode/utf8"

// textState says what a text message that is not complete must go on with. It is less
// than 8, so that it fits into three bits of a connection's state.
type textState uint8

const (
	textWhole    textState = iota // nothing: the last character is complete
	textOne                       // one continuation byte, 80 to BF
	textTwo                       // two of them
	textThree                     // three of them
	textAfterE0                   // A0 to BF, else the form is overlong, and one more
	textAfterED                   // 80 to 9F, else it is half of a surrogate pair, and one more
	textAfterF0                   // 90 to BF, else the form is overlong, and two more
	textAfterF4                   // 80 to 8F, else it is beyond U+10FFFF, and two more
	textStateEnd                  // how many there are
)

// validate goes on with p where the bytes before it have led. ok is false as soon as no
// continuation can make the text valid UTF-8.
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
	s = begun(p[0]) // begins a character: unfinished has seen to that
	for _, b := range p[1:] {
		if s, ok = s.continued(b); !ok {
			return s, false
		}
	}
	return s, true
}

// unfinished is how many bytes at the end of p are a character that is not complete:
// a leading byte and fewer continuation bytes than it announces.
func unfinished(p []byte) int {
	for n := 1; n <= min(3, len(p)); n++ {
		switch b := p[len(p)-n]; {
		case b < 0x80:
			return 0
		case b >= 0xF0 && b <= 0xF4, b >= 0xE0 && b < 0xF0 && n < 3, b >= 0xC2 && b < 0xE0 && n < 2:
			return n
		case b >= 0xC0:
			return 0 // complete, or no leading byte at all
		}
	}
	return 0
}

// begun is what a leading byte of two to four announces.
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

// continued is where one more byte of a character leads.
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
