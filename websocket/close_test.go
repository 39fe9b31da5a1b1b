package websocket

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestCodesOnWire checks every number that a Close frame can hold.
func TestCodesOnWire(t *testing.T) {
	for n := range 1 << 16 {
		want := n >= 1000 && n <= 1003 || n >= 1007 && n <= 1014 || n >= 3000 && n <= 4999
		code := Code(n)
		if code.onWire() != want {
			t.Errorf("%v on the wire: %v", code, !want)
		}
		got, reason, f := parseClose([]byte{byte(n >> 8), byte(n), 'x'})
		if want && (f != 0 || got != code || string(reason) != "x") || !want && f != faultCloseCode {
			t.Errorf("%v: read %v, %q, %v", code, got, reason, f)
		}
		if sent := appendClosePayload(nil, code, "x"); want != (len(sent) == 3) || !want && len(sent) != 0 {
			t.Errorf("%v: sent as %x", code, sent)
		}
	}
}

func TestParseClose(t *testing.T) {
	for _, test := range []struct {
		payload string
		code    Code
		reason  string
		fault   fault
	}{
		{"", NoStatus, "", 0},
		{"\x03", 0, "", faultCloseLength},
		{"\x03\xe8", NormalClosure, "", 0},
		{"\x03\xe9bye é", GoingAway, "bye é", 0},
		{"\x03\xe8\xff", 0, "", faultCloseText},
		{"\x03\xe8\xc3", 0, "", faultCloseText},
		{"\x03\xed", 0, "", faultCloseCode},
	} {
		code, reason, f := parseClose([]byte(test.payload))
		if code != test.code || string(reason) != test.reason || f != test.fault {
			t.Errorf("%q: %v, %q, %v", test.payload, code, reason, f)
		}
	}
}

func TestAppendClose(t *testing.T) {
	long := strings.Repeat("é", 100)
	for _, test := range []struct {
		code         Code
		reason, want string
	}{
		{NormalClosure, "bye", "\x88\x05\x03\xe8bye"},
		{NoStatus, "not sent", "\x88\x00"},
		{0, "not sent", "\x88\x00"},
		{GoingAway, "", "\x88\x02\x03\xe9"},
		{GoingAway, "a\xffb", "\x88\x03\x03\xe9a"},
		{4000, long, "\x88\x7c\x0f\xa0" + long[:122]},
		{4000, strings.Repeat("x", 123) + "y", "\x88\x7d\x0f\xa0" + strings.Repeat("x", 123)},
	} {
		got := string(appendClose([]byte("before"), test.code, test.reason))
		if got != "before"+test.want {
			t.Errorf("%v %q: %q, want %q", test.code, test.reason, got, test.want)
		}
		if payload := got[len("before")+2:]; len(payload) > mostControl || len(payload) > 2 && !utf8.ValidString(payload[2:]) {
			t.Errorf("%v %q: %d bytes of payload", test.code, test.reason, len(payload))
		}
	}
}

func TestCodeAsError(t *testing.T) {
	var err error = faultText
	var code Code
	if !errors.As(err, &code) || code != InvalidPayload {
		t.Errorf("%v is %v", err, code)
	}
	if got := Code(1002).Error(); got != "websocket: closed with code 1002 (protocol error)" {
		t.Error(got)
	}
	for f := range faults {
		if (f == 0) != (f.String() == "") {
			t.Errorf("fault %d has the text %q", f, f.String())
		}
		if c := f.code(); !c.onWire() {
			t.Errorf("fault %v has the code %v", f, c)
		}
	}
	for c := NormalClosure; c <= TLSHandshake; c++ {
		if named := strings.Contains(c.String(), "("); named == (c == 1004) {
			t.Errorf("%d is called %v", uint16(c), c)
		}
	}
}
