package relay

import "github.com/isogloss-gateway/isogloss/llm"

// admit lets the caller in or not.
func (r *Relay) admit(x *exchange) *llm.Error {
	caller, err := x.state.Keys.Check(x.client)
	x.caller = caller
	return err
}
