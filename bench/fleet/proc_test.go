package fleet

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestParseMemory(t *testing.T) {
	const good = "00400000-7ffd [rollup]\nRss:                1384 kB\nPss: 5 kB\nPrivate_Dirty: 1 kB\nAnonymous:           160 kB\nLazyFree: 0 kB\n"
	m, err := parseMemory([]byte(good))
	if want := (Memory{1384 << 10, 160 << 10}); err != nil || m != want {
		t.Errorf("%+v, %v, want %+v", m, err, want)
	}
	for _, bad := range []string{
		"", strings.Replace(good, "Anonymous:", "Anon:", 1), strings.Replace(good, "1384", "many", 1),
		strings.Replace(good, "160 kB", "160 MB", 1), strings.Replace(good, "160 kB", "160", 1),
	} {
		if m, err := parseMemory([]byte(bad)); err == nil {
			t.Errorf("%q is read as %+v", bad, m)
		}
	}
}

func TestParseIdle(t *testing.T) {
	idle, cpus, err := parseIdle([]byte("cpu  10 20 30 400 50 6 7 8 9 0\ncpu0 5 10 15 200 25 0 0 0 0 0\ncpu1 5 10 15 200 25 0 0 0 0 0\nintr 1\n"))
	if idle != 4500*time.Millisecond || cpus != 2 || err != nil {
		t.Errorf("%v, %d, %v", idle, cpus, err)
	}
	if _, _, err := parseIdle([]byte("intr 1\n")); err == nil {
		t.Error("something else is read as /proc/stat")
	}
}

// TestThisProcess reads what the system says of the test itself.
func TestThisProcess(t *testing.T) {
	m, err := MemoryOf(os.Getpid())
	if err != nil || m.Anonymous <= 0 || m.Resident <= m.Anonymous {
		t.Errorf("%+v, %v", m, err)
	}
	if peak, err := PeakOf(os.Getpid()); err != nil || peak < m.Resident/2 {
		t.Errorf("at most %d, and now %d, %v", peak, m.Resident, err)
	}
	before, err := ProcessCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for sum, start := 0, time.Now(); time.Since(start) < 5*time.Millisecond; {
		sum++
	}
	if after, err := ProcessCPU(os.Getpid()); err != nil || after <= before {
		t.Errorf("%v, then %v, %v", before, after, err)
	}
	if _, cpus, err := IdleCPU(); err != nil || cpus < 1 {
		t.Errorf("%d CPUs, %v", cpus, err)
	}
}

func TestChildRunsOnItsCPU(t *testing.T) {
	cpus, err := CPUs()
	if err != nil {
		t.Fatal(err)
	}
	last := cpus[len(cpus)-1]
	c, err := Spawn(t.Context(), last, "sh", "-c", `read line; echo "\"said $line $(sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status)\""; read end`)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Stop()
	var answer string
	if err := c.Ask(t.Context(), "this", 5*time.Second, &answer); err != nil {
		t.Fatal(err)
	}
	if want := "said this " + string(rune('0'+last)); last < 10 && answer != want {
		t.Errorf("%q, want %q", answer, want)
	}
	if after, err := CPUs(); err != nil || len(after) != len(cpus) {
		t.Errorf("the test itself may use %v of %v now, %v", after, cpus, err)
	}
}

func TestChildThatEnds(t *testing.T) {
	c, err := Spawn(t.Context(), AnyCPU, "sh", "-c", "echo sorry >&2")
	if err != nil {
		t.Fatal(err)
	}
	var answer string
	if err := c.Answer(t.Context(), 5*time.Second, &answer); err == nil {
		t.Errorf("it answers %q", answer)
	}
	<-c.Ended()
	if c.Said() != "sorry" {
		t.Errorf("it said %q", c.Said())
	}
	c.Stop()
	c.Stop()
}
