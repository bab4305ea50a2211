package access

import (
	"hash/crc32"
	"strings"
	"testing"
)

func TestMintAndParse(t *testing.T) {
	seen := map[string]bool{}
	for _, env := range []string{EnvLive, EnvAdmin, "x", strings.Repeat("z", envMax)} {
		for range 200 {
			id, sec, text := Mint(env)
			gotID, gotSec, ok := Parse(text.Reveal())
			if !ok || gotID != id || gotSec != sec {
				t.Fatalf("%s: %v %q", env, ok, gotID)
			}
			if len(id) != 22 || len(sec) != 43 || len(text) != len("gw__")+len(env)+22+1+43+6 || seen[id] || seen[sec.Reveal()] {
				t.Fatalf("%s: id %q of %d, %d, %d", env, id, len(id), len(sec), len(text))
			}
			seen[id], seen[sec.Reveal()] = true, true
		}
	}
}

// TestChecksum compares the checksum with the library's CRC-32.
func TestChecksum(t *testing.T) {
	for _, s := range []string{"", "a", "gw_live_", strings.Repeat("z", 300)} {
		want := crc32.ChecksumIEEE([]byte(s))
		var got uint64
		for _, c := range checksum(s) {
			got = got*62 + uint64(strings.IndexByte(base62, c))
		}
		if got != uint64(want) {
			t.Errorf("%q: %d, want %d", s, got, want)
		}
	}
}

// TestMintIsUniform checks that all characters are equally likely. With 62 classes the statistic
// has a mean of 61; above 150 the probability is below one in a billion.
func TestMintIsUniform(t *testing.T) {
	var seen [256]int
	const n = 200_000
	for _, c := range []byte(random62(n)) {
		seen[c]++
	}
	var chi float64
	for _, c := range []byte(base62) {
		d := float64(seen[c]) - n/62.0
		chi += d * d / (n / 62.0)
	}
	if chi > 150 {
		t.Errorf("chi square is %.0f with 61 degrees of freedom", chi)
	}
}

func TestParseRefuses(t *testing.T) {
	_, _, minted := Mint(EnvLive)
	good := minted.Reveal()
	bad := map[string]string{
		"empty": "", "prefix alone": "gw_", "another prefix": "sk" + good[2:], "cut": good[:len(good)-1], "longer": good + "a",
		"no env": strings.Replace(good, "live", "", 1), "env in capitals": strings.Replace(good, "live", "LIVE", 1),
		"long env": strings.Replace(good, "live", strings.Repeat("a", 17), 1), "a space before": " " + good[1:],
		"another env": strings.Replace(good, "live", "test", 1), "separator": good[:30] + "-" + good[31:], "huge": strings.Repeat(good, 1000),
	}
	for i := range good { // change each character in turn
		c := byte('a')
		if good[i] == 'a' {
			c = 'b'
		}
		bad["byte "+string(rune('0'+i))] = good[:i] + string(c) + good[i+1:]
	}
	for name, text := range bad {
		if _, _, ok := Parse(text); ok {
			t.Errorf("%s was taken", name)
		}
	}
	junk := strings.Repeat("x", len(good))
	if n := testing.AllocsPerRun(100, func() { Parse(good); Parse(junk); Parse(good[:40]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, env := range []string{EnvLive, EnvAdmin} {
		_, _, text := Mint(env)
		f.Add(text.Reveal())
		f.Add(text.Reveal()[1:])
	}
	f.Add("")
	f.Add("gw__" + strings.Repeat("_", 72))
	f.Fuzz(func(t *testing.T, text string) {
		id, sec, ok := Parse(text)
		if !ok {
			return
		}
		if len(id) != idLen || len(sec) != secretLen {
			t.Fatalf("%d and %d characters", len(id), len(sec))
		}
		head, tail := text[:len(text)-sumLen], text[len(text)-sumLen:]
		if sum := checksum(head); string(sum[:]) != tail || !strings.HasSuffix(head, id+"_"+sec.Reveal()) {
			t.Fatal("taken, and not what was minted")
		}
	})
}

func BenchmarkParse(b *testing.B) {
	_, _, text := Mint(EnvLive)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, ok := Parse(text.Reveal()); !ok {
			b.Fatal("refused")
		}
	}
}
