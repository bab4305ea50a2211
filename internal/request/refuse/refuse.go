// Package refuse says which errors are refusals of the gateway, what the ledger may store of an error, and makes the note
// of a refused request.
package refuse

import (
	"strings"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/billing"
	"github.com/isogloss-gateway/isogloss/internal/money/refusals"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
	"github.com/isogloss-gateway/isogloss/internal/request/exchange"
	"github.com/isogloss-gateway/isogloss/internal/request/models"
	"github.com/isogloss-gateway/isogloss/internal/request/upstream"
	"github.com/isogloss-gateway/isogloss/llm"
)

// refusalCodes lists the errors with which the gateway refuses a request, by code, and what would have let it pass. Errors
// that are not listed, such as those of a malformed body, are no refusals.
var refusalCodes = map[string]struct {
	reason usage.Reason
	remedy string
}{
	"rate_limit_requests":    {usage.RefusedLimit, "a higher limit on requests of the account that the error names"},
	"rate_limit_tokens":      {usage.RefusedLimit, "a higher limit on tokens of the account that the error names, or a smaller request"},
	"rate_limit_concurrency": {usage.RefusedLimit, "a higher limit on open requests of the account that the error names, or the end of one of them"},
	"concurrency_limit":      {usage.RefusedLimit, "a higher limit on open requests of the key, or the end of one of them"},
	llm.BudgetExceeded:       {usage.RefusedBudget, "a higher budget of the account that the error names, or a request that costs less"},
	"price_unknown":          {usage.RefusedBudget, "a price of the target, under prices, or a key without a budget"},
	llm.ModelNotAllowed:      {usage.RefusedAccess, "the model in the models of the key"},
	"endpoint_not_allowed":   {usage.RefusedAccess, "the endpoint in the endpoints of the key"},
	models.UnknownModel:      {usage.RefusedAccess, "the name of a model of the gateway, or a model with this name"},
	"invalid_api_key":        {usage.RefusedKey, "the present secret of the key"},
	"too_many_wrong_keys":    {usage.RefusedKey, "the present secret of the key"},
	"expired_api_key":        {usage.RefusedKey, "the key's present secret, a later expiry, or a new key"},
	"revoked_api_key":        {usage.RefusedKey, "a new key: a revoked one stays revoked"},
	"revoked_account":        {usage.RefusedKey, "another account: a revoked one stays revoked"},
	"removed_account":        {usage.RefusedKey, "an assignment of the person to the gateway in the company's directory"},
	"blocked":                {usage.RefusedKey, "the team and the organisation of the key unblocked"},
	"address_not_allowed":    {usage.RefusedKey, "the client's network in the networks of the key"},
	"operator_key":           {usage.RefusedKey, "a client's key: this is an operator's"},
	"keys_unavailable":       {usage.RefusedOverload, "a store of keys that responds"},
	"ledger_full":            {usage.RefusedOverload, "space on the gateway's disk and in its spool, or store.disk_full: serve"},
	"overloaded_process":     {usage.RefusedOverload, "a higher limit of the gateway on open requests, or fewer of them"},
	"overloaded_target":      {usage.RefusedOverload, "another target of the model, or a higher limit of this one"},
	"overloaded_memory":      {usage.RefusedOverload, "more memory for the gateway, under overload.memory"},
	"overloaded_queue":       {usage.RefusedOverload, "a longer queue, or fewer requests that wait"},
	"no_worker":              {usage.RefusedTarget, "a worker that serves the model"},
	"unsupported_protocol":   {usage.RefusedTarget, "a target that has the endpoint"},
}

// refusedFidelity begins the value of the Isogloss-Fidelity header of a request that cannot be translated as it must be.
const refusedFidelity = "refused"

// Told returns the error that a client got, as far as the ledger may have it. tried says that an upstream was called, and
// fidelity is the value of the Isogloss-Fidelity header.
func Told(err *llm.Error, tried bool, fidelity string) (t usage.Told) {
	if err == nil {
		return t
	}
	t.Code = billing.FaultOf(err)
	if !tried {
		known := refusalCodes[err.Code]
		t.Reason, t.Remedy = known.reason, known.remedy
		if strings.HasPrefix(fidelity, refusedFidelity) {
			t.Reason, t.Remedy = usage.RefusedFidelity, "the request without the field, a target of the client's protocol, or, if the field may be dropped, the fidelity mode loose"
		}
		if t.Reason != "" && err.RetryAfter > 0 {
			t.Remedy += "; or the same request " + err.RetryAfter.Round(time.Second).String() + " later"
		}
	}
	if t.Reason != "" || ownText(err) {
		t.Message = err.Message
	}
	return t
}

// ownText reports whether the gateway itself has written the message of an error, from words of its own and of its
// configuration. Other messages may quote the prompt or the response.
func ownText(err *llm.Error) bool {
	if err.Relayed {
		return false
	}
	switch err.Kind {
	case llm.UpstreamAuth, llm.Timeout, llm.Overloaded, llm.Quota, llm.Internal:
		return true
	case llm.Upstream:
		switch err.Code {
		case upstream.CodeUnreachable, upstream.CodeSilent, upstream.CodeCredential, "upstream_no_answer", "upstream_truncated", "upstream_redirect", "upstream_status",
			"upstream_invalid_response", "upstream_too_large", "upstream_event_too_large", "loop_detected", llm.ModelMissing:
			return true
		}
	default:
	}
	return err.Code == "upstream_status"
}

// Note returns the note of a refused request; nil: it is none, or its key is not known. With a wrong secret it does the
// same for an existing key as for an unknown one.
func Note(told usage.Told, d *exchange.Delivery, c *access.Caller, status int, losses []llm.Loss) *refusals.Note {
	if told.Reason == "" || c.Key+c.Claimed == "" {
		return nil
	}
	now, x := time.Now(), d.Record
	row := usage.Row{ID: d.Call.ID, Key: c.Key, Team: c.Team, Org: c.Org, Began: x.Began(), Took: now.Sub(x.Began()), Endpoint: d.Call.Name, Dialect: string(d.Call.Dialect.Name),
		Model: x.Model, Stream: x.Stream, Status: status,
		Client: usage.Client{Person: c.Person, Agent: strings.Clone(usage.BoundAgent(d.Call.Client.UserAgent())), Trace: x.Trace()}}
	if row.Model == "" { // a part of the body would keep all of it
		row.Model = strings.Clone(exchange.Printable(x.Requested))
	}
	if told.Reason == usage.RefusedFidelity {
		row.Fidelity = refusedFidelity
		row.SetLosses(losses)
	}
	return &refusals.Note{At: now, Row: row, Told: told, Claimed: c.Claimed}
}
