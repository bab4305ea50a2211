package fleet

import (
	"context"

	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Overloaded returns the error of a request that gets no slot or no memory.
func Overloaded(why *limit.Refusal) *llm.Error {
	e := &llm.Error{Kind: llm.Overloaded, Code: "overloaded_" + why.Reason, Message: why.Error(), RetryAfter: why.RetryAfter}
	switch why.Reason {
	case limit.Cancelled:
		return &llm.Error{Kind: llm.Cancelled, Message: "the client disconnected", Cause: context.Canceled}
	case limit.Key:
		e.Kind, e.Code = llm.RateLimit, "concurrency_limit"
	case limit.TooLarge:
		e.Kind, e.Code = llm.TooLarge, ""
	}
	return e
}
