package testrun

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// EachLargest runs a subtest for each exported number of the struct T, durations included, except
// those named. It gets a new T in which that field has its largest value.
func EachLargest[T any](t *testing.T, test func(t *testing.T, v *T), except ...string) {
	t.Helper()
	typ := reflect.TypeFor[T]()
	tried := 0
	for i := range typ.NumField() {
		field := typ.Field(i)
		v := new(T)
		to := reflect.ValueOf(v).Elem().Field(i)
		switch {
		case !field.IsExported() || slices.Contains(except, field.Name):
			continue
		case to.CanInt():
			to.SetInt(math.MaxInt64 >> (64 - field.Type.Bits()))
		case to.CanUint():
			to.SetUint(math.MaxUint64 >> (64 - field.Type.Bits()))
		case to.CanFloat():
			to.SetFloat(math.MaxFloat64)
		default:
			continue
		}
		tried++
		t.Run(field.Name, func(t *testing.T) { test(t, v) })
	}
	if tried == 0 {
		t.Errorf("%v has no numbers", typ)
	}
}

// WantPanic checks that f panics with a text that begins so.
func WantPanic(t testing.TB, text string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		switch got := recover(); {
		case got == nil:
			t.Errorf("no panic, want %q", text)
		case !strings.HasPrefix(fmt.Sprint(got), text):
			t.Errorf("panics with %q, want %q", got, text)
		}
	}()
	f()
}
