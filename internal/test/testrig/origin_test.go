package testrig

import (
	"strings"
	"testing"
	"time"
)

func TestOriginLine(t *testing.T) {
	r := NewOrigin("make chaos")
	runs, err := ReadOrigins("# A page\n\n" + r.Line() + "\nmore")
	if err != nil || len(runs) != 1 {
		t.Fatalf("%v, %v: %s", runs, err, r.Line())
	}
	got := runs[0]
	if got.When.Format(time.DateOnly) != r.When.Format(time.DateOnly) || got.Commit != r.Commit || got.Machine != r.Machine || got.Command != r.Command {
		t.Errorf("%+v, want %+v", got, r)
	}
	if _, err := ReadOrigins("Run on Monday: `make chaos`\n"); err == nil {
		t.Error("a line without its parts is accepted")
	}
}

func TestOriginsOfAPage(t *testing.T) {
	day := func(d int, command string) Origin {
		return Origin{When: time.Date(2026, 11, d, 0, 0, 0, 0, time.UTC), Commit: "81d97f8c", Machine: "two cores", Command: command}
	}
	whole, one := day(1, "make cluster").Line(), day(2, "go run ./cluster --only r3").Line()
	page := whole + "\n" + one
	for _, c := range []struct {
		run      Origin
		complete bool
		want     string
	}{
		{day(3, "go run ./cluster --only r3"), false, whole + "\n" + day(3, "go run ./cluster --only r3").Line()},
		{day(3, "go run ./cluster --only r4"), false, page + "\n" + day(3, "go run ./cluster --only r4").Line()},
		{day(3, "make cluster"), true, day(3, "make cluster").Line()},
	} {
		got, err := MergeOrigins(page, c.run, c.complete)
		if err != nil || got != c.want {
			t.Errorf("%v: %v\n%s", c.run, err, got)
		}
	}
}

func TestRepeat(t *testing.T) {
	for args, want := range map[string]string{
		"--bin bin/isogloss --write docs/reliability.md": "make chaos",
		"--bin=bin/isogloss":                             "make chaos",
		"--bin x --only r15|r16 --write y":               "go run ./chaos --only 'r15|r16'",
		"--short":                                        "go run ./chaos --short",
	} {
		if got := Repeat("chaos", strings.Fields(args)); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}
