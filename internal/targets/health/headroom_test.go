package health

import (
	"net/http"
	"reflect"
	"testing"
	"time"
)

func TestHeadroom(t *testing.T) {
	l := newLab(t)
	x := l.Target("x", "", "")
	if got := x.headrooms(); got != nil {
		t.Errorf("a new target has %v", got)
	}
	for name, c := range map[string]struct {
		header http.Header
		want   []Headroom
	}{
		"the usual names": {http.Header{"X-Ratelimit-Limit-Requests": {"60"}, "X-Ratelimit-Remaining-Requests": {"59"}, "X-Ratelimit-Remaining-Tokens": {"149984"}},
			[]Headroom{{"requests", 59, 60}, {"tokens", 149984, 0}}},
		"a vendor's prefix": {http.Header{"Vendor-Ratelimit-Requests-Limit": {"50"}, "Vendor-Ratelimit-Requests-Remaining": {"0"},
			"Vendor-Ratelimit-Input-Tokens-Remaining": {"1"}, "Vendor-Ratelimit-Tokens-Remaining": {"7"}, "Vendor-Ratelimit-Tokens-Limit": {"8"}},
			[]Headroom{{"requests", 0, 50}, {"tokens", 7, 8}}},
		"nonsense changes nothing": {http.Header{"X-Ratelimit-Remaining-Requests": {"-1"}, "X-Ratelimit-Remaining-Tokens": {"many"}}, nil},
	} {
		if c.want == nil {
			c.want = x.headrooms()
		}
		x.Learn(c.header)
		if got := x.headrooms(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	l.pass(time.Hour)
	if got := x.headrooms(); got != nil {
		t.Errorf("after an hour the headroom is still %v", got)
	}
}
