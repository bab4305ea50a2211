package admin

import (
	"context"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/store"
)

// auditLog is what errors call it.
const auditLog = "the audit log"

type listAuditIn struct {
	Page
	Org    string `query:"org" maxLength:"64" doc:"Only what belongs to an organisation."`
	Actor  string `query:"actor" maxLength:"64" doc:"Only what an operator did, by the id of the key."`
	Action string `query:"action" maxLength:"64" doc:"Only one operation, such as create-key."`
}

type entryList struct {
	Entries []entryView `json:"entries" nullable:"false"`
	Next    string      `json:"next,omitempty" doc:"The after of the next page. Absent: this is the last."`
}

// entryView is one entry of the audit log.
type entryView struct {
	N       int64     `json:"n" doc:"Its number, from 1 without gaps."`
	Time    time.Time `json:"time"`
	Actor   string    `json:"actor,omitempty" doc:"The id of the operator's key. Absent: it was not known."`
	Address string    `json:"address" doc:"Where the operator called from."`
	Action  string    `json:"action" doc:"The operation."`
	Object  string    `json:"object"`
	Org     string    `json:"org,omitempty"`
	Outcome string    `json:"outcome" doc:"allowed: it was about to be done. failed: it could not be done after all. denied: it was not allowed."`
	Code    string    `json:"code,omitempty" doc:"Why it failed or was denied."`
	Before  string    `json:"before,omitempty" doc:"SHA-256 of the object before, as JSON."`
	After   string    `json:"after,omitempty" doc:"SHA-256 of the object after."`
	Hash    string    `json:"hash" doc:"Of the entry and the hash of the one before it."`
}

func viewEntry(e store.Entry) entryView {
	outcome, code, _ := strings.Cut(e.Detail, ": ")
	return entryView{
		N: e.N, Time: e.At, Actor: e.Actor, Address: e.Address, Action: e.Action, Object: e.Object, Org: e.Org,
		Outcome: outcome, Code: code, Before: e.Before, After: e.After, Hash: hex.EncodeToString(e.Hash[:]),
	}
}

func (s *server) listAudit(ctx context.Context, c *call, in *listAuditIn) (*answer[entryList], error) {
	org, err := c.org(in.Org)
	if err != nil {
		return nil, err
	}
	var before int64
	if in.After != "" {
		if before, err = strconv.ParseInt(in.After, 10, 64); err != nil || before < 1 {
			return nil, invalid("query.after", "it is not the next of a page; leave it out to begin with the newest")
		}
	}
	entries, err := s.Audit.AuditLog(ctx, store.AuditQuery{Org: org, Actor: in.Actor, Action: in.Action, Before: before, Limit: in.Limit})
	if err != nil {
		return nil, unavailable(auditLog, err)
	}
	out := entryList{}
	for _, e := range entries {
		out.Entries = append(out.Entries, viewEntry(e))
	}
	if len(entries) == in.Limit {
		out.Next = strconv.FormatInt(entries[len(entries)-1].N, 10)
	}
	return answered(out), nil
}

type verdictView struct {
	Whole   bool  `json:"whole" doc:"No entry was changed or removed."`
	Entries int64 `json:"entries" doc:"How many are right, from the first on."`
	Broken  int64 `json:"broken,omitzero" doc:"The number of the first that is wrong or missing."`
}

func (s *server) verifyAudit(ctx context.Context, _ *call, _ *nothing) (*answer[verdictView], error) {
	v, err := s.Audit.VerifyAudit(ctx)
	if err != nil {
		return nil, unavailable(auditLog, err)
	}
	return answered(verdictView{Whole: v.Broken == 0, Entries: v.Entries, Broken: v.Broken}), nil
}
