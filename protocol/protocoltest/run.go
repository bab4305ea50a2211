package protocoltest

import (
	"testing"

	"github.com/isogloss-gateway/isogloss/protocol"
)

// Run holds a codec to the laws of its own protocol, with the cases of a folder.
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

// suite is one case of one codec.
type suite struct {
	codec protocol.Translator
	c     *Case
}

// run reports whether the case had anything to run.
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
