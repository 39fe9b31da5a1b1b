package spec

import "testing"

// The error of a setting that not every target has says what to use instead.
func TestParticularSettings(t *testing.T) {
	for _, one := range append(new(Load).all(), new(Attacked).all()...) {
		if one.kinds != 0 && one.instead == "" {
			t.Errorf("--%s: nothing is said", one.name)
		}
	}
}
