package config

import (
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
	"github.com/isogloss-gateway/isogloss/internal/targets/provider"
)

// modelFile is one model name for clients.
type modelFile struct {
	settings.At
	// Targets, each `provider/model` or a mapping with a weight. If one fails before
	// the client has received anything, the gateway tries the next. If the model's
	// name ends in `*`, one `*` in a target stands for the rest of the name.
	Targets []targetFile `key:"targets" example:"[openai/gpt-6-luna]"`
	// Owner shown in model lists. The default is the first target's provider.
	OwnedBy string `key:"owned_by" example:"search-team"`
	// Order of the targets: order tries them as listed; weight picks at random by
	// weight; least-busy prefers the less busy of two; fastest prefers the faster of
	// two; cache prefers the target that probably has the conversation in its prompt
	// cache. The default is order, and weight if a target has a weight.
	Balance string `key:"balance" enum:"order,weight,least-busy,fastest,cache" example:"least-busy"`
	// Second attempt beside a slow first one. Off by default.
	Hedge hedgeFile `key:"hedge"`
	// Continue a stream that breaks off, if a target has a continuation. The default
	// is false: the stream ends with an error.
	Continue bool `key:"continue" example:"true"`
	// Time limits of a request for this model.
	Timeouts provider.Timeouts `key:"timeouts"`
	// Parameters of requests that do not set them.
	Defaults paramsFile `key:"defaults"`
	// Parameters that replace those of the client. A response whose request had
	// another value has the code model.override in Isogloss-Fidelity.
	Override paramsFile `key:"override"`
}

// targetFile is a target written as a mapping.
type targetFile struct {
	settings.At
	// The target, as provider/model.
	Target string `key:"target" example:"openai/gpt-6-luna"`
	// Weight among the targets of the model, 1 to 1000. The default is 1.
	Weight int `key:"weight" example:"2"`
}

// FromText lets a target be written as "provider/model" alone.
func (t *targetFile) FromText(text string) { t.Target = text }

// paramsFile is a set of parameters. Each is sent in the form that the upstream's
// protocol and model have for it, and left out if they have none.
type paramsFile struct {
	settings.At
	// How much the model reasons.
	Effort string `key:"effort" words:"efforts" example:"high"`
	// Sampling temperature, from 0 to 2.
	Temperature float64 `key:"temperature" minimum:"0" maximum:"2" example:"0.2"`
	// Share of the most probable tokens to sample from, from 0 to 1.
	TopP float64 `key:"top_p" minimum:"0" maximum:"1" example:"0.9"`
	// Output limit in tokens, including reasoning. The reservation of a budget
	// counts it.
	MaxTokens int `key:"max_tokens" example:"4096"`
	// Further top-level members of the request, in the protocol of the targets.
	// Members that the gateway acts on, such as model and messages, are refused.
	Body settings.Object `key:"body" example:"{service_tier: flex}"`
}

// hedgeFile is when to start a second attempt. The gateway uses the response that
// starts first and cancels the other.
type hedgeFile struct {
	settings.At
	// Delay of the second attempt, as a percentile of the first target's recent
	// times to first token. Setting it turns hedging on.
	Percentile float64 `key:"percentile" example:"95"`
	// Maximum share of requests, and of their bytes, that are sent twice. The
	// default is 0.05.
	Share float64 `key:"share" minimum:"0" maximum:"1" example:"0.02"`
}
