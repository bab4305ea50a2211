package conform

import "slices"

// limits lists what a dialect cannot express. The zero value is a dialect that can
// express everything.
type limits struct {
	// Requests and responses:

	noRefusal bool // a refusal is text, and the stop reason of a response
	noSeals   bool // reasoning and calls have no signature

	// Requests:

	defaultMax     string // the output limit if the request has none
	noFormatName   bool   // a schema has no name
	noStop         bool   // there are no stop sequences
	noSerial       bool   // parallel calls cannot be forbidden
	noReasoning    bool   // the history has no reasoning
	noResultImages bool   // a tool result has no images
	noFailed       bool   // a tool result cannot be marked as failed
	noMidSystem    bool   // system text after the first turn is text of the user
	noDeveloper    bool   // there is no role developer
	noCache        bool   // there are no cache marks
	noTopK         bool
	noSeed         bool // nor penalties
	noChoices      bool // a request has one response
	noUser         bool // there is no id of the end user
	noNone         bool // calls cannot be forbidden while there are tools

	// Responses:

	callsLast   bool // text and reasoning precede all calls
	sealsAfter  bool // the signature of reasoning is on the piece after it
	noMatch     bool // a stop sequence cannot be told from the end
	noCacheMade bool // tokens written to the cache are not counted

	noMatched     bool // which stop sequence was hit is not told
	noThinkTokens bool // reasoning is not counted on its own
}

// fitRequest returns the request without what the dialect cannot express.
func (l limits) fitRequest(r Request) Request {
	if r.Max == "" {
		r.Max = l.defaultMax
	}
	if l.noFormatName && r.Format != nil {
		r.Format = &Format{Schema: r.Format.Schema, Strict: r.Format.Strict}
	}
	if l.noStop {
		r.Stop = nil
	}
	r.Serial = r.Serial && !l.noSerial
	if l.noNone && r.Choice == "none" {
		r.Choice = ""
	}
	l.fitSampling(&r)
	if l.noCache {
		r.Tools = slices.Clone(r.Tools)
		for i := range r.Tools {
			r.Tools[i].Cache = false
		}
	}
	r.Turns = mapTurns(r.Turns, func(_ string, p *Piece) bool {
		l.fitPiece(p)
		if l.noResultImages {
			p.Images = nil
		}
		p.Failed = p.Failed && !l.noFailed
		p.Cache = p.Cache && !l.noCache
		return p.Kind != kindThink || !l.noReasoning
	})
	inConversation := false
	for i, t := range r.Turns {
		r.Turns[i].Developer = t.Developer && !l.noDeveloper
		if t.Role == "system" && inConversation && l.noMidSystem {
			r.Turns[i].Role = "user"
		}
		inConversation = inConversation || t.Role != "system"
	}
	return r
}

func (l limits) fitSampling(r *Request) {
	if l.noTopK {
		r.TopK = ""
	}
	if l.noSeed {
		r.Seed, r.Frequency, r.Presence = "", "", ""
	}
	if l.noChoices {
		r.Choices = ""
	}
	if l.noUser {
		r.User = ""
	}
}

// fitPiece removes from a piece what the dialect cannot express in any direction.
func (l limits) fitPiece(p *Piece) {
	if l.noRefusal && p.Kind == kindRefusal {
		p.Kind = kindText
	}
	if l.noSeals {
		p.Sig = ""
	}
}

// fitResponse returns the response without what the dialect cannot express.
func (l limits) fitResponse(r Response) Response {
	if l.noRefusal && r.has(kindRefusal) {
		r.Stop = "filter"
	}
	r.Pieces = slices.Clone(r.Pieces)
	for i := range r.Pieces {
		p := &r.Pieces[i]
		l.fitPiece(p)
		if l.sealsAfter && p.Kind == kindThink && p.Sig != "" && i+1 < len(r.Pieces) {
			r.Pieces[i+1].Sig, p.Sig = p.Sig, ""
		}
	}
	r.Pieces = slices.DeleteFunc(r.Pieces, func(p Piece) bool { return p.Redacted && p.Sig == "" })
	if l.noChoices {
		r.others = nil
	}
	if l.callsLast {
		slices.SortStableFunc(r.Pieces, func(a, b Piece) int { return isCall(a) - isCall(b) })
	}
	if l.noMatch && r.Stop == "sequence" {
		r.Stop, r.Match = "end", ""
	}
	if l.noMatched {
		r.Match = ""
	}
	if r.Usage != nil && (l.noCacheMade || l.noThinkTokens) {
		u := *r.Usage
		if l.noCacheMade {
			u.Written = 0
		}
		if l.noThinkTokens {
			u.Think = 0
		}
		r.Usage = &u
	}
	return r
}

func isCall(p Piece) int {
	if p.Kind == kindCall {
		return 1
	}
	return 0
}
