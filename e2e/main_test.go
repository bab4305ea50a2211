package main

import (
	"io"
	"strings"
	"testing"
)

// TestCount holds that a parent counts only where it fails by itself, and that a test
// that was skipped has failed.
func TestCount(t *testing.T) {
	for _, c := range []struct {
		name, lines string
		want        count
	}{
		{"one", `{"Action":"pass","Test":"TestA"}`, count{1, 0}},
		{"subtests", `{"Action":"pass","Test":"TestA/b"}
{"Action":"pass","Test":"TestA/c"}
{"Action":"pass","Test":"TestA"}
{"Action":"pass"}`, count{2, 0}},
		{"a subtest fails", `{"Action":"fail","Test":"TestA/b/d"}
{"Action":"fail","Test":"TestA/b"}
{"Action":"pass","Test":"TestA/c"}
{"Action":"fail","Test":"TestA"}`, count{1, 1}},
		{"the parent fails", `{"Action":"pass","Test":"TestA/b"}
{"Action":"fail","Test":"TestA"}`, count{1, 1}},
		{"skipped", `{"Action":"skip","Test":"TestA"}`, count{0, 1}},
		{"nothing", `{"Action":"pass"}`, count{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := read(strings.NewReader(c.lines), io.Discard)
			if err != nil || got != c.want {
				t.Errorf("counted %v (%v), want %v", got, err, c.want)
			}
		})
	}
}
