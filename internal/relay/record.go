package relay

import (
	"net/http"
	"runtime/debug"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
)

// record ends an exchange: it runs once, whatever happened, also after a panic.
func (r *Relay) record(x *exchange) {
	if fault := recover(); fault != nil {
		r.fail(x, &llm.Error{Kind: llm.Internal, Message: "the gateway made a mistake with this request; its log has the place"})
		r.observer.Logger().Error("panic", "id", x.seen.ID, "stack", string(debug.Stack()))
	}
	x.charge()
	x.remember()
	x.out.close()
	if x.tape != nil {
		x.endTape()
	}
	x.release()
	x.permit.Release()
	seen := x.summary()
	x.seen.Finish, x.seen.Usage, x.seen.ResponseModel = seen.Finish, seen.Usage, seen.Model
	x.seen.Fidelity = x.fidelity
	x.seen.BytesOut = x.out.written
	x.seen.End()
	if x.cut {
		panic(http.ErrAbortHandler) // the only way to tell the client that the body is not whole
	}
}

// summary is what was learned of the answer, in either lane.
func (x *exchange) summary() protocol.Summary {
	switch {
	case x.translation != nil:
		return x.translation.summary
	case x.tap != nil:
		return x.tap.Summary()
	}
	return protocol.Summary{}
}

// release lets go of the upstream and of the timers.
func (a *attempt) release() {
	if a.idle != nil {
		a.idle.Stop()
		a.total.Stop()
	}
	if a.busy {
		a.busy = false
		a.target.Live.End()
	}
	a.place.Release()
	if a.upstream != nil {
		_ = a.upstream.Body.Close() // nothing is read from it any more
	}
	a.stop(errReturned)
}

// stop gives the call up, if there is one.
func (a *attempt) stop(cause error) {
	if a.hangUp != nil {
		a.hangUp(cause)
	}
}
