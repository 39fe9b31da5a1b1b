package race

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hone-go/hone/bench/fleet"
	"github.com/hone-go/hone/bench/table"
	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/load/traffic"
)

// HonedHello begins a session of docs/gateway.md, under a name of the connection's own.
const HonedHello = "hgw2\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x01" + "\x10################" + "\x00\x00"

// sessions is the target honed: the records of a connection are numbered from 1.
type sessions struct{ codec.Frames }

// Codec returns the codec of one connection.
func (s sessions) Codec() codec.Codec {
	return &session{Codec: s.Frames.Codec(), ids: make(map[uint64]uint64)}
}

// session numbers records, and knows whose numbers those are.
type session struct {
	codec.Codec
	last uint64
	ids  map[uint64]uint64
}

// AppendRequest appends the next record.
func (s *session) AppendRequest(dst []byte, id uint64, content []byte, of *traffic.Session) []byte {
	s.last++
	s.ids[s.last] = id
	return s.Codec.AppendRequest(dst, s.last, content, of)
}

// Decode gives an answer the id of its request.
func (s *session) Decode(a *codec.Answer, in []byte) (used int, err error) {
	used, err = s.Codec.Decode(a, in)
	if number := a.ID; number != 0 {
		a.ID = s.ids[number]
		delete(s.ids, number)
	}
	return used, err
}

// gatewayRow has records appended to honed and to a stream of Redis, both of which answer when a record is on the disk.
// The generator is hone load, in this process.
func gatewayRow() Row {
	const conns = 100
	record := strings.Repeat("sixteen letters.", 8)
	measure := func(ctx context.Context, g *Ground, e fleet.Entry) (samples []table.Sample, err error) {
		data := filepath.Join(g.Dir, fleet.Data)
		if err := errors.Join(os.RemoveAll(data), os.Mkdir(data, 0o700)); err != nil {
			return nil, err
		}
		server, err := fleet.Start(ctx, g.Dir, e, fleet.How{CPU: fleet.AnyCPU})
		if err != nil {
			return nil, err
		}
		defer server.Stop()
		for _, depth := range []int{1, 16} {
			plan := load.Plan{Target: sessions{codec.Frames{Address: server.Addr, Hello: HonedHello}}, Content: []byte(record), Conns: conns, Depth: depth, Warmup: -1, For: 2 * g.Window, MaxLag: time.Second, AllowLate: true}
			if e.Program == "redis-server" {
				commands := codec.Messages{Address: server.Addr}
				if err := commands.Framing.UnmarshalText([]byte("resp")); err != nil {
					return nil, err
				}
				plan.Target, plan.Content = commands, fmt.Appendf(nil, "*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$1\r\n*\r\n$1\r\nr\r\n$%d\r\n%s\r\n", len(record), record)
			}
			var made *load.Result
			cpu, others, err := watch(server.PID, func() (err error) {
				made, err = load.Run(ctx, plan)
				return err
			})
			switch {
			case err != nil:
				return nil, err
			case made.Requests == 0 || made.Errors["total"] > 0:
				return nil, fmt.Errorf("%d records, errors %v, %q", made.Requests, made.Errors, made.InvalidReasons)
			}
			samples = append(samples, table.Sample{Case: fmt.Sprintf("%d × %d", conns, depth), Figures: map[string]float64{"cpu_us": float64(cpu) / 1e3 / float64(made.Requests), "rate": float64(made.Requests) / plan.For.Seconds(), "others": others}, Doubts: made.InvalidReasons})
		}
		return samples, nil
	}
	return Row{
		Name: "gateway", Client: "hone load", Servers: fleet.Gateways(), Rounds: cpuRounds,
		Title: func([]int) string {
			return fmt.Sprintf("records of %d bytes on %d connections with 1 and with 16 outstanding, each answered when it is on the disk, not pinned", len(record), conns)
		},
		Round: each(measure),
	}
}
