package engine

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/hone-go/hone/internal/testrun"
)

func TestLimitsOrDefaults(t *testing.T) {
	const never = time.Duration(math.MaxInt64)
	conns := defaultConns()
	if conns < 1 || conns > 50_000 {
		t.Errorf("%d connections by default, want 1 to 50000", conns)
	}
	for _, x := range []struct {
		name      string
		got, want Limits
	}{
		{"zero", Limits{}, Limits{
			FrameTime: 5 * time.Second, AuthTime: never, FrameRate: 1024, FrameSize: 64 << 10,
			IdleTime: 3 * time.Minute, HighWater: 64 << 10, HardCap: 256 << 10,
			StallTime: 10 * time.Second, LingerTime: 2 * time.Second,
			InFlight: 1024, TotalInFlight: 64 << 10, TotalOutput: 128 << 20, TotalInput: 128 << 20, Helpers: 10_000,
			Conns: conns, ConnsPerAddress: math.MaxInt32, AcceptRate: math.MaxInt32,
		}},
		{"off", Limits{
			FrameTime: -1, FrameRate: math.MaxInt, FrameSize: math.MaxInt, IdleTime: -time.Hour, AuthTime: -1, HighWater: -2, HardCap: -3,
			StallTime: math.MinInt64, LingerTime: -1, InFlight: -1, TotalInFlight: -1, TotalOutput: math.MinInt32, TotalInput: -1, Helpers: -1, Conns: -1, ConnsPerAddress: -1, AcceptRate: -1,
		}, Limits{
			FrameTime: never, FrameRate: math.MaxInt32, FrameSize: math.MaxInt32, IdleTime: never, AuthTime: never,
			HighWater: math.MaxInt32, HardCap: math.MaxInt32, StallTime: never, LingerTime: never,
			InFlight: math.MaxInt32, TotalInFlight: math.MaxInt32, TotalOutput: math.MaxInt32, TotalInput: math.MaxInt32, Helpers: math.MaxInt32, Conns: math.MaxInt32, ConnsPerAddress: math.MaxInt32, AcceptRate: math.MaxInt32,
		}},
		{"large", Limits{TotalOutput: math.MaxInt / 64, TotalInput: math.MaxInt, Conns: math.MaxInt}, func() Limits {
			l := Limits{}.OrDefaults()
			l.TotalOutput, l.TotalInput, l.Conns = math.MaxInt/64, math.MaxInt32, math.MaxInt32
			return l
		}()},
		{"set", Limits{
			FrameTime: 1, FrameRate: 2, FrameSize: 3, IdleTime: 4, AuthTime: 16, HighWater: 5, HardCap: 6,
			StallTime: 7, LingerTime: 8, InFlight: 9, TotalInFlight: 15, TotalOutput: 10, TotalInput: 14, Helpers: 13, Conns: 11, ConnsPerAddress: 12, AcceptRate: 17,
		}, Limits{
			FrameTime: 1, FrameRate: 2, FrameSize: 3, IdleTime: 4, AuthTime: 16, HighWater: 5, HardCap: 6,
			StallTime: 7, LingerTime: 8, InFlight: 9, TotalInFlight: 15, TotalOutput: 10, TotalInput: 14, Helpers: 13, Conns: 11, ConnsPerAddress: 12, AcceptRate: 17,
		}},
	} {
		got := x.got.OrDefaults()
		if got != x.want {
			t.Errorf("%s:\n got %+v\nwant %+v", x.name, got, x.want)
		}
		if again := got.OrDefaults(); again != got {
			t.Errorf("%s, resolved twice:\n got %+v\nwant %+v", x.name, again, got)
		}
	}
}

// A new field that is missing here would mean a limit of zero.
func TestEveryLimitHasADefault(t *testing.T) {
	v := reflect.ValueOf(Limits{}.OrDefaults())
	for i := range v.NumField() {
		if v.Type().Field(i).Name == "SpreadTime" {
			continue // no limit: zero and less are none
		}
		if v.Field(i).Int() <= 0 {
			t.Errorf("%s is %v by default", v.Type().Field(i).Name, v.Field(i))
		}
		var off Limits
		name := v.Type().Field(i).Name
		reflect.ValueOf(&off).Elem().Field(i).SetInt(-1)
		if name == "FrameRate" || name == "FrameSize" {
			testrun.WantPanic(t, "engine: Limits."+name+" is -1; ", func() { off.OrDefaults() })
			testrun.WantPanic(t, "engine: Limits."+name+" is -1; ", func() { (&Server{Limits: off}).Context() })
			continue
		}
		if got := reflect.ValueOf(off.OrDefaults()).Field(i).Int(); got < math.MaxInt32 {
			t.Errorf("%s is %d when switched off", name, got)
		}
	}
}
