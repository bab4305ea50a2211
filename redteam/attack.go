package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// attack is one attempt to make the gateway do what it must not do.
type attack struct {
	name string // class/subject/variant
	// known names the open weakness because of which the attack succeeds. Such an attack is
	// reported as open and does not fail the run.
	known string
	// unproven says why the weak gateway cannot show that the oracles fail.
	unproven string
	do       func(context.Context, *rig) *evidence
	holds    []oracle
}

// evidence is what is known after an attack.
type evidence struct {
	sent     string // the bytes, or what was done
	got      string // all bytes that came back
	answers  int    // number of responses in them
	status   int    // of the first response, 0 without one
	header   http.Header
	body     string
	upstream []seen   // requests that the upstream received
	note     string   // a measurement
	problems []string // found during the attack
	figures  int      // number of problems that are a time or an amount of memory
	failed   bool     // the attack could not be made
}

// notMade is the evidence of an attack that could not be made.
func notMade(err error) *evidence {
	return &evidence{problems: []string{"the attack could not be made: " + err.Error()}, failed: true}
}

// problem adds a problem if the condition holds.
func (e *evidence) problem(wrong bool, format string, args ...any) {
	if wrong {
		e.problems = append(e.problems, fmt.Sprintf(format, args...))
	}
}

// figure adds a problem if a time or an amount of memory is above its limit.
func (e *evidence) figure(above bool, format string, args ...any) {
	e.problem(above, format, args...)
	if above {
		e.figures++
	}
}

// oracle judges the evidence. It returns the problem, or "".
type oracle func(*rig, *evidence) string

// run makes the attack. If nothing but figures is above a limit, it makes it once more,
// because other processes disturb figures, and the second result counts.
func (a *attack) run(ctx context.Context, r *rig) *evidence {
	e := a.once(ctx, r)
	if e.figures == 0 || e.figures < len(e.problems) || r.weak {
		return e
	}
	first := strings.Join(e.problems, "; ")
	e = a.once(ctx, r)
	e.note += " (the first time: " + first + ")"
	return e
}

// once makes the attack and asks the oracles, and those that hold for every attack.
func (a *attack) once(ctx context.Context, r *rig) (e *evidence) {
	if p := lives(r, nil); p != "" {
		return notMade(errors.New(p))
	}
	if err := testrig.Run(func() { e = a.do(ctx, r) }); err != nil {
		return notMade(err)
	}
	for _, o := range append(slices.Clone(a.holds), lives, keepsSecrets) {
		if p := o(r, e); p != "" {
			e.problems = append(e.problems, p)
		}
	}
	return e
}

// lives fails if the process has ended or a handler has panicked.
func lives(r *rig, _ *evidence) string {
	if r.gateway == nil {
		return ""
	}
	if err := r.gateway.Alive(); err != nil {
		return err.Error()
	}
	return ""
}

// keepsSecrets fails if the response has a secret of the operator.
func keepsSecrets(r *rig, e *evidence) string { return r.findSecrets("the response", e.got) }

// refuses returns an oracle: the request is refused with one of the statuses (or any 4xx
// without statuses), and nothing reaches the upstream.
func refuses(statuses ...int) oracle {
	return func(_ *rig, e *evidence) string {
		ok := slices.Contains(statuses, e.status) || len(statuses) == 0 && e.status >= 400 && e.status < 500
		switch {
		case e.status == 0:
			return "no response"
		case !ok && len(statuses) == 0:
			return fmt.Sprintf("status %d, want 4xx", e.status)
		case !ok:
			return fmt.Sprintf("status %d, want one of %v", e.status, statuses)
		case len(e.upstream) > 0:
			return fmt.Sprintf("it was refused, but the upstream received %s", e.upstream[0])
		}
		return ""
	}
}

// forwardsNothing fails if a request reached the upstream.
func forwardsNothing(_ *rig, e *evidence) string {
	if len(e.upstream) > 0 {
		return "the upstream received " + e.upstream[0].String()
	}
	return ""
}

// serves returns an oracle: the response has one of the statuses.
func serves(statuses ...int) oracle {
	return func(_ *rig, e *evidence) string {
		return testrig.Unless(slices.Contains(statuses, e.status), "status %d, want one of %v", e.status, statuses)
	}
}

// errorOf returns an oracle: the body is an error of the dialect that its clients can read.
func errorOf(d testrig.Dialect) oracle {
	return func(_ *rig, e *evidence) string {
		if e.status == http.StatusOK || e.status == 0 {
			return ""
		}
		o := d.Read(testrig.Response{Status: e.status, Header: e.header, Body: []byte(e.body)}, false)
		return testrig.When(o.Error == "", "clients of %s cannot read the error: %s", d, o.Invalid)
	}
}

// once fails if there is more than one response: the gateway read a second request.
func once(_ *rig, e *evidence) string {
	return testrig.When(e.answers > 1, "%d responses came back, want one and the end of the connection", e.answers)
}

// lacks returns an oracle: nothing that came back has the text.
func lacks(texts ...string) oracle {
	return func(_ *rig, e *evidence) string {
		for _, t := range texts {
			if strings.Contains(e.got, t) {
				return fmt.Sprintf("the response has %q", testrig.Clip(t, 80))
			}
		}
		return ""
	}
}
