// Package amounts has the forms of requests, sums of them, usage and prices in the admin API.
package amounts

import (
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Tokens counts tokens in disjoint classes, and other units.
type Tokens struct {
	Input      int64 `json:"input"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	Output     int64 `json:"output"`
	Reasoning  int64 `json:"reasoning"`

	Units []UnitView `json:"units,omitempty" doc:"Amounts of other units. Absent: there are none."`
}

// UnitView is the amount of a unit.
type UnitView struct {
	Unit   string `json:"unit" doc:"Name of the unit, as in prices."`
	Label  string `json:"label" doc:"Name for people."`
	Within string `json:"within,omitempty" doc:"The member or unit that includes the amount. Absent: none."`
	Amount int64  `json:"amount"`
}

// TokensOf returns the form of a usage.
func TokensOf(u llm.Usage) Tokens {
	v := Tokens{Input: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Output: u.Output, Reasoning: u.Reasoning}
	for i, unit := range llm.OtherUnits() {
		if n := u.Other[i]; n != 0 {
			v.Units = append(v.Units, UnitView{unit.Name, unit.Label, unit.Parent, n})
		}
	}
	return v
}

// PricesView are the prices with which a cost was computed.
type PricesView struct {
	Input      string `json:"input" doc:"Dollars for a million tokens, like the others."`
	CacheRead  string `json:"cache_read"`
	CacheWrite string `json:"cache_write"`
	Output     string `json:"output"`
	Reasoning  string `json:"reasoning"`
	Request    string `json:"request" doc:"Dollars for the request."`

	Units []UnitPriceView `json:"units,omitempty" doc:"Prices of other units that the attempt has. Absent: they have none of their own."`
}

// UnitPriceView is the price of a unit.
type UnitPriceView struct {
	Unit  string `json:"unit" doc:"Name of the unit."`
	Label string `json:"label" doc:"Name for people."`
	Price string `json:"price" doc:"Dollars for a million or for a piece."`
	Per   string `json:"per" enum:"million,piece"`
}

// PricesOf returns the form of rates, or nil if they are not known or all zero.
func PricesOf(r *usage.Rates) *PricesView {
	if *r == (usage.Rates{}) {
		return nil
	}
	v := PricesView{Input: r.Input.String(), CacheRead: r.CacheRead.String(), CacheWrite: r.CacheWrite.String(), Output: r.Output.String(), Reasoning: r.Reasoning.String(), Request: r.Request.Decimal()}
	for i, u := range llm.OtherUnits() {
		if r.Other[i] == 0 {
			continue
		}
		per := "million"
		if u.Piece {
			per = "piece"
		}
		v.Units = append(v.Units, UnitPriceView{u.Name, u.Label, r.Of(llm.FieldCount + i).Text(&u), per})
	}
	return &v
}
