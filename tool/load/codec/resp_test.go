package codec

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Every answer is cut at its end, wherever the stream is split, and the next one is left alone.
func TestRESP(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"+OK\r\n": "+OK", ":42\r\n": ":42", "_\r\n": "_", "#t\r\n": "#t", ",1.5\r\n": ",1.5",
		"$5\r\nhe\r\no\r\n": "he\r\no", "$0\r\n\r\n": "", "$-1\r\n": "$-1", "*-1\r\n": "*-1", "*0\r\n": "*0",
		"*2\r\n$1\r\na\r\n*1\r\n:1\r\n": "*2\r\n$1\r\na\r\n*1\r\n:1", "%1\r\n+k\r\n$1\r\nv\r\n": "%1\r\n+k\r\n$1\r\nv",
		"|1\r\n+ttl\r\n:9\r\n+OK\r\n": "|1\r\n+ttl\r\n:9\r\n+OK", "~1\r\n:1\r\n": "~1\r\n:1", "=7\r\ntxt:one\r\n": "=7\r\ntxt:one",
		"-ERR no\r\n": "-ERR no", "!6\r\nERR no\r\n": "!6\r\nERR no",
	} {
		for n := range len(in) {
			if content, used, err := cutRESP([]byte(in[:n]), 1000); used != 0 || err != nil {
				t.Errorf("%q, the first %d bytes: %q, %d, %v", in, n, content, used, err)
			}
		}
		content, used, err := cutRESP([]byte(in+":7\r\n"), 1000)
		if string(content) != want || used != len(in) || err != nil {
			t.Errorf("%q: %q, %d, %v", in, content, used, err)
		}
		if failed := failureOfRESP([]byte(in)); (failed != nil) != strings.Contains(in, "ERR no") || failed != nil && fmt.Sprint(failed) != `the server answers "ERR no"` {
			t.Errorf("%q: %v", in, failed)
		}
	}
	for in, what := range map[string]string{
		"hello\r\n": "not RESP", "\r\n": "not RESP", "$x\r\n": "not RESP", "$-2\r\n": "not RESP", "$2000\r\n": "not RESP", "HTTP/1.1 400 Bad Request\r\n": "speaks HTTP",
		"+" + strings.Repeat("x", 1001): "limit of 1000", strings.Repeat("*1\r\n", 300): "limit of 1000", "*600\r\n" + strings.Repeat("*600\r\n", 2): "limit of 1000",
	} {
		_, _, err := cutRESP([]byte(in), 1000)
		if e := new(Error); !errors.As(err, &e) || !strings.Contains(e.What, what) || e.Try == "" {
			t.Errorf("%.20q: %v", in, err)
		}
	}
}

func TestRESPRequests(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{"GET a": "GET a\r\n", "*1\r\n$4\r\nPING\r\n": "*1\r\n$4\r\nPING\r\n"} {
		if got := framing(t, "resp").Append(nil, []byte(content)); string(got) != want {
			t.Errorf("%q: %q", content, got)
		}
	}
	if framing(t, "resp").String() != "resp" {
		t.Error("resp is not written as it is read")
	}
}
