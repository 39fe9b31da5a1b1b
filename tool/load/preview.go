package load

import (
	"bufio"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/hone-go/hone/tool/load/traffic"
)

// WriteRequests prints what the plan's first sessions would send, and when, and sends nothing.
// Values that would be taken from answers appear as <name>, values of data as they are. The frame
// that a target adds to a message is left out.
func (p Plan) WriteRequests(w io.Writer, sessions int) error {
	p, err := p.complete()
	if err != nil {
		return err
	}
	d := preview{bufio.NewWriter(w), p}
	if p.Traffic == nil {
		d.print(p.Content, nil)
		return d.w.Flush()
	}
	all, r := newOffering(p, p.timeline()), &run{plan: p}
	r.prepareTraffic()
	for n := range int64(sessions) {
		a, ok := all.at(n)
		if !p.paced() {
			a, ok = r.choose(arrival{}, uint64(n))
		}
		if !ok || p.Requests > 0 && n >= p.Requests {
			break
		}
		d.session(a)
	}
	return d.w.Flush()
}

// preview prints requests.
type preview struct {
	w    *bufio.Writer // it keeps the first error until Flush
	plan Plan
}

// print prints a request; if it is not text, quoted as in Go.
func (d *preview) print(request []byte, of *traffic.Session) {
	if d.plan.route.Whole {
		request = d.plan.Target.Codec().AppendRequest(nil, 1, nil, of)
	}
	if utf8.Valid(request) {
		fmt.Fprintf(d.w, "%s\n\n", request)
	} else {
		fmt.Fprintf(d.w, "%q\n\n", request)
	}
}

func (d *preview) session(a arrival) {
	var s traffic.Session
	s.Start(d.plan.Traffic, int(a.flow), a.number)
	s.Preview()
	when := "in its turn"
	if d.plan.paced() {
		when = "after " + time.Duration(a.moment).Round(time.Microsecond).String()
	}
	for more := true; more; {
		of := s.Request()
		name := ""
		if of.Flow != "" && of.Flow != of.Name {
			name = " of " + of.Flow
		}
		fmt.Fprintf(d.w, "# session %d%s, %s: %s\n", a.number, name, when, of.Name)
		var content []byte
		if !d.plan.route.Whole {
			content = of.Body.Append(nil, &s)
		}
		d.print(content, &s)
		var think time.Duration
		think, more = s.Next()
		when = "after the answer"
		if think > 0 {
			when += " and " + think.Round(time.Millisecond).String()
		}
	}
}
