package gateway

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hone-go/hone/gateway/journal"
	"github.com/hone-go/hone/http1"
)

// The door for posts, HTTP: docs/posts.md has its requests and answers. The headers of producers are those of the
// Durable Streams protocol.

// Headers of a post. Their names are canonical.
const (
	levelHeader    = "Hone-Level"
	idHeader       = "Producer-Id"
	epochHeader    = "Producer-Epoch"
	seqHeader      = "Producer-Seq"
	expectedHeader = "Producer-Expected-Seq"
	receivedHeader = "Producer-Received-Seq"

	postMethods = "POST, PUT, HEAD"
	postHeaders = "Authorization, Content-Type, " + levelHeader + ", " + idHeader + ", " + epochHeader + ", " + seqHeader
)

// Limits of a post.
const (
	mostHead        = 64 << 10
	mostTopic       = 255
	mostContentType = 255
	refusalTime     = time.Second // for which a wrong token waits for its answer
	retryAfter      = "5"         // seconds
	postPath        = "/v1/"      // then the client's name, and the topic
	jsonType        = "application/json"
)

// badPost is what is wrong with a request, and its status.
type badPost struct {
	status int
	what   string
}

func (e *badPost) Error() string { return e.what }

// Unwrap says what it is at a door without a status for it.
func (e *badPost) Unwrap() error { return ErrHandshake }

func bad(status int, format string, args ...any) error {
	return &badPost{status, fmt.Sprintf(format, args...)}
}

// servePost handles a request. Its answer comes later where it has to wait.
func (s *Server) servePost(w http.ResponseWriter, r *http.Request) {
	if origin := r.Header.Get("Origin"); origin != "" {
		if !slices.Contains(s.Origins, origin) && !slices.Contains(s.Origins, "*") {
			s.answerPost(w, bad(http.StatusForbidden, "web pages of %s may not post here (--http-origin)", origin))
			return
		}
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Set("Vary", "Origin")
		w.Header().Set("Access-Control-Expose-Headers", strings.Join([]string{epochHeader, seqHeader, expectedHeader, receivedHeader, "Retry-After"}, ", "))
	}
	if r.URL.Path == mqttPath {
		s.mqtt.upgrader.ServeHTTP(w, r)
		return
	}
	client, topic, err := postTarget(r.URL)
	switch {
	case err != nil:
	case r.Method == http.MethodOptions && r.Header.Get("Origin") != "":
		w.Header().Set("Access-Control-Allow-Methods", postMethods)
		w.Header().Set("Access-Control-Allow-Headers", postHeaders)
		w.WriteHeader(http.StatusNoContent)
		return
	case r.Method != http.MethodPost && (topic != "" || r.Method != http.MethodPut && r.Method != http.MethodHead):
		w.Header().Set("Allow", postMethods)
		err = bad(http.StatusMethodNotAllowed, "%s is none of %s", r.Method, postMethods)
	default:
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if _, err = s.authenticate(func() *tls.ConnectionState { return r.TLS }, client, token); err != nil {
			s.refuseSlowly(w, r, err)
			return
		}
	}
	u := &post{client: client, level: s.Durable, puts: r.Method == http.MethodPut}
	if err == nil && r.Method == http.MethodPost {
		err = s.readPost(u, r, topic)
	}
	switch {
	case err != nil:
		s.answerPost(w, err)
	case r.Method == http.MethodHead:
		s.queue.mu.Lock()
		known := s.sessions.byClient[client]
		s.queue.mu.Unlock()
		if known == nil {
			w.WriteHeader(http.StatusNotFound)
		}
	default:
		http1.Later(w, r, func(late *http1.LateAnswer) {
			u.done = func(why error) { s.answerLate(late, u, why) }
			s.post(u)
		})
	}
}

// postTarget returns the client and the topic of a path, each part of which may be escaped.
func postTarget(u *url.URL) (client, topic string, err error) {
	rest, is := strings.CutPrefix(u.EscapedPath(), postPath)
	if !is {
		return "", "", bad(http.StatusNotFound, "posts go to %sNAME or %sNAME/TOPIC", postPath, postPath)
	}
	client, topic, _ = strings.Cut(rest, "/")
	client, err = url.PathUnescape(client)
	if err == nil {
		topic, err = url.PathUnescape(topic)
	}
	if err == nil {
		err = checkClientID(client)
	}
	if err == nil && (len(topic) > mostTopic || !utf8.ValidString(topic) || strings.ContainsRune(topic, 0)) {
		err = fmt.Errorf("a topic has up to %d bytes of UTF-8 without a zero byte", mostTopic)
	}
	if err != nil {
		return "", "", bad(http.StatusBadRequest, "%v", err)
	}
	return client, topic, nil
}

// readPost reads what a request posts.
func (s *Server) readPost(u *post, r *http.Request, topic string) error {
	switch level := r.Header.Get(levelHeader); level {
	case "", s.Durable.String():
	case Received.String():
		u.level = Received
	default:
		return bad(http.StatusBadRequest, "%s is %v or %v, not %q", levelHeader, Received, s.Durable, level)
	}
	if err := u.readProducer(r.Header); err != nil {
		return err
	}
	if r.ContentLength > mostPosted {
		return errTooLarge
	}
	var body bytes.Buffer
	body.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead) // with room to see its end
	if _, err := body.ReadFrom(io.LimitReader(r.Body, mostPosted+1)); err != nil {
		return bad(http.StatusBadRequest, "the body ends too early")
	}
	if body.Len() > mostPosted {
		return errTooLarge
	}
	kind := r.Header.Get("Content-Type")
	if len(kind) > mostContentType || strings.ContainsFunc(kind, func(c rune) bool { return c < ' ' || c > '~' }) {
		return bad(http.StatusBadRequest, "a content type has up to %d printable characters", mostContentType)
	}
	records, kind, err := recordsOf(body.Bytes(), kind)
	if err != nil {
		return err
	}
	said := attributes(nil, []byte(topic), []byte(kind))
	for _, data := range records {
		u.records = append(u.records, content{said, data})
	}
	return u.complete(s.most)
}

// recordsOf returns the records of a body, and the content type of each.
func recordsOf(body []byte, kind string) (records [][]byte, each string, err error) {
	media, _, _ := strings.Cut(kind, ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "application/x-ndjson", "application/ndjson", "application/jsonl":
		for line := range bytes.Lines(body) {
			if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 {
				records = append(records, line)
			}
		}
		kind = jsonType
	case jsonType:
		if !json.Valid(body) {
			return nil, "", bad(http.StatusBadRequest, "the body is not JSON")
		}
		if body = bytes.TrimSpace(body); body[0] != '[' {
			return [][]byte{body}, kind, nil
		}
		var all []json.RawMessage
		json.Unmarshal(body, &all) // it is valid
		for _, one := range all {
			records = append(records, one)
		}
	default:
		if len(body) > 0 {
			records = append(records, body)
		}
	}
	if len(records) == 0 {
		return nil, "", bad(http.StatusBadRequest, "the body has no record")
	}
	return records, kind, nil
}

// readProducer reads the headers of a producer: all or none.
func (u *post) readProducer(h http.Header) error {
	id, epoch, seq := h.Get(idHeader), h.Get(epochHeader), h.Get(seqHeader)
	if epoch == "" && seq == "" && len(h[idHeader]) == 0 {
		return nil
	}
	return u.named(id, epoch, seq)
}

// refuseSlowly answers a wrong token after a while: whoever guesses has that long to wait for each.
func (s *Server) refuseSlowly(w http.ResponseWriter, r *http.Request, why error) {
	s.countFate(why)
	http1.Later(w, r, func(late *http1.LateAnswer) {
		time.AfterFunc(refusalTime, func() {
			late.Header().Set("Www-Authenticate", "Bearer")
			late.Send(http.StatusUnauthorized, line(why))
		})
	})
}

// storedStatus returns the status of a post that is stored, now or before.
func (u *post) storedStatus(before bool) int {
	switch {
	case u.puts && !before:
		return http.StatusCreated
	case u.puts, u.id != "" && !before:
		return http.StatusOK
	}
	return http.StatusNoContent
}

// refusedStatus returns the status of a request that stores nothing.
func refusedStatus(why error) int {
	if b, is := errors.AsType[*badPost](why); is {
		return b.status
	}
	return verdictOn(why).status
}

func line(why error) []byte { return []byte(strings.TrimPrefix(why.Error(), "gateway: ") + "\n") }

// answerPost answers a request that was not queued.
func (s *Server) answerPost(w http.ResponseWriter, why error) {
	s.countFate(why)
	w.WriteHeader(refusedStatus(why))
	w.Write(line(why))
}

// answerLate answers a post; queue.mu may be held.
func (s *Server) answerLate(late *http1.LateAnswer, u *post, why error) {
	if errors.Is(why, errCrowded) && s.full.Load() {
		why = journal.ErrNoSpace
	}
	before := errors.Is(why, errDuplicate)
	status := u.storedStatus(before)
	if why != nil && !before {
		status = refusedStatus(why)
	}
	number := func(header string, n uint64) { late.Header().Set(header, strconv.FormatUint(n, 10)) }
	switch {
	case u.id == "":
	case status < 400:
		number(epochHeader, u.newest.epoch)
		number(seqHeader, u.newest.seq)
	case status == http.StatusForbidden:
		number(epochHeader, u.newest.epoch)
	case status == http.StatusConflict:
		number(expectedHeader, u.expected)
		number(receivedHeader, u.numbers.seq)
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		late.Header().Set("Retry-After", retryAfter)
	}
	if !before || !u.puts {
		s.countFate(why)
	}
	if status < 400 {
		late.Send(status, nil)
		return
	}
	late.Send(status, line(why))
}
