package trial

import (
	"net"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"github.com/hone-go/hone/tool/load"
	"github.com/hone-go/hone/tool/load/codec"
	"github.com/hone-go/hone/tool/machine"
)

// Other programs' use counts from the limit on, and is not checked at a limit of 1.
func TestDisturbed(t *testing.T) {
	of := func(v float64) *float64 { return &v }
	used := machine.Meanwhile{Others: of(0.4), Steal: of(0.01)}
	if got := disturbed(used, 0.3); !slices.Equal(got, []string{"other programs used 40 % of the CPUs (limit 30 %); stop them, or wait"}) {
		t.Errorf("40 %% of 30 %%: %q", got)
	}
	if got := disturbed(used, 0.5); got != nil {
		t.Errorf("40 %% of 50 %%: %q", got)
	}
	used.Busiest = "cc1 80 %, go 1.0 %"
	if got := disturbed(used, 0.3); !slices.Equal(got, []string{"other programs used 40 % of the CPUs (limit 30 %; of one CPU: cc1 80 %, go 1.0 %); stop them, or wait"}) {
		t.Errorf("with names: %q", got)
	}
	if got := disturbed(machine.Meanwhile{}, 0.5); got != nil {
		t.Errorf("nothing is known: %q", got)
	}
}

// The plan's own callbacks are still called.
func TestOthersWatch(t *testing.T) {
	told := ""
	plan := load.Plan{WindowOpens: func() { told += "opens " }, WindowCloses: func() { told += "closes" }}
	o := &Others{Most: 0.3}
	o.Watch(&plan)
	plan.WindowOpens()
	plan.WindowCloses()
	if told != "opens closes" {
		t.Errorf("told %q", told)
	}
	all := load.Plan{}
	(&Others{Most: 1}).Watch(&all)
	if all.WindowOpens != nil || all.WindowCloses != nil {
		t.Error("somebody looks")
	}
}

// A limit that nobody gave is worth a warning; a given one makes the result invalid. The process
// that counts as another is a child of this test.
func TestOthersJudge(t *testing.T) {
	for _, warn := range []bool{true, false} {
		plan, r := load.Plan{}, &load.Result{Valid: true}
		o := &Others{Most: 1e-9, Warn: warn}
		o.Watch(&plan)
		plan.WindowOpens()
		busy := exec.Command("sh", "-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; echo; read -r line")
		in, err := busy.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := busy.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := busy.Start(); err != nil {
			t.Skip("the busy program is one of sh")
		}
		out.Read(make([]byte, 1))
		plan.WindowCloses() // once it has ended, its use is this process's
		in.Close()
		busy.Wait()
		got := o.Judge(r)
		if r.Valid != warn || (len(got) > 0) != warn || len(r.Warnings) != len(got) || (len(r.InvalidReasons) > 0) == warn {
			if runtime.GOOS == "linux" {
				t.Errorf("only a warning %v: valid %v, %q, warnings %q, returned %q", warn, r.Valid, r.InvalidReasons, r.Warnings, got)
			}
		}
	}
}

// A server is found by the port of a loopback address, whatever its protocol.
func TestPlace(t *testing.T) {
	for _, c := range []struct {
		target         codec.Target
		topology, port string
	}{
		{codec.Frames{Address: "127.0.0.1:7000"}, "loopback", "7000"},
		{codec.HTTP{URL: "http://localhost/x"}, "loopback", "80"},
		{codec.HTTP{URL: "https://[::1]:8443/x"}, "loopback", "8443"},
		{codec.WebSocket{URL: "wss://10.0.0.9/x"}, "network", "443"},
		{codec.HTTP{URL: "http://unix:/run/x.sock:/"}, "unix", ""},
		{codec.WebSocket{URL: "wss://unix:/x"}, "unix", ""},
		{codec.Messages{Network: "unix", Address: "/x"}, "unix", ""},
		{codec.HTTP{URL: "http://127.0.0.1/unix:"}, "loopback", "80"},
	} {
		if topology, port, _ := place(c.target); topology != c.topology || port != c.port {
			t.Errorf("%v: %s, port %q", c.target, topology, port)
		}
		if c.topology != "loopback" && Listeners(c.target) != nil {
			t.Errorf("%v is served here", c.target)
		}
	}
}

// Waiting for a processor counts only where the server's processes are known, or not here.
func TestElsewhere(t *testing.T) {
	own := "127.0.0.1"
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if one, ok := a.(*net.IPNet); ok && one.IP.To4() != nil {
			own = one.IP.String() // the last one, which is seldom the loopback
		}
	}
	for address, want := range map[string]bool{"127.0.0.1:1": false, own + ":1": false, "192.0.2.1:1": true, "a.name:1": false, "unix:/x": false} {
		target := codec.Frames{Network: "tcp", Address: address}
		if got := Elsewhere(target); got != want {
			t.Errorf("%s is elsewhere: %v", address, got)
		}
		plan := load.Plan{Target: target}
		(&Others{Most: 0.3, Elsewhere: want}).Watch(&plan)
		if (plan.Rivals != nil) != want {
			t.Errorf("%s: rivals are known: %v", address, !want)
		}
	}
}
