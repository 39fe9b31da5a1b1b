package engine_test

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/hone-go/hone/engine"
)

// A protocol's own reasons end connections as the engine's do: returned by Advance or
// passed to Close, with the protocol's refusal, and counted by name. One without a name
// counts as malformed.
func TestReasonsOfAProtocolsOwn(t *testing.T) {
	onEach(t, everywhere(), func(t *testing.T, g ground) {
		s := serve(t, g, lines{serve: func(t *engine.Turn, line []byte) error {
			switch string(line) {
			case "first":
				return engine.Own
			case "second":
				t.Conn().Close(engine.Own + 1)
			case "third":
				return engine.Own + 2
			case "last":
				return engine.Reason(255)
			}
			return nil
		}}, func(s *engine.Server) { s.OwnReasons = []string{"out_of_credit", "banned"} })
		for line, want := range map[string]engine.Reason{
			"first": engine.Own, "second": engine.Own + 1, "third": engine.Own + 2, "last": 255,
		} {
			c := s.dial(t)
			c.send(line + "\n")
			c.wantEnd(refusal(want))
			c.Close()
			s.ended(t, want)
		}
		if !eventually(patience, func() bool { return s.Stats().Open == 0 }) {
			t.Error("the connections did not end")
		}
		st := s.Stats()
		if st.Own[0] != (engine.OwnEnded{Name: "out_of_credit", Count: 1}) || st.Own[1] != (engine.OwnEnded{Name: "banned", Count: 1}) {
			t.Errorf("counted %+v", st.Own)
		}
		if st.Own[2] != (engine.OwnEnded{}) || st.Ended[engine.Malformed] != 2 {
			t.Errorf("counted %+v, and %d malformed; want 2", st.Own[2], st.Ended[engine.Malformed])
		}
	})
}

// A reason that would collide with another label panics at once.
func TestOwnReasonsMustBeLabels(t *testing.T) {
	for name, wrong := range map[string][]string{
		"no name": {""}, "an upper case one": {"Banned"}, "the engine's": {"malformed"}, "twice": {"banned", "banned"},
		"what others are called": {"unknown"}, "nine": strings.Split("a b c d e f g h i", " "),
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if v := recover(); v == nil || !strings.HasPrefix(v.(string), "engine: Server.OwnReasons has ") {
					t.Errorf("%q: recovered %v, want a panic that names the field", wrong, v)
				}
			}()
			s := &engine.Server{Protocol: echoLines(), OwnReasons: wrong}
			s.Context()
		})
	}
}

// After a failed handshake the connection ends for the reason returned by
// HandshakeFailed, or the Reason that the error wraps, and else as malformed.
func TestReasonOfAFailedHandshake(t *testing.T) {
	wrong := &tls.CertificateVerificationError{Err: errors.New("expired")}
	for name, x := range map[string]struct {
		err  error
		want engine.Reason
	}{
		"named":    {wrong, engine.Own},
		"wrapped":  {errors.Join(errors.New("not today"), engine.Own+1), engine.Own + 1},
		"anything": {errors.New("no TLS"), engine.Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, over(overAdapter), func(t *testing.T, g ground) {
				config := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, x.err }}
				ln := adapting{listen(t, overTCP), func(nc net.Conn) net.Conn { return tls.Server(nc, config) }}
				s := serveOn(t, g, ln, echoLines(), func(s *engine.Server) {
					s.OwnReasons = []string{"no_certificate", "not_today"}
					s.HandshakeFailed = func(err error) engine.Reason {
						if errors.As(err, new(*tls.CertificateVerificationError)) {
							return engine.Own
						}
						return 0
					}
				})
				c := tls.Client(s.dial(t).Conn, &tls.Config{InsecureSkipVerify: true})
				if err := c.Handshake(); err == nil {
					t.Fatal("the handshake succeeded")
				}
				count := func() uint64 {
					if x.want == engine.Malformed {
						return s.Stats().Ended[x.want]
					}
					return s.Stats().Own[x.want-engine.Own].Count
				}
				if !eventually(patience, func() bool { return count() == 1 }) {
					t.Errorf("not counted: %+v", s.Stats())
				}
			})
		})
	}
}
