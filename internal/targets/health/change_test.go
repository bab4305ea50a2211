package health

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// withChanges returns a lab whose changes are recorded.
func withChanges(t *testing.T) (*lab, func() string) {
	l := newLab(t)
	var log []string
	l.changed = func(c Change) {
		switch {
		case c.Ready:
			log = append(log, c.ID+" back after "+c.Outage.String())
		case c.Until.IsZero():
			log = append(log, c.ID+" "+c.Reason)
		default:
			log = append(log, c.ID+" "+c.Reason+" for "+c.Until.Sub(l.at).String()+" because of "+c.Error)
		}
	}
	return l, func() string {
		text := strings.Join(log, "; ")
		log = nil
		return text
	}
}

func wantChanges(t *testing.T, when string, changes func() string, want string) {
	t.Helper()
	if got := changes(); got != want {
		t.Errorf("%s: reported %q, want %q", when, got, want)
	}
}

func TestEjectionIsReportedOnce(t *testing.T) {
	l, changes := withChanges(t)
	x := l.Target("x", "", "")
	for range 20 {
		x.Failed(Failure{Kind: Server, Reason: "HTTP 503"})
	}
	wantChanges(t, "20 failures", changes, "x ejected for 30s because of HTTP 503")
	x.Succeeded(0)
	wantChanges(t, "a success during the ejection", changes, "")
	l.pass(31 * time.Second)
	x.Failed(Failure{Kind: Server, Reason: "HTTP 503"})
	wantChanges(t, "a failure after the ejection", changes, "")
	x.Succeeded(0)
	wantChanges(t, "a success after the ejection", changes, "x back after 31s")
	x.Succeeded(0)
	wantChanges(t, "another success", changes, "")
}

func TestCredentialIsReportedOnce(t *testing.T) {
	l, changes := withChanges(t)
	x := l.Target("x", "", "")
	for range 5 {
		x.Failed(Failure{Kind: Credential, Reason: "HTTP 401"})
	}
	wantChanges(t, "five refusals", changes, "x credential refused for 1m0s because of HTTP 401")
	l.pass(time.Minute)
	x.Begin()
	x.Failed(Failure{Kind: Credential, Reason: "HTTP 401"})
	wantChanges(t, "a failed probe", changes, "x credential refused for 2m0s because of HTTP 401")
	l.pass(2 * time.Minute)
	x.Begin()
	x.Succeeded(0)
	wantChanges(t, "a successful probe", changes, "x back after 3m0s")
}

// TestRepeatedCoolDown checks that the log is not filled by a target that reaches its rate
// limit every second, and that a long cool-down among short ones is reported.
func TestRepeatedCoolDown(t *testing.T) {
	l, changes := withChanges(t)
	x := l.Target("x", "", "")
	limited := func(seconds string) {
		x.Failed(Failure{Kind: Limited, Header: http.Header{"Retry-After": {seconds}}, Reason: "HTTP 429"})
	}
	for range 29 {
		limited("1")
		limited("1") // another request that was in flight
		l.pass(time.Second)
		x.Succeeded(0)
	}
	wantChanges(t, "29 cool-downs of a second", changes, "x cooling down for 1s because of HTTP 429; x back after 1s")
	limited("300")
	wantChanges(t, "a long cool-down", changes, "x cooling down for 5m0s because of HTTP 429")
	limited("400")
	wantChanges(t, "a longer one", changes, "x cooling down for 6m40s because of HTTP 429")
	limited("410")
	wantChanges(t, "one that is a little longer", changes, "")
}

func TestCheckIsReported(t *testing.T) {
	l, changes := withChanges(t)
	x := l.Target("x", "", "")
	c := Check{Unhealthy: 2, Healthy: 1}
	for row := range 5 {
		x.conclude(t.Context(), c, -row, l.now())
	}
	wantChanges(t, "failed checks", changes, "x check failed")
	l.pass(time.Second)
	for row := range 3 {
		x.conclude(t.Context(), c, row, l.now())
	}
	wantChanges(t, "passed checks", changes, "x back after 1s")
	x.Failed(Failure{Kind: Credential})
	changes()
	x.conclude(t.Context(), c, 1, l.now())
	wantChanges(t, "a passed check while the credential is refused", changes, "")
}
