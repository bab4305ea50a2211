package main

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/conform"
	"github.com/isogloss-gateway/isogloss/conform/record"
	"github.com/isogloss-gateway/isogloss/internal/capture"
)

// dialects are the corpus's names for the gateway's protocols.
func dialects() map[string]conform.Dialect {
	return map[string]conform.Dialect{"openai-chat": conform.Chat, "openai-responses": conform.Responses, "anthropic": conform.Anthropic, "gemini": conform.Gemini}
}

// Why an exchange is no case.
var (
	errJoined = errors.New("its answer was put together from several upstreams")
	errLeft   = errors.New("the client left before the end of the answer")
)

// recorded is an exchange in the words of the corpus.
func recorded(x *capture.Exchange) (record.Exchange, error) {
	e := record.Exchange{Client: dialects()[x.Client], Upstream: dialects()[x.Upstream], Stream: x.Stream, Asked: x.Model, Given: x.Model,
		Path: x.Path, Header: x.Header, Configured: len(x.Special) > 0, Ask: x.Ask,
		Seen: record.Answer{Status: x.Status, Header: x.SeenHeader, Body: x.Seen}}
	switch {
	case x.Joined:
		return e, errJoined
	case x.Error == "cancelled" || x.Status == 0:
		return e, errLeft
	case e.Client == "" || e.Upstream == "":
		return e, fmt.Errorf("the corpus has no name for %s on %s", x.Client, x.Upstream)
	}
	if x.Taken < 0 && len(x.Tries) > 0 {
		x.Taken = len(x.Tries) - 1
	}
	if x.Taken >= 0 {
		t := x.Tries[x.Taken]
		e.Given, e.Heard = t.Model, t.Body
		e.Answer = record.Answer{Status: t.Status, Header: t.AnswerHeader, Body: t.Answer, Broken: t.Broken}
	}
	e.Seen.Broken = x.Error != "" && !x.Stream && x.Status == http.StatusOK
	e.Comment = remarks(x)
	return e, nil
}

// product is the part of a User-Agent that says which program it is.
var product = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,31}/v?[0-9][0-9A-Za-z.+-]{0,31}`)

// remarks are for people. They say nothing that was said.
func remarks(x *capture.Exchange) []string {
	lines := []string{fmt.Sprintf("isogloss %s, %s, request %s", name(x.Version), x.Time.UTC().Format(time.RFC3339), name(x.ID))}
	if agent := product.FindString(x.Header.Get("User-Agent")); agent != "" {
		lines = append(lines, "client: "+agent)
	}
	line := "route " + name(x.Route)
	if x.Taken >= 0 {
		line += ", target " + name(x.Tries[x.Taken].Target)
	}
	lines = append(lines, line)
	for i, t := range x.Tries {
		if i != x.Taken {
			lines = append(lines, fmt.Sprintf("another attempt: %s, status %d", name(t.Target), t.Status))
		}
	}
	if len(x.Special) > 0 {
		lines = append(lines, "depends on the configuration: "+strings.Join(x.Special, ", "))
	}
	return lines
}

// nameForm is what names look like. Where a route is a pattern, a target's name is of
// the client's choice.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9._:/@*+-]{1,128}$`)

func name(s string) string {
	if nameForm.MatchString(s) {
		return s
	}
	return conform.Mask(s)
}

// fileOf is a name that says what is in it.
func fileOf(x *capture.Exchange, e record.Exchange) string {
	mode := "whole"
	if e.Stream {
		mode = "stream"
	}
	id := strings.Map(func(r rune) rune { // it comes from somebody else
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, x.ID)
	id = id[:min(len(id), 8)]
	return fmt.Sprintf("%s-%s-on-%s-%s-%s.txtar", x.Time.UTC().Format("20060102-150405"), e.Client, e.Upstream, mode, id)
}
