package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/gateway"
)

// webhook posts messages as lines of JSON.
type webhook struct {
	url           string
	secret        string // signs requests; empty: they are not signed
	authorization string // the header; empty: none
	client        http.Client
}

// The headers of a request.
const (
	signatureHeader   = "Hone-Signature"
	idempotencyHeader = "Idempotency-Key"
	longestAnswer     = 64 << 10 // bytes of an answer that are read
)

func (w *webhook) open(context.Context) (*gateway.Position, error) { return nil, nil }

func (w *webhook) commit(context.Context, *batch) error { return nil }

func (w *webhook) close() { w.client.CloseIdleConnections() }

// write sends one request.
func (w *webhook) write(ctx context.Context, b *batch, at []int) error {
	var body bytes.Buffer
	b.appendLines(&body, at)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body.Bytes()))
	if err != nil {
		return finalError{err}
	}
	key := b.messages[at[0]].key()
	if len(at) > 1 {
		key += " " + b.messages[at[len(at)-1]].key() + " " + strconv.Itoa(len(at))
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	r.Header.Set("User-Agent", "honed-relay")
	r.Header.Set(idempotencyHeader, strconv.QuoteToASCII(key))
	if w.authorization != "" {
		r.Header.Set("Authorization", w.authorization)
	}
	if w.secret != "" {
		r.Header.Set(signatureHeader, sign([]byte(w.secret), time.Now(), body.Bytes()))
	}
	answer, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, longestAnswer))
	if err = classify(answer, text, err); err == nil {
		b.done(at...)
	}
	return err
}

// sign returns the signature of a body: the time, so that an old request can be told from a new one, and
// the HMAC-SHA256 of the time, a dot and the body.
func sign(secret []byte, at time.Time, body []byte) string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	io.WriteString(mac, seconds+".")
	mac.Write(body)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// classify says what an answer means: done, refused, or to be tried again.
func classify(answer *http.Response, text []byte, err error) error {
	code := answer.StatusCode
	switch {
	case code/100 == 2:
		return nil // it was accepted, whether or not the rest of the answer came
	case err != nil:
		return err
	case code/100 == 4 && !transient(code):
		return refusal{strings.TrimSpace(answer.Status + " " + strings.ToValidUTF8(string(text), "?"))}
	}
	err = fmt.Errorf("the webhook answered %s", answer.Status)
	if after := retryAfter(answer.Header.Get("Retry-After"), time.Now()); after > 0 {
		err = laterError{err, after}
	}
	return err
}

// transient reports whether a status of the 4xx is about the receiver or the relay and not about the message.
func transient(code int) bool {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return false
}

// retryAfter reads the header, seconds or a date, up to a day.
func retryAfter(text string, now time.Time) time.Duration {
	const longest = 24 * time.Hour
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), int(longest/time.Second))) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), longest)
}
