// Package detail is the part of a row of the ledger that no query selects by, as JSON.
package detail

import (
	"encoding/json"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/llm"
)

// detail is the part of a row that no query selects by, as the JSON of its column. Names are short,
// because every row has them. Names never change their meaning. Times are nanoseconds after the row
// began.
type detail struct {
	Queue      int64            `json:"q,omitempty"`
	FirstByte  int64            `json:"b,omitempty"`
	FirstToken int64            `json:"t,omitempty"`
	Agent      string           `json:"ua,omitempty"`
	Trace      string           `json:"tr,omitempty"`
	User       string           `json:"u,omitempty"`
	Tags       [][2]string      `json:"tags,omitempty"`
	Losses     [][2]string      `json:"loss,omitempty"`
	MoreLosses int              `json:"more,omitempty"`
	Attempts   []attemptDetail  `json:"a,omitempty"`
	Units      map[string]int64 `json:"n,omitempty"` // amounts of the units without a column, by key
	Told       []string         `json:"e,omitempty"` // the error that the client received: code, message, reason, remedy
}

type attemptDetail struct {
	Target     string                `json:"to"`
	Began      int64                 `json:"at,omitempty"`
	Took       int64                 `json:"d,omitempty"`
	Status     int                   `json:"s,omitempty"`
	Fault      string                `json:"f,omitempty"`
	Usage      []int64               `json:"n,omitempty"` // without zeros at its end, like Rates
	Cost       *usage.Money          `json:"$,omitempty"`
	Charged    bool                  `json:"c,omitempty"`
	Connect    int64                 `json:"k,omitempty"`
	FirstByte  int64                 `json:"b,omitempty"`
	FirstToken int64                 `json:"t,omitempty"`
	Rates      []int64               `json:"r,omitempty"`
	Units      map[string]int64      `json:"un,omitempty"` // amounts of other units, by key, like OtherRates
	OtherRates map[string]usage.Rate `json:"ur,omitempty"` // of a part what it costs more than its parent
}

// Encode returns the column of a row.
func Encode(r *usage.Row) string {
	d := detail{Queue: int64(r.Queue), FirstByte: int64(r.FirstByte), FirstToken: int64(r.FirstToken), Agent: r.Agent, Trace: r.Trace, User: r.User, MoreLosses: r.MoreLosses,
		Units: usage.MapOf(r.Usage.Other, usage.Key)}
	if t := &r.Told; *t != (usage.Told{}) {
		d.Told = []string{t.Code, t.Message, string(t.Reason), t.Remedy}
	}
	for _, t := range r.Tags {
		d.Tags = append(d.Tags, [2]string{t.Key, t.Value})
	}
	for _, l := range r.Losses {
		d.Losses = append(d.Losses, [2]string{l.Code, l.Path})
	}
	if n := len(r.Attempts); n > 0 {
		d.Attempts = make([]attemptDetail, n)
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		u, p := &a.Usage, &a.Rates
		d.Attempts[i] = attemptDetail{Target: a.Target, Began: after(a.Began, r.Began), Took: int64(a.Took), Status: a.Status, Fault: a.Fault, Cost: a.Cost, Charged: a.Charged,
			Connect: int64(a.Connect), FirstByte: int64(a.FirstByte), FirstToken: int64(a.FirstToken),
			Usage: withoutZeros(u.Input, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning),
			Rates: withoutZeros(int64(p.Input), int64(p.CacheRead), int64(p.CacheWrite), int64(p.Output), int64(p.Reasoning), int64(p.Request)),
			Units: usage.MapOf(u.Other, usage.Key), OtherRates: usage.MapOf(p.Other, usage.Key)}
	}
	text, err := json.Marshal(&d)
	if err != nil { // it has no type that fails
		return "{}"
	}
	return string(text)
}

// after returns the nanoseconds between two times, 0 if one is missing.
func after(t, began time.Time) int64 {
	if t.Year() < 1970 || began.Year() < 1970 {
		return 0
	}
	return int64(t.Sub(began))
}

// withoutZeros returns a list without the zeros at its end.
func withoutZeros(list ...int64) []int64 {
	for len(list) > 0 && list[len(list)-1] == 0 {
		list = list[:len(list)-1]
	}
	return list
}

// Decode adds the column to a row.
func Decode(r *usage.Row, text string) error {
	var d detail
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return err
	}
	r.Queue, r.FirstByte, r.FirstToken = time.Duration(d.Queue), time.Duration(d.FirstByte), time.Duration(d.FirstToken)
	r.Agent, r.Trace, r.User, r.MoreLosses = d.Agent, d.Trace, d.User, d.MoreLosses
	r.Usage.Other = usage.FromMap(d.Units, usage.Key)
	if t := d.Told; len(t) == 4 {
		r.Told = usage.Told{Code: t[0], Message: t[1], Reason: usage.Reason(t[2]), Remedy: t[3]}
	}
	for _, t := range d.Tags {
		r.Tags = append(r.Tags, usage.Tag{Key: t[0], Value: t[1]})
	}
	for _, l := range d.Losses {
		r.Losses = append(r.Losses, usage.Loss{Code: l[0], Path: l[1]})
	}
	for i := range d.Attempts {
		r.Attempts = append(r.Attempts, d.Attempts[i].attempt(r.Began))
	}
	return nil
}

func (d *attemptDetail) attempt(began time.Time) usage.Attempt {
	var n [5]int64
	var p [6]int64
	copy(n[:], d.Usage)
	copy(p[:], d.Rates)
	return usage.Attempt{Target: d.Target, Began: began.Add(time.Duration(d.Began)), Took: time.Duration(d.Took), Status: d.Status, Fault: d.Fault, Cost: d.Cost, Charged: d.Charged,
		Usage: llm.Usage{Input: n[0], CacheRead: n[1], CacheWrite: n[2], Output: n[3], Reasoning: n[4], Other: usage.FromMap(d.Units, usage.Key)},
		Times: usage.Times{Connect: time.Duration(d.Connect), FirstByte: time.Duration(d.FirstByte), FirstToken: time.Duration(d.FirstToken)},
		Rates: usage.Rates{Input: usage.Rate(p[0]), CacheRead: usage.Rate(p[1]), CacheWrite: usage.Rate(p[2]), Output: usage.Rate(p[3]), Reasoning: usage.Rate(p[4]), Request: usage.Money(p[5]),
			Other: usage.FromMap(d.OtherRates, usage.Key)}}
}
