package pool

import "testing"

func TestClasses(t *testing.T) {
	for c := range classes {
		size := classSize(c)
		if classFor(size) != c || classFilled(size) != c {
			t.Errorf("%d bytes: for class %d, filled %d, want %d", size, classFor(size), classFilled(size), c)
		}
		if c+1 < classes {
			if next := classSize(c + 1); next <= size || next > size+size/2 {
				t.Errorf("the class after %d bytes has %d", size, next)
			}
			if classFor(size+1) != c+1 || classFilled(size+1) != c {
				t.Errorf("%d bytes: for class %d, filled %d, want %d, %d", size+1, classFor(size+1), classFilled(size+1), c+1, c)
			}
		}
	}
	if classSize(0) != minSize || classSize(classes-1) != maxSize || classFor(0) != 0 || classFor(1) != 0 {
		t.Errorf("classes range from %d to %d", classSize(0), classSize(classes-1))
	}
	if classSize(classFor(33<<10)) != 48<<10 {
		t.Errorf("33 KiB use a class of %d bytes", classSize(classFor(33<<10)))
	}
}
