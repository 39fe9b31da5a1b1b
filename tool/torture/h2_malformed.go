package torture

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// input2 is a request that is not quite right: the good one without the fields that it drops, with others
// added.
type input2 struct {
	name, section string // of RFC 9113
	accepted      ruling // of a server that takes it for a good one
	drops         string
	adds          []field
}

var inputs2 = []input2{
	{"a name in upper case", "8.2.1", lenient, "", []field{{Name: "X-Upper", Value: "a"}}},
	{"CR LF in a name", "8.2.1", wrong, "", []field{{Name: "x: a\r\ny", Value: "b"}}},
	{"CR LF in a value", "8.2.1", wrong, "", []field{{Name: "x", Value: "a\r\ny: b"}}},
	{"NUL in a value", "8.2.1", wrong, "", []field{{Name: "x", Value: "a\x00b"}}},
	{"Connection", "8.2.2", lenient, "", []field{{Name: "connection", Value: "x"}}},
	{"Transfer-Encoding", "8.2.2", lenient, "", []field{{Name: "transfer-encoding", Value: "chunked"}}},
	{"an unknown pseudo-header", "8.3", lenient, "", []field{{Name: ":unknown", Value: "a"}}},
	{":status in a request", "8.3", lenient, "", []field{{Name: ":status", Value: "200"}}},
	{"a pseudo-header behind a field", "8.3", lenient, ":scheme", []field{{Name: ":scheme", Value: "http"}}},
	{"two :path", "8.3", lenient, "", []field{{Name: ":path", Value: "/other"}}},
	{"no :method", "8.3.1", lenient, ":method", nil},
	{"no :path", "8.3.1", lenient, ":path", nil},
	{"an empty :path", "8.3.1", lenient, ":path", []field{{Name: ":path", Value: ""}}},
	{"CR LF in :path", "8.3.1", wrong, ":path", []field{{Name: ":path", Value: "/ HTTP/1.1\r\nx: y\r\n\r\nGET /"}}},
	{"a space in :method", "8.3.1", lenient, ":method", []field{{Name: ":method", Value: "GET / HTTP/1.1"}}},
	{"CR LF in :method", "8.3.1", wrong, ":method", []field{{Name: ":method", Value: "GET / HTTP/1.1\r\nx:"}}},
	{"CR LF in :authority", "8.3.1", wrong, ":authority", []field{{Name: ":authority", Value: "a\r\nx: y"}}},
	{"a Host other than :authority", "8.3.1", lenient, "", []field{{Name: "host", Value: "other"}}},
	{"a length without a body", "8.1.1", lenient, "", []field{{Name: "content-length", Value: "5"}}},
	{"two lengths", "8.1.1", lenient, "", []field{{Name: "content-length", Value: "0"}, {Name: "content-length", Value: "5"}}},
	{"a length that is not a number", "8.1.1", lenient, "", []field{{Name: "content-length", Value: "-1"}}},
	{"CONNECT", "8.5", right, ":method :scheme :path", []field{{Name: ":method", Value: "CONNECT"}}},
	{"CONNECT with a :path", "8.5", lenient, ":method", []field{{Name: ":method", Value: "CONNECT"}}},
	{"CONNECT with a :protocol that is not offered", "8.5", lenient, ":method", []field{{Name: ":method", Value: "CONNECT"}, {Name: ":protocol", Value: "websocket"}}},
}

// apply returns the good request with the changes.
func (in *input2) apply(good []field) []field {
	good = slices.DeleteFunc(slices.Clone(good), func(f field) bool { return slices.Contains(strings.Fields(in.drops), f.Name) })
	for _, f := range in.adds {
		at := len(good)
		if f.Name[0] == ':' && f.Name != ":scheme" { // which is the one that comes late
			at = 0
		}
		good = slices.Insert(good, at, f)
	}
	return good
}

// malformed2 sends each input with a good request behind it, on a connection of its own.
func malformed2(ctx context.Context, a *Arena) Finding {
	good, _ := a.target.fields(a.target.Target)
	good[0].Value = "GET"
	var all []attempt
	for _, in := range inputs2 {
		var p packer
		sent := frame{headersFrame, endHeaders | endStream, 1, p.pack(in.apply(good)...)}.append(hello(nil))
		sent = frame{headersFrame, endHeaders | endStream, 3, p.pack(good...)}.append(sent)
		all = append(all, attempt{
			name: in.name, section: "9113 §" + in.section, parts: [][]byte{sent}, judge: in.judge,
			enough: func(got []byte) bool { r := replies(got); return r.over || r.ends[1] && r.ends[3] },
		})
	}
	return a.rule(ctx, (*target).HTTP2, all)
}

// replied is what came back on the two streams.
type replied struct {
	status [4]int // by stream; 0: none
	ends   [4]bool
	over   bool // the server ends the connection
}

func replies(in []byte) (all replied) {
	var r frames
	for {
		e, used, err := r.cut(in)
		if used == 0 || err != nil {
			all.over = all.over || err != nil
			return all
		}
		in = in[used:]
		all.over = all.over || e.kind == goAwayFrame
		if at := e.stream; at < 4 {
			if e.status != "" {
				all.status[at], _ = strconv.Atoi(e.status)
			}
			all.ends[at] = all.ends[at] || e.ends
		}
	}
}

// judge says what a server did with an input.
func (in *input2) judge(got heard) (ruling, string) {
	r := replies(got.bytes)
	status := "answers with " + strconv.Itoa(r.status[1])
	switch {
	case r.status[1] >= 200 && r.status[1] < 400:
		return in.accepted, status + ", accepting it"
	case r.over || got.closed:
		return right, "ends the connection"
	case !r.ends[1]:
		return wrong, "neither answers nor resets the stream"
	case !r.ends[3]:
		return wrong, "does not answer the good request behind it"
	case r.status[1] > 0:
		return right, status
	}
	return right, "resets the stream"
}
