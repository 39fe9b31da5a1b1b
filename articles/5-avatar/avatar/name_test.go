package avatar

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestInitials is how names become letters, in hone's rules and in those of the
// services that it stands in for.
func TestInitials(t *testing.T) {
	own, filled := Rules{}, Rules{Fill: true}
	for _, c := range []struct {
		rules      Rules
		name, want string
	}{
		{own, "John Doe", "JD"},
		{own, "john doe", "JD"},
		{own, "Florian", "F"},
		{own, "Frank Walter Östernbach", "FÖ"},
		{own, "Jean-Luc Picard", "JP"},
		{own, "'t Hooft", "TH"},
		{own, "O'Brien", "O"},
		{own, "O\u0308stern", "Ö"}, // composed before it is drawn
		{own, "dr. (med.) x", "DX"},
		{own, "", ""},
		{own, "...", ""},
		{own, "joe@example.com", "J"},
		{own, "john.doe+news@example.com", "JN"},
		{own, "Joe Bloggs joe@example.com", "JB"},
		{own, "Joe Bloggs <joe@example.com>", "JB"},
		{own, "John Doe (jo)", "JD"},
		{own, "John Doe (Marketing)", "JD"},
		{own, "John Doe (the one)", "JD"},
		{own, "Bob Smith (HR)", "BS"},
		{own, "Bob Smith [ext]", "BS"},
		{own, "[ext] Bob Smith", "BS"},
		{own, "Bob {x} Smith", "BS"},
		{own, "Bob Smith (HR) [ext]", "BS"},
		{own, "Bob Smith (HR (Berlin))", "BS"},
		{own, "Bob Smith (HR", "BS"}, // cut by a directory with short fields
		{own, "Bob Smith HR)", "BH"},
		{own, "Bob Smith (bob@example.com)", "BS"},
		{own, "bob.smith@example.com (HR)", "BS"},
		{own, "张三(销售)", "张"},
		{own, "张三（销售）", "张"},
		{own, "张三 【销售】", "张"},
		{own, "田中 太郎［営業］", "田太"},
		{own, "김철수(영업)", "김"},
		{own, "שרה לוי (מכירות)", "לש"},
		{own, "(John) Doe", "D"},
		{own, "(jo)", "J"}, // there is nothing else
		{own, "(bob@example.com)", "B"},
		{own, "🎉 (HR)", "🎉"},
		{own, "เอกชัย", "อ"}, // the vowel before it is no initial
		{own, "แก้ว ใจดี", "กจ"},
		{own, "张三", "张"},
		{own, "欧阳修", "欧阳"},
		{own, "歐陽修", "歐陽"},
		{own, "欧阳", "欧"}, // a family name of one, and a given one
		{own, "司马相如", "司马"},
		{own, "陳 方", "陳方"},
		{own, "田中太郎", "田"},
		{Rules{Most: 1}, "欧阳修", "欧"},
		{Rules{Most: 1}, "John Doe", "J"},
		{Rules{Most: 3}, "Anna Maria Luisa Medici", "AMM"},
		{Rules{Most: 9}, "A B C D E", "ABCE"},
		{Rules{Most: -1}, "John Doe", "JD"},
		{own, "Иван Петров", "ИП"},
		{own, "ßtefan", "ß"},
		{own, "ა ბ", "აბ"}, // not the capitals that no font has
		{own, "שרה לוי", "לש"},
		{own, "محمد علي", "عم"},
		{own, "श्री", "श"}, // no conjunct, no vowel sign
		{own, "🎉", "🎉"},
		{own, "👩‍🚀 Sally", "S"},
		{own, "+", "+"},
		{own, "3 Amigos", "3A"},

		{filled, "John Doe", "JD"},
		{filled, "Florian", "FL"},
		{filled, "Störfried Würgekloß", "SW"},
		{filled, "Frank Walter Östernbach", "FÖ"},
		{filled, "contact@dicebear.com", "CO"},
		{filled, "陳 方", "陳方"},
		{filled, "陈方", "陈方"},
		{filled, "X", "X"},
		{filled, "John Doe (HR)", "JD"},
		{Rules{Fill: true, Most: 3}, "John Doe", "JDO"},
		{Rules{Fill: true, Most: 1}, "John Doe", "J"},
	} {
		name, _ := Limits{}.OrDefaults().tidy(c.name)
		if got := c.rules.Of(name).String(); got != c.want {
			t.Errorf("%+v of %q: %q, want %q", c.rules, c.name, got, c.want)
		}
	}
}

// TestTidy is what is made of names: whatever it is, it is text, short, and comes to rest.
func TestTidy(t *testing.T) {
	l := Limits{}.OrDefaults()
	for _, c := range []struct {
		what, name, want string
		cut              bool
	}{
		{"plain", "John Doe", "John Doe", false},
		{"spaces", "  John \t\u00a0 Doe ", "John Doe", false},
		{"composed", "O\u0308", "Ö", false},
		{"bidi override", "\u202eeoD nhoJ\u202c", "eoD nhoJ", false},
		{"isolates, no width", "a\u2066b\u2069\u200b\ufeff", "ab", false},
		{"the joiner stays", "👩‍🚀", "👩‍🚀", false},
		{"empty", "", "", false},
		{"blank", " \u3000 ", "", false},
		{"nul", "a\x00b", "ab", false},
		{"newline", "a\nb", "a b", false},
		{"invalid", "a\xff", "a", false},
		{"too many bytes", strings.Repeat("\u0416\u0301", 65), strings.Repeat("\u0416\u0301", 64), true},
		{"too many letters", strings.Repeat("a", 65), strings.Repeat("a", 64), true},
		{"far too many bytes", strings.Repeat("张", 1000), strings.Repeat("张", 64), true},
	} {
		got, cut := l.tidy(c.name)
		if got != c.want || cut != c.cut {
			t.Errorf("%s: %q (cut: %v), want %q", c.what, got, cut, c.want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { l.tidy("John Doe") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzName holds every name to what the rest relies on.
func FuzzName(f *testing.F) {
	for _, name := range []string{"Émile Ångström", "👩‍🚀", "שרה לוי", "张三（销售）", "Bob Smith [ext]", "a\xff\u202e(b)\u0301 @c"} {
		f.Add(name)
	}
	l := Limits{}.OrDefaults()
	f.Fuzz(func(t *testing.T, name string) {
		clean, _ := l.tidy(name)
		if !utf8.ValidString(clean) || len(clean) > 3*256 {
			t.Errorf("%q", clean)
		}
		if again, cut := l.tidy(clean); again != clean || cut {
			t.Errorf("%q, and again %q", clean, again)
		}
		for _, r := range []Rules{{}, {Fill: true}, {KeepCase: true, Most: 4}} {
			if letters := r.Of(clean); !utf8.ValidString(letters.String()) {
				t.Errorf("letters %q", letters.String())
			}
			r.Of(name) // does not panic
		}
	})
}

// TestColors is what is promised of colours: they are the whole name's, and the same for ever, and
// white letters on them have the contrast that WCAG asks for.
func TestColors(t *testing.T) {
	if a, b := colourOf("John Doe"), colourOf("Jane Dee"); a == b {
		t.Errorf("John Doe and Jane Dee have the same colour %v", a)
	}
	if got := colourOf("John Doe"); got != rgb(0x911e14) {
		t.Errorf("John Doe's colour has changed to %v: raise the version", got)
	}
	seen := map[Color]bool{}
	for i := range 2000 {
		seen[colourOf(strings.Repeat("x", i%60)+string(rune('a'+i/60)))] = true
	}
	if len(seen) != len(colours) {
		t.Errorf("2000 names have %d colours of %d", len(seen), len(colours))
	}
	light := func(component uint8) float64 {
		if v := float64(component) / 255; v > 0.04045 {
			return math.Pow((v+0.055)/1.055, 2.4)
		} else {
			return v / 12.92
		}
	}
	for _, c := range colours {
		ground := rgb(c)
		if contrast := 1.05 / (0.2126*light(ground.R) + 0.7152*light(ground.G) + 0.0722*light(ground.B) + 0.05); contrast < 4.5 {
			t.Errorf("white on %06x has a contrast of %.2f", c, contrast)
		}
	}
}

func TestParseColor(t *testing.T) {
	for text, want := range map[string]Color{"1e7e7e": {0x1e, 0x7e, 0x7e}, "#1E7E7E": {0x1e, 0x7e, 0x7e}, "abc": {0xaa, 0xbb, 0xcc}} {
		if got, ok := parseColor(text); !ok || got != want {
			t.Errorf("%q: %v %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "#", "a", "ab", "abcde", "xyz", "abcx", "1e7e7e8x", "red", "1e7e7e8", "é1"} {
		if got, ok := parseColor(text); ok {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}
