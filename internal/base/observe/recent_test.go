package observe

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestRecentLines checks that the last lines of the log are kept, whole and in order, and no more than the limit.
func TestRecentLines(t *testing.T) {
	var log bytes.Buffer
	x, err := New(Options{Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	served := func() string {
		w := httptest.NewRecorder()
		x.Recent().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/log", nil))
		return w.Body.String()
	}
	for lines, i := 0, 0; lines < 3; i++ { // the buffer is filled three times
		x.Logger().Info("a line", "number", i, "rest", strings.Repeat("x", i%200))
		got := served()
		if !strings.HasSuffix(log.String(), got) || got == "" || !strings.HasPrefix(got, `{"time":`) || !strings.Contains(got, fmt.Sprintf(`"number":%d,`, i)) || len(got) > maxRecent {
			t.Fatalf("after %d lines: %d bytes, from %.60q", i+1, len(got), got)
		}
		lines = log.Len() / maxRecent
		if i > 200 { // each further look reads a quarter of a megabyte
			for range 300 {
				x.Logger().Info("a line", "number", -1)
			}
		}
	}
	x.recent.keep(bytes.Repeat([]byte("y"), 3*maxRecent)) // longer than what is kept
	x.recent.keep([]byte("\nlast\n"))
	if got := served(); got != "last\n" {
		t.Errorf("after a line without end: %.60q", got)
	}
}
