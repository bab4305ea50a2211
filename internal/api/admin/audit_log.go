package admin

import (
	"context"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

// auditLogName names the audit log in error messages.
const auditLogName = "the audit log"

type listAuditIn struct {
	page
	Org    string `query:"org" maxLength:"128" doc:"Only of this organisation."`
	Actor  string `query:"actor" maxLength:"64" doc:"Only of this operator, by key id."`
	Action string `query:"action" maxLength:"64" doc:"Only this operation, such as create-key."`
}

type entryList struct {
	Entries []entryView `json:"entries"`
	Next    string      `json:"next,omitempty" doc:"The after of the next page. Absent: this is the last."`
}

// entryView is an entry of the audit log.
type entryView struct {
	N       int64     `json:"n" doc:"Number of the entry, from 1 without gaps."`
	Time    time.Time `json:"time"`
	Actor   string    `json:"actor,omitempty" doc:"Id of the operator's key. Absent: not known."`
	Address string    `json:"address" doc:"Address of the operator."`
	Action  string    `json:"action" doc:"The operation."`
	Object  string    `json:"object"`
	Org     string    `json:"org,omitempty"`
	Outcome string    `json:"outcome" doc:"allowed: the change was about to be made. failed: it was allowed and failed. denied: it was not allowed."`
	Code    string    `json:"code,omitempty" doc:"Error code of a failure or denial."`
	Detail  string    `json:"detail,omitempty" doc:"What else is known, such as the filter of a capture, or the id and the model of a request that was run."`
	Before  string    `json:"before,omitempty" doc:"SHA-256 of the object before, as JSON."`
	After   string    `json:"after,omitempty" doc:"SHA-256 of the object after."`
	Hash    string    `json:"hash" doc:"Hash of the entry and the previous entry's hash."`
}

func viewEntry(e store.Entry) entryView {
	outcome, code, _ := strings.Cut(e.Detail, ": ")
	detail := ""
	switch outcome {
	case failed, denied:
	case allowed:
		code, detail = "", code
	default: // a sign-in or a capture
		outcome, code, detail = allowed, "", e.Detail
	}
	return entryView{
		N: e.N, Time: e.At, Actor: e.Actor, Address: e.Address, Action: e.Action, Object: e.Object, Org: e.Org,
		Outcome: outcome, Code: code, Detail: detail, Before: e.Before, After: e.After, Hash: hex.EncodeToString(e.Hash[:]),
	}
}

func (s *server) listAudit(ctx context.Context, c *call, in *listAuditIn) (*entryList, error) {
	org, err := c.orgFilter(in.Org)
	if err != nil {
		return nil, err
	}
	var before int64
	if in.After != "" {
		if before, err = strconv.ParseInt(in.After, 10, 64); err != nil || before < 1 {
			return nil, invalid("query.after", "after is not the next of a page; leave it out to start with the newest")
		}
	}
	entries, err := s.Audit.AuditLog(ctx, store.AuditQuery{Org: org, Actor: in.Actor, Action: in.Action, Before: before, Limit: in.Limit})
	if err != nil {
		return nil, unavailable(auditLogName, err)
	}
	out := entryList{}
	for _, e := range entries {
		out.Entries = append(out.Entries, viewEntry(e))
	}
	if len(entries) == in.Limit {
		out.Next = strconv.FormatInt(entries[len(entries)-1].N, 10)
	}
	return new(out), nil
}

type verdictView struct {
	Whole   bool  `json:"whole" doc:"No entry was changed or removed."`
	Entries int64 `json:"entries" doc:"Number of valid entries from the first on."`
	Broken  int64 `json:"broken,omitzero" doc:"Number of the first invalid or missing entry."`
}

func (s *server) verifyAudit(ctx context.Context, _ *call, _ *noInput) (*verdictView, error) {
	v, err := s.Audit.VerifyAudit(ctx)
	if err != nil {
		return nil, unavailable(auditLogName, err)
	}
	return new(verdictView{Whole: v.Broken == 0, Entries: v.Entries, Broken: v.Broken}), nil
}
