package child

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// A process is counted with what it has started, and its descriptors can be limited and freed again.
func TestUsedByAndDescriptors(t *testing.T) {
	c := start(t, `while read -r line; do exec 9</dev/null && echo 1 || echo 0; exec 9<&-; done`, Options{Signal: true})
	u, err := UsedBy(c.PID)
	if err != nil || u.Resident == 0 || u.Busiest != c.PID {
		t.Fatalf("%+v, %v", u, err)
	}
	if all, err := UsedBy(os.Getpid()); err != nil || len(all.PIDs) < 2 {
		t.Errorf("this process and its children: %+v, %v", all, err)
	}
	open := u.Descriptors()
	if open < 3 {
		t.Errorf("%d descriptors", open)
	}
	restore, err := LeaveDescriptors(c.PID, 0)
	if err != nil {
		t.Skip("another process cannot be limited here: ", err)
	}
	defer c.Stop()
	ask := func() (got int) {
		if err := c.Ask(t.Context(), "go", patience, &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	if restore(); ask() != 1 {
		t.Error("it can open none when the limit is lifted")
	}
}

// SIGTERM goes to what a shell runs, whose end the shell then reports.
func TestTerminate(t *testing.T) {
	c := start(t, `sh -c 'i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; echo $$; exec sleep 100' & trap 'exit 7' TERM; wait $!; echo over`, Options{Signal: true})
	comm := fmt.Sprintf("/proc/%d/comm", answer[int](t, c))
	for b, err := os.ReadFile(comm); err == nil && string(b) != "sleep\n"; b, err = os.ReadFile(comm) {
		<-time.After(time.Millisecond)
	}
	c.Terminate()
	if c.How() != nil {
		t.Errorf("the shell ended with %v: it got the signal", c.How())
	}
}
