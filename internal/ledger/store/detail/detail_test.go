package detail

import (
	"flag"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/filled"
)

var update = flag.Bool("update", false, "rewrite the recorded columns")

// TestBytesStay compares the column of some rows with that of the first release, and reads it again.
func TestBytesStay(t *testing.T) {
	full := filled.New[usage.Row]()
	full.Agent, full.User = `a<b>&"c`+"\u2028\n\x01é\x7f", "é"
	rows := []usage.Row{full, {}, {Began: full.Began, Attempts: []usage.Attempt{{}, {Target: "a/b", Began: full.Began.Add(time.Second), Cost: new(usage.Money)}}}}
	var got string
	for i := range rows {
		got += Encode(&rows[i]) + "\n"
	}
	const path = "testdata/detail.json"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("the columns are\n%swant\n%s%v", got, want, err)
	}
	for _, r := range []usage.Row{full, {Began: full.Began}} {
		back := usage.Row{Began: r.Began}
		if err := Decode(&back, Encode(&r)); err != nil {
			t.Fatal(err)
		}
		if a, b := Encode(&back), Encode(&r); a != b || !reflect.DeepEqual(back.Attempts, r.Attempts) {
			t.Errorf("the column is read as\n%s, want\n%s", a, b)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	row := filled.New[usage.Row]()
	b.ReportAllocs()
	for b.Loop() {
		_ = Encode(&row)
	}
}

func BenchmarkDecode(b *testing.B) {
	row := filled.New[usage.Row]()
	text := Encode(&row)
	b.ReportAllocs()
	for b.Loop() {
		var back usage.Row
		if err := Decode(&back, text); err != nil {
			b.Fatal(err)
		}
	}
}
