package spec

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"github.com/hone-go/hone/tool/exit"
)

// login returns the headers, with the Authorization of a file. Errors never say what is in the files.
func (f *target) login(command string) (http.Header, error) {
	if f.basicFile == "" && f.bearerFile == "" {
		return f.header, nil
	}
	if f.basicFile != "" && f.bearerFile != "" || f.header.Get("Authorization") != "" {
		return nil, exit.Usagef("%s: a request has one Authorization; give one of --basic-file, --bearer-file and -H Authorization", command)
	}
	name, flag, example := f.bearerFile, "bearer-file", "a token"
	if f.basicFile != "" {
		name, flag, example = f.basicFile, "basic-file", "user:password"
	}
	text, err := f.files.read(name)
	if err != nil {
		return nil, exit.Failedf("%s: --%s: %w; name a file with %s in it", command, flag, err, example)
	}
	secret := strings.TrimSpace(string(text))
	odd := func(r rune) bool { return r < ' ' || r == 0x7f }
	switch {
	case secret == "":
		err = errors.New("is empty")
	case strings.ContainsFunc(secret, odd):
		err = errors.New("has more than one line, or a letter that no header has")
	case f.basicFile != "" && !strings.Contains(secret, ":"):
		err = errors.New("has no colon")
	}
	if err != nil {
		return nil, exit.Failedf("%s: --%s %s %w; write %s into it", command, flag, name, err, example)
	}
	header := f.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	if f.basicFile != "" {
		secret = "Basic " + base64.StdEncoding.EncodeToString([]byte(secret))
	} else {
		secret = "Bearer " + secret
	}
	header.Set("Authorization", secret)
	return header, nil
}
