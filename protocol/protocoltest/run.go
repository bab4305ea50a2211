package protocoltest

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// Run tests a codec with the cases in a folder against the rules of its own protocol.
func Run(t *testing.T, c protocol.Translator, dir string) {
	t.Helper()
	for _, tc := range Cases(t, dir) {
		t.Run(tc.Name, func(t *testing.T) {
			s := suite{codec: c, c: tc}
			if !s.run(t) {
				t.Error("the case has neither request.json nor upstream.json nor upstream.sse")
			}
			tc.save(t)
		})
	}
	t.Run("errors", func(t *testing.T) { errorLaws(t, c) })
}

// suite runs one case for one codec.
type suite struct {
	codec protocol.Translator
	c     *Case
}

// run reports whether the case contains something to test.
func (s suite) run(t *testing.T) bool {
	t.Helper()
	any := false
	for _, step := range []struct {
		section string
		run     func(*testing.T)
	}{{"request.json", s.request}, {"upstream.json", s.whole}, {"upstream.sse", s.stream}} {
		if _, ok := s.c.Section(step.section); ok {
			any = true
			step.run(t)
		}
	}
	return any
}
