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
	"github.com/isogloss-gateway/isogloss/internal/request/capture"
)

// dialects maps the gateway's protocols to the names in the corpus.
func dialects() map[string]conform.Dialect {
	return map[string]conform.Dialect{"openai-chat": conform.Chat, "openai-responses": conform.Responses, "anthropic": conform.Anthropic, "gemini": conform.Gemini}
}

// Reasons why an exchange cannot become a case.
var (
	errJoined = errors.New("its response came from several upstreams")
	errLeft   = errors.New("the client disconnected before the end of the response")
)

// recorded converts an exchange to the format of the corpus.
func recorded(x *capture.Exchange) (record.Exchange, error) {
	e := record.Exchange{Client: dialects()[x.Client], Upstream: dialects()[x.Upstream], Stream: x.Stream, ClientModel: x.Model, UpstreamModel: x.Model,
		Path: x.Path, Header: x.RequestHeader, Configured: len(x.Settings) > 0, Request: x.RequestBody,
		ClientResponse: record.Response{Status: x.Status, Header: x.ResponseHeader, Body: x.ResponseBody}}
	switch {
	case x.Continued:
		return e, errJoined
	case x.Error == "cancelled" || x.Status == 0:
		return e, errLeft
	case e.Client == "" || e.Upstream == "":
		return e, fmt.Errorf("the corpus has no name for %s on %s", x.Client, x.Upstream)
	}
	if x.Answered < 0 && len(x.Attempts) > 0 {
		x.Answered = len(x.Attempts) - 1
	}
	if x.Answered >= 0 {
		t := x.Attempts[x.Answered]
		e.UpstreamModel, e.UpstreamRequest = t.Model, t.RequestBody
		e.UpstreamResponse = record.Response{Status: t.Status, Header: t.ResponseHeader, Body: t.ResponseBody, Broken: t.Truncated}
	}
	e.ClientResponse.Broken = x.Error != "" && !x.Stream && x.Status == http.StatusOK
	e.Comment = remarks(x)
	return e, nil
}

// product matches the program and version in a User-Agent.
var product = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,31}/v?[0-9][0-9A-Za-z.+-]{0,31}`)

// remarks describes the exchange for readers, without its content.
func remarks(x *capture.Exchange) []string {
	lines := []string{fmt.Sprintf("isogloss %s, %s, request %s", name(x.Version), x.Time.UTC().Format(time.RFC3339), name(x.ID))}
	if agent := product.FindString(x.RequestHeader.Get("User-Agent")); agent != "" {
		lines = append(lines, "client: "+agent)
	}
	line := "route " + name(x.Route)
	if x.Answered >= 0 {
		line += ", target " + name(x.Attempts[x.Answered].Target)
	}
	lines = append(lines, line)
	for i, t := range x.Attempts {
		if i != x.Answered {
			lines = append(lines, fmt.Sprintf("another attempt: %s, status %d", name(t.Target), t.Status))
		}
	}
	if len(x.Settings) > 0 {
		lines = append(lines, "depends on the configuration: "+strings.Join(x.Settings, ", "))
	}
	return lines
}

// nameForm matches names that are safe to write. With a wildcard route the client
// chooses the target's name.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9._:/@*+-]{1,128}$`)

func name(s string) string {
	if nameForm.MatchString(s) {
		return s
	}
	return conform.Mask(s)
}

// fileOf returns the file name of an exchange.
func fileOf(x *capture.Exchange, e record.Exchange) string {
	mode := "whole"
	if e.Stream {
		mode = "stream"
	}
	id := strings.Map(func(r rune) rune { // chosen by the client
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, x.ID)
	id = id[:min(len(id), 8)]
	return fmt.Sprintf("%s-%s-on-%s-%s-%s.txtar", x.Time.UTC().Format("20060102-150405"), e.Client, e.Upstream, mode, id)
}
