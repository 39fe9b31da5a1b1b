package lab

import "testing"

// TestRawContextsLeak checks that a raw pool leaks data between requests, and that route
// does not.
func TestRawContextsLeak(t *testing.T) {
	raw, err := keep("pooled", 200)
	if err != nil || raw.Leaked == 0 || raw.Refused != 0 { // with -race, a sync.Pool drops one in four
		t.Errorf("a raw pool: %+v, %v; want some that have another request's data, and nobody who says so", raw, err)
	}
	fresh, err := keep("new", 200)
	if err != nil || fresh.Own != 200 {
		t.Errorf("new contexts: %+v, %v", fresh, err)
	}
	own, err := keep("route", 200)
	if err != nil || own.Leaked != 0 || own.Refused != 200 {
		t.Errorf("route's: %+v, %v; want all refused", own, err)
	}
}
