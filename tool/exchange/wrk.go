package exchange

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/record"
)

// The lines that hone reads in wrk's and wrk2's output.
const (
	wrkTitle    = `(?m)^Running (\S+) test @ (\S+)$`
	wrkConns    = `(?m)^ +(\d+) threads and (\d+) connections$`
	wrkQuantile = `(?m)^ +(\d+(?:\.\d+)?)% +(\d+(?:\.\d+)?)(us|ms|s|m|h)$`
	wrkRequests = `(?m)^ +(\d+) requests in `
	wrkSocket   = `(?m)^ +Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`
	wrkStatus   = `(?m)^ +Non-2xx or 3xx responses: (\d+)`
	wrkRate     = `(?m)^Requests/sec: +(\d+(?:\.\d+)?)`
)

// readWrk reads wrk's output, which has percentiles only with --latency.
func readWrk(in *bufio.Reader) (*reading, error) {
	data, err := text(in)
	if err != nil {
		return nil, err
	}
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	said, conns, rate := first(data, wrkTitle), first(data, wrkConns), first(data, wrkRate)
	requests := first(data, wrkRequests)
	if said == nil || conns == nil || rate == nil || requests == nil {
		return nil, errors.New("it is not what wrk prints; give its whole output, as in: wrk --latency … >FILE")
	}
	r := &reading{Measured: Measured{Generator: "wrk"}, requests: number(requests[1])}
	paced := bytes.Contains(data, []byte("HdrHistogram - Recorded Latency"))
	if paced {
		r.Generator = "wrk2"
	}
	r.Scenario = fmt.Sprintf("target=%s\nthreads=%s\nconns=%s\nfor=%s\n", withoutHost(string(said[2])), conns[1], conns[2], said[1])
	if v, err := strconv.ParseFloat(string(rate[1]), 64); err == nil && !paced { // with wrk2 it is the plan's rate
		r.add("rate", "req/s", record.Higher, v)
	}
	quantiles := map[string]string{"50": "p50", "99": "p99", "99.9": "p999"}
	for _, q := range regexp.MustCompile(wrkQuantile).FindAllSubmatch(data, -1) {
		part := string(q[1])
		if strings.Contains(part, ".") {
			part = strings.TrimRight(strings.TrimRight(part, "0"), ".")
		}
		value, err := time.ParseDuration(string(q[2]) + string(q[3]))
		if name := quantiles[part]; name != "" && err == nil {
			r.addTime(name, value)
			delete(quantiles, part) // wrk2 repeats them
		}
	}
	if len(quantiles) == 3 {
		r.Lacks = append(r.Lacks, "any percentile: run wrk with --latency")
	}
	for _, pattern := range []string{wrkSocket, wrkStatus} {
		if counts := first(data, pattern); counts != nil {
			for _, n := range counts[1:] {
				r.failed += number(n)
			}
		}
	}
	r.Lacks = append(r.Lacks, "a distribution, and intervals")
	if !paced {
		r.Lacks = append(r.Lacks, "waiting times: these are times of a closed loop")
	}
	return r, nil
}

// first returns the first match, with its groups; nil: none.
func first(data []byte, pattern string) [][]byte {
	return regexp.MustCompile(pattern).FindSubmatch(data)
}

func number(digits []byte) int64 {
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// withoutHost returns a URL as scenarios keep it: without its host, and without its query, which
// may contain keys.
func withoutHost(url string) string {
	scheme, rest, found := strings.Cut(load.HTTP{URL: url}.String(), "://")
	if !found {
		return ""
	}
	path := ""
	if at := strings.IndexByte(rest, '/'); at >= 0 {
		path = rest[at:]
	}
	return strings.TrimSpace(scheme + " " + path)
}
