package usage

import (
	"fmt"

	"github.com/isogloss-gateway/isogloss/llm"
)

// Name returns the name of a unit by which people and other programs know it.
func Name(u *llm.Unit) string { return u.Name }

// Key returns the key of a unit in stored records.
func Key(u *llm.Unit) string { return u.Key }

// MapOf returns the values of units that are not zero, by name or key; nil if there are none, as of most requests.
func MapOf[T ~int64](values [llm.OtherCount]T, by func(*llm.Unit) string) (m map[string]T) {
	units := llm.OtherUnits()
	for i, v := range values {
		if v != 0 {
			if m == nil {
				m = make(map[string]T, len(values))
			}
			m[by(&units[i])] = v
		}
	}
	return m
}

// FromMap returns the values of a map of MapOf. It ignores units of a newer release.
func FromMap[T ~int64](m map[string]T, by func(*llm.Unit) string) (values [llm.OtherCount]T) {
	if len(m) > 0 {
		units := llm.OtherUnits()
		for i := range values {
			values[i] = m[by(&units[i])]
		}
	}
	return values
}

// Text returns the rate of a unit in dollars: per million, or per piece if the unit is priced by the piece.
func (r Rate) Text(u *llm.Unit) string {
	if u.Piece {
		return Money(r / million).Decimal()
	}
	return r.String()
}

// OtherPrices returns the rates of the units without a field that are not the default, by name.
func (r *Rates) OtherPrices() (m map[string]Rate) {
	for i, u := range llm.OtherUnits() {
		if r.Other[i] != 0 {
			if m == nil {
				m = make(map[string]Rate, llm.OtherCount)
			}
			m[u.Name] = r.Of(llm.FieldCount + i)
		}
	}
	return m
}

// SetOtherPrices sets the rates of a map of OtherPrices. It ignores units of a newer release.
func (r *Rates) SetOtherPrices(m map[string]Rate) {
	if len(m) == 0 {
		return
	}
	for i, u := range llm.OtherUnits() {
		if rate, ok := m[u.Name]; ok {
			r.Set(i, rate)
		}
	}
}

// units sets the given rates of the units without a field.
func (t Tariff) units(p *Price) (wrong []error) {
	r, known := p.rates(), 0
	for i, u := range llm.OtherUnits() {
		text, given := t.Units[u.Name]
		if !given {
			continue
		}
		known++
		parse := ParseRate
		if u.Piece {
			parse = parsePiece
		}
		rate, err := parse(text)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", u.Name, err))
		}
		r.Set(i, rate)
	}
	if known < len(t.Units) {
		wrong = append(wrong, fmt.Errorf("units: one of %v is not known", t.Units))
	}
	p.Other = r.Other
	return wrong
}

// parsePiece parses dollars for a piece.
func parsePiece(dollars string) (Rate, error) {
	r, err := ParseRate(dollars)
	if err != nil {
		return 0, err
	}
	m, err := Money(r).Mul(million)
	return Rate(m), err
}
