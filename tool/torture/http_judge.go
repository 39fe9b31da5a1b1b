package torture

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
)

// ruling is what a server did with an input.
type ruling uint8

const (
	right   ruling = iota
	lenient        // it accepted what should be refused; nobody is harmed
	wrong          // it answered a request that nobody sent, answered nonsense, or not at all, or others may find another end
)

// String returns the ruling in words.
func (r ruling) String() string { return [...]string{"right", "lenient", "wrong"}[r] }

// httpAnswer is one answer of a server.
type httpAnswer struct {
	status  int
	closing bool   // it says that the connection ends behind it
	text    []byte // all of it
}

// refused reports whether it refuses a request, where a good one gets the status good.
func (a httpAnswer) refused(good int) bool { return a.status >= 400 && a.status != good }

// refusal reports whether servers refuse malformed requests with that status.
func refusal(status int) bool {
	return 400 <= status && status < 500 || status == http.StatusNotImplemented || status == http.StatusHTTPVersionNotSupported || status == http.StatusServiceUnavailable
}

var errNotHTTP = errors.New("bytes that are not an answer of HTTP/1.1")

// httpAnswers divides what came back into final answers to requests other than HEAD. The error
// says why there are bytes behind them.
func httpAnswers(in []byte) ([]httpAnswer, error) {
	var all []httpAnswer
	for len(in) > 0 {
		rest := bytes.NewReader(in)
		buffered := bufio.NewReader(rest)
		got, err := http.ReadResponse(buffered, nil)
		if err != nil {
			return all, errNotHTTP
		}
		_, err = io.Copy(io.Discard, got.Body)
		got.Body.Close()
		if err != nil {
			return all, errors.New("an answer that ends early")
		}
		used := len(in) - rest.Len() - buffered.Buffered()
		if got.StatusCode >= 200 {
			all = append(all, httpAnswer{got.StatusCode, got.Close, in[:used]})
		}
		in = in[used:]
		if got.StatusCode == http.StatusSwitchingProtocols {
			return append(all, httpAnswer{status: got.StatusCode}), nil
		}
	}
	return all, nil
}

// judge says what a server did with an input whose hidden request has the path mark. Alone, the
// good request behind it gets the status good.
func (in *httpInput) judge(got heard, mark string, good int) (ruling, string) {
	all, err := httpAnswers(got.bytes)
	n := len(all)
	most := max(in.serve, in.lenient)
	switch {
	case err != nil && in.raw && n == 0:
		return right, "answers in another protocol"
	case errors.Is(err, errNotHTTP) && n == 0 && got.closed && in.refuse:
		return lenient, "answers without a status line and closes" // as HTTP/0.9 would
	case err != nil:
		return wrong, fmt.Sprintf("sends %d answers and %v", n, err)
	case n > most && n > 1:
		words := fmt.Sprintf("gives %d answers where at most %d are right", n, max(most, 1))
		if slices.ContainsFunc(all[1:], func(a httpAnswer) bool { return bytes.Contains(a.text, []byte(mark)) }) {
			words += ", one of them to the hidden request, whose path it names"
		}
		return wrong, words
	case n == 0 && got.closed && in.refuse:
		return right, "closes without an answer"
	case n == 0 && got.closed:
		return wrong, "closes without an answer"
	case n == 0 && in.waits:
		return right, "waits"
	case n == 0:
		return wrong, fmt.Sprintf("neither answers nor closes in %s", elapsed(got.took))
	case n == 1:
		return in.judgeOne(all[0], got, good)
	}
	return in.judgeMore(all, good)
}

// judgeOne judges a single answer.
func (in *httpInput) judgeOne(a httpAnswer, got heard, good int) (ruling, string) {
	status := fmt.Sprintf("answers with %d", a.status)
	switch {
	case !got.closed && in.waits:
		return right, status + " and waits"
	case a.refused(good) && in.refuse && !got.closed:
		return lenient, status + " and leaves the connection open"
	case a.refused(good) && in.refuse && !refusal(a.status):
		return lenient, status + " and closes"
	case a.refused(good) && (in.refuse || a.status != http.StatusBadRequest):
		return right, status + " and closes"
	case a.refused(good):
		return wrong, status + ", which refuses a valid request"
	case in.serve == 1 && !got.closed:
		return lenient, status + " and leaves the connection open"
	case !got.closed:
		return wrong, fmt.Sprintf("%s, and the next request not in %s", status, elapsed(got.took))
	case in.serve == 1 || in.serve > 1 && a.closing:
		return right, status + " and closes"
	case !in.refuse:
		return wrong, status + " and closes without having said so, with a request unanswered"
	}
	return lenient, status + ", accepting it, and closes"
}

// judgeMore judges several answers, not too many.
func (in *httpInput) judgeMore(all []httpAnswer, good int) (ruling, string) {
	n := len(all)
	last := all[n-1]
	words := fmt.Sprintf("gives %d answers", n)
	switch {
	case last.refused(good) && in.serve == 1:
		return right, fmt.Sprintf("%s, the last a refusal with %d", words, last.status)
	case last.refused(good):
		return wrong, fmt.Sprintf("%s, the last with %d to bytes that are not a request", words, last.status)
	case n == in.serve:
		return right, words
	case n < in.lenient && in.fewer:
		return wrong, words + ": it believed a length that the coding overrides"
	case in.moves && in.serve == 1:
		return wrong, words + " where it must close after the first"
	case in.moves:
		return wrong, words + " where it must refuse: a proxy may find another end of the message"
	}
	return lenient, words + ", accepting it"
}
