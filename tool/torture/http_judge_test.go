package torture

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hone-go/hone/websocket"
)

// said is an answer of HTTP with a status; body is its content, and more a line of its head.
func said(status int, body, more string) string {
	return fmt.Sprintf("HTTP/1.1 %d Any\r\nContent-Length: %d\r\n%s\r\n%s", status, len(body), more, body)
}

func TestJudge(t *testing.T) {
	const mark, closing = "/hone-1", "Connection: close\r\n"
	ok, last, no := said(200, "x", ""), said(200, "x", closing), said(400, "", closing)
	find := func(name string) *httpInput {
		all := httpInputs()
		i := slices.IndexFunc(all, func(in httpInput) bool { return in.name == name })
		if i < 0 {
			t.Fatalf("there is no input %q", name)
		}
		return &all[i]
	}
	for _, c := range []struct {
		input, bytes string
		open         bool // the server does not close
		want         ruling
		words        string
	}{
		{"a space before the colon", no, false, right, "answers with 400 and closes"},
		{"a space before the colon", "", false, right, "closes without an answer"},
		{"a space before the colon", no, true, lenient, "answers with 400 and leaves the connection open"},
		{"a space before the colon", said(500, "", ""), false, lenient, "answers with 500 and closes"},
		{"a space before the colon", said(501, "", ""), false, right, "answers with 501 and closes"},
		{"a space before the colon", said(505, "", ""), false, right, "answers with 505 and closes"},
		{"a space before the colon", ok + last, false, lenient, "gives 2 answers, accepting it"},
		{"a space before the colon", last, false, lenient, "answers with 200, accepting it, and closes"},
		{"a space before the colon", ok + ok + last, false, wrong, "gives 3 answers where at most 2 are right"},
		{"a space before the colon", "", true, wrong, "neither answers nor closes in 1.00 s"},
		{"a space before the colon", ok, true, wrong, "answers with 200, and the next request not in 1.00 s"},
		{"a space before the colon", "hello", false, lenient, "answers without a status line and closes"},
		{"a space before the colon", "hello", true, wrong, "sends 0 answers and bytes that are not an answer of HTTP/1.1"},
		{"a space before the colon", ok + "hello", false, wrong, "sends 1 answers and bytes that are not an answer of HTTP/1.1"},
		{"a space before the colon", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx", false, wrong, "sends 0 answers and an answer that ends early"},
		{"no version, as in HTTP/0.9", "<html>", false, right, "answers in another protocol"},
		{"lines that end in CR alone", "", true, right, "waits"},
		{"an absolute target", ok + last, false, right, "gives 2 answers"},
		{"an absolute target", no, false, wrong, "answers with 400, which refuses a valid request"},
		{"an absolute target", said(421, "", closing), false, right, "answers with 421 and closes"},
		{"an absolute target", last, false, right, "answers with 200 and closes"},
		{"an absolute target", ok, false, wrong, "answers with 200 and closes without having said so, with a request unanswered"},
		{"an absolute target", "", false, wrong, "closes without an answer"},
		{"the lengths 0 and n", ok + said(404, mark, "") + last, false, wrong, "gives 3 answers where at most 2 are right, one of them to the hidden request, whose path it names"},
		{"the lengths 0 and n", said(200, mark, "") + last, false, wrong, "gives 2 answers where it must refuse: a proxy may find another end of the message"}, // an echo of the body
		{"the lengths 0 and n", last, false, lenient, "answers with 200, accepting it, and closes"},
		{"a size that ends in LF alone", ok + last, false, wrong, "gives 2 answers where it must close after the first"},
		{"a size and a space", ok + last, false, lenient, "gives 2 answers, accepting it"},
		{"the lengths 0 and n", ok + no, false, wrong, "gives 2 answers, the last with 400 to bytes that are not a request"},
		{"a length, then chunked", last, false, right, "answers with 200 and closes"},
		{"a length, then chunked", ok, true, lenient, "answers with 200 and leaves the connection open"},
		{"a length, then chunked", ok + ok + last, false, wrong, "gives 3 answers where it must close after the first"},
		{"a length, then chunked", ok + last, false, wrong, "gives 2 answers: it believed a length that the coding overrides"},
		{"a length, then chunked", ok + ok + ok + last, false, wrong, "gives 4 answers where at most 3 are right"},
		{"a size with a plus", ok + no, false, right, "gives 2 answers, the last a refusal with 400"},
		{"a GET with a body", ok + last, false, right, "gives 2 answers"},
		{"a GET with a body", ok + ok + last, false, wrong, "gives 3 answers where at most 2 are right"},
		{"a request behind Connection: close", last, false, right, "answers with 200 and closes"},
		{"a request behind Connection: close", last + last, false, wrong, "gives 2 answers where at most 1 are right"},
		{"Expect: 100-continue and the body at once", "HTTP/1.1 100 Continue\r\n\r\n" + ok + last, false, right, "gives 2 answers"},
	} {
		t.Run(c.input, func(t *testing.T) {
			got := heard{bytes: []byte(c.bytes), closed: !c.open, took: 1e9}
			r, words := find(c.input).judge(got, mark, 200)
			if r != c.want || words != c.words {
				t.Errorf("%q is %v: %s; want %v: %s", c.bytes, r, words, c.want, c.words)
			}
		})
	}
}

// A server whose good answer is a refusal is judged by it.
func TestJudgeWhereGoodIsNotFound(t *testing.T) {
	missing := said(404, "", "")
	in := httpInput{text: "{next}", rights: mustServe}
	if r, words := in.judge(heard{bytes: []byte(missing + missing), closed: true}, "/x", 404); r != right {
		t.Errorf("%v: %s", r, words)
	}
}

// Every input has its parts, a name of its own, a right that can be met, and a length that is
// that of its body.
func TestInputsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, in := range httpInputs() {
		if seen[in.name] {
			t.Errorf("two inputs are called %q", in.name)
		}
		seen[in.name] = true
		text := string(bytes.Join(in.render("example.org", "/page", "/hone-1"), nil))
		for _, left := range []string{"{host}", "{path}", "{n}", "{hex}", "{body}", "{end}", "{cut}", "{hidden}", "{next}", "{big}", "{many}"} {
			if strings.Contains(text, left) {
				t.Errorf("%s: %s is left", in.name, left)
			}
		}
		if !in.refuse && in.serve == 0 && !in.waits || in.section == "" {
			t.Errorf("%s: no right, or no section", in.name)
		}
		if in.serve == 1 && in.lenient == 1 {
			t.Errorf("%s: what is right cannot be lenient", in.name)
		}
	}
	const want = "POST /page HTTP/1.1\r\nHost: h\r\nContent-Length: 33\r\n\r\nGET /hone-1 HTTP/1.1\r\nHost: h\r\n\r\n"
	in := httpInput{text: lengthText("Content-Length: {n}")}
	text := string(in.render("h", "/page", "/hone-1")[0])
	if !strings.HasPrefix(text, want) {
		t.Errorf("%q does not begin with %q", text, want)
	}
}

func TestJudgeSocket(t *testing.T) {
	const mark = "hone-1"
	frame := func(op byte, payload string) string {
		return string(append([]byte{finBit | op, byte(len(payload))}, payload...))
	}
	pong, bye := frame(pongOp, mark), frame(closeOp, "\x03\xea")
	find := func(name string) *socketInput {
		all := socketInputs()
		i := slices.IndexFunc(all, func(in socketInput) bool { return in.name == name })
		if i < 0 {
			t.Fatalf("there is no input %q", name)
		}
		return &all[i]
	}
	for _, c := range []struct {
		input, bytes string
		open         bool
		want         ruling
		words        string
	}{
		{"an unmasked text", bye, false, right, "closes with the code 1002"},
		{"an unmasked text", "", false, right, "closes"},
		{"an unmasked text", pong, true, wrong, "goes on, and answers the ping behind it"},
		{"an unmasked text", pong + bye, true, wrong, "goes on, and answers the ping behind it"},
		{"an unmasked text", frame(textOp, "hello"), true, wrong, "neither goes on nor closes in 1.00 s"},
		{"an unmasked text", frame(closeOp, "\x03\xed"), false, lenient, "closes with a broken frame"},
		{"an unmasked text", "HTTP/1.1 400 Bad Request\r\n\r\n", false, wrong, "sends a broken frame"},
		{"a ping of 126 bytes", frame(pongOp, "a") + bye, true, right, "closes with the code 1002"},
		{"the opcode 3", pong, true, lenient, "goes on"},
		{"a length of 2^63", "", true, right, "waits"},
		{"a length of 2^63", pong, true, wrong, "goes on, and answers the ping behind it"},
		{"a ping of 125 bytes", frame(pongOp, "a") + pong, true, right, "goes on"},
		{"a ping of 125 bytes", bye, true, wrong, "closes with the code 1002 a connection that keeps to the protocol"},
		{"empty fragments", frame(closeOp, "\x03\xeb"), false, right, "closes with the code 1003"},
		{"a ping of 125 bytes", frame(closeOp, "\x03\xeb"), true, wrong, "closes with the code 1003 a connection that keeps to the protocol"},
		{"empty fragments", "", true, wrong, "neither goes on nor closes in 1.00 s"},
	} {
		t.Run(c.input, func(t *testing.T) {
			r, words := find(c.input).judge(heard{bytes: []byte(c.bytes), closed: !c.open, took: 1e9}, mark)
			if r != c.want || !strings.HasPrefix(words, c.words) {
				t.Errorf("%q is %v: %s; want %v: %s", c.bytes, r, words, c.want, c.words)
			}
		})
	}
}

// Masked frames are those that package websocket's own client would send.
func TestMaskedFrames(t *testing.T) {
	for _, n := range []int{0, 1, 125, 126, 65535, 65536} {
		payload := bytes.Repeat([]byte("a"), n)
		ours, theirs := maskedFrame(finBit|binaryOp, string(payload)), websocket.AppendFrame(nil, websocket.Binary, payload)
		if head := len(theirs) - n - 4; len(ours) != len(theirs) || ours[:head] != string(theirs[:head]) {
			t.Errorf("%d bytes: % x, want % x", n, ours[:head], theirs[:head])
		}
		if sent := ours[len(ours)-n:]; masked(sent) != string(payload) || n > 0 && sent[0] != 'a'^maskKey[0] || n > 1 && sent[1] != 'a'^maskKey[1] {
			t.Errorf("%d bytes are not masked", n)
		}
	}
}
