package avatar

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestInitials is how names become letters, in hone's rules and in those of the
// services that it stands in for.
func TestInitials(t *testing.T) {
	own, dicebear, seed := Rules{}, Rules{Fill: true}, Rules{KeepCase: true, Preferred: true}
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
		{Rules{Given: true}, "欧阳修文", "修文"},
		{Rules{Given: true}, "张三", "张三"},
		{Rules{Given: true}, "三", "三"},
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

		{dicebear, "John Doe", "JD"},
		{dicebear, "Florian", "FL"},
		{dicebear, "Störfried Würgekloß", "SW"},
		{dicebear, "Frank Walter Östernbach", "FÖ"},
		{dicebear, "contact@dicebear.com", "CO"},
		{dicebear, "陳 方", "陳方"},
		{dicebear, "陈方", "陈方"},
		{dicebear, "X", "X"},
		{dicebear, "John Doe (HR)", "JD"},
		{Rules{Fill: true, Most: 3}, "John Doe", "JDO"},
		{Rules{Fill: true, Most: 1}, "John Doe", "J"},

		{seed, "John Doe", "JD"},
		{seed, "john doe", "jd"},
		{seed, "joe@example.com", "j"},
		{seed, "John Doe (dj)", "dj"},
		{seed, "", ""},
		{seed, "hello", "h"},
		{seed, "孔", "孔"},
	} {
		name := Limits{}.Mend(c.name)
		if got := c.rules.Of(name).String(); got != c.want {
			t.Errorf("%+v of %q: %q, want %q", c.rules, c.name, got, c.want)
		}
	}
}

// TestClean is which names are refused, what is made of the others, and that the
// lenient way takes all of them.
func TestClean(t *testing.T) {
	zalgo := "H" + strings.Repeat("\u0301\u0316", 60) + "i"
	for _, c := range []struct {
		what, name, want string
		err              error
	}{
		{"plain", "John Doe", "John Doe", nil},
		{"spaces", "  John \t\u00a0 Doe ", "", ErrNameInvalid}, // the tab
		{"other spaces", " John \u00a0 Doe ", "John Doe", nil},
		{"composed", "O\u0308", "Ö", nil},
		{"bidi override", "\u202eeoD nhoJ\u202c", "eoD nhoJ", nil},
		{"isolates, no width", "a\u2066b\u2069\u200b\ufeff", "ab", nil},
		{"the joiner stays", "👩‍🚀", "👩‍🚀", nil},
		{"empty", "", "", ErrNameBlank},
		{"blank", " \u3000 ", "", ErrNameBlank},
		{"dots", "../..", "", ErrNameBlank},
		{"nothing but marks", "\u202e\u0301", "", ErrNameBlank},
		{"nul", "a\x00b", "", ErrNameInvalid},
		{"newline", "a\nb", "", ErrNameInvalid},
		{"invalid", "a\xff", "", ErrNameInvalid},
		{"zalgo", zalgo, zalgo, nil},
		{"256 bytes", strings.Repeat("abc ", 64)[:64], strings.TrimSpace(strings.Repeat("abc ", 64)[:64]), nil},
		{"too many bytes", strings.Repeat("\u0416\u0301", 65), "", ErrNameTooLong},
		{"too many letters", strings.Repeat("a", 65), "", ErrNameTooLong},
		{"10 MB", strings.Repeat("a", 10<<20), "", ErrNameTooLong},
	} {
		got, err := Limits{}.Clean(c.name)
		if !errors.Is(err, c.err) || c.err == nil && err != nil {
			t.Errorf("%s: error %v, want %v", c.what, err, c.err)
		}
		if c.what != "zalgo" && got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		mended := Limits{}.Mend(c.name)
		if !utf8.ValidString(mended) || len(mended) > 3*256 {
			t.Errorf("%s: mended to %q", c.what, mended)
		}
		if again := (Limits{}).Mend(mended); again != mended {
			t.Errorf("%s: mended to %q, and again to %q", c.what, mended, again)
		}
		if err == nil && mended != got {
			t.Errorf("%s: cleaned to %q, mended to %q", c.what, got, mended)
		}
	}
}

// FuzzName holds every name to what the rest relies on: whatever it is, it is
// text of limited length, it comes to rest, and its letters are at most four.
func FuzzName(f *testing.F) {
	for _, name := range sheetNames() {
		f.Add(name)
	}
	f.Add("a\xff\u202e(b)\u0301 @c")
	f.Fuzz(func(t *testing.T, name string) {
		clean, err := Limits{}.Clean(name)
		mended := Limits{}.Mend(name)
		if err == nil && clean != mended {
			t.Errorf("cleaned to %q, mended to %q", clean, mended)
		}
		if !utf8.ValidString(mended) {
			t.Errorf("mended to %q", mended)
		}
		if again := (Limits{}).Mend(mended); again != mended {
			t.Errorf("mended to %q, and again to %q", mended, again)
		}
		for _, r := range []Rules{{}, {Fill: true}, {KeepCase: true}, {Given: true, Most: 4}} {
			if l := r.Of(mended); !utf8.ValidString(l.String()) {
				t.Errorf("letters %q", l.String())
			}
			r.Of(name) // does not panic
		}
	})
}

// TestColors is what is promised of colours: they are the whole name's, and the
// same for ever.
func TestColors(t *testing.T) {
	if a, b := colourOf(hashOf("John Doe")), colourOf(hashOf("Jane Dee")); a == b {
		t.Errorf("John Doe and Jane Dee have the same colour %v", a)
	}
	if got := colourOf(hashOf("John Doe")); got != (Color{0x82, 0xaf, 0x3c}) {
		t.Errorf("John Doe's colour has changed to %v: raise the version", got)
	}
	seen := map[Color]bool{}
	for i := range 2000 {
		seen[colourOf(hashOf(strings.Repeat("x", i%60)+string(rune('a'+i/60))))] = true
	}
	if len(seen) != len(colours) {
		t.Errorf("2000 names have %d colours of %d", len(seen), len(colours))
	}
}

func TestParseColor(t *testing.T) {
	for text, want := range map[string]Color{
		"1e7e7e": {0x1e, 0x7e, 0x7e}, "#1E7E7E": {0x1e, 0x7e, 0x7e}, "abc": {0xaa, 0xbb, 0xcc},
		"abcf": {0xaa, 0xbb, 0xcc}, "1e7e7e80": {0x1e, 0x7e, 0x7e},
	} {
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
