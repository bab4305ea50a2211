package llm

import "slices"

// Unit describes a unit of usage: what is counted, how it is priced and summed, and its names. All code that counts,
// prices, stores or shows usage loops over Units.
type Unit struct {
	Name   string // in prices, metrics, events, exports and the API
	Key    string // in maps and tables of stored records
	Label  string // for people
	Parent string // name of the unit whose amount includes it; empty: none
	Total  Total  // to which its amount is added
	Piece  bool   // priced by the piece; otherwise by the million
}

// Total is a total of a Usage to which the amounts of units are added.
type Total int

// The totals.
const (
	NoTotal Total = iota // of a unit that is not counted in tokens, or that its parent includes
	InputTotal
	OutputTotal
)

// fieldUnits are the units that are fields of Usage, in the order of the fields.
var fieldUnits = [...]Unit{
	{Name: "input", Key: "input", Label: "Input", Total: InputTotal},
	{Name: "cache_read", Key: "cache_read", Label: "Cache read", Total: InputTotal},
	{Name: "cache_write", Key: "cache_write", Label: "Cache write", Total: InputTotal},
	{Name: "output", Key: "output", Label: "Output", Total: OutputTotal},
	{Name: "reasoning", Key: "reasoning", Label: "Reasoning", Total: OutputTotal},
}

// otherUnits are the units without a field of their own. A new unit is a row at the end. Names and keys stay.
var otherUnits = [...]Unit{
	CacheWrite1h - FieldCount: {Name: "cache_write_1h", Key: "cw1h", Label: "Cache write for an hour", Parent: "cache_write"},
}

// Indexes in Units of the units without a field.
const (
	CacheWrite1h = FieldCount + iota // written to the provider's prompt cache for an hour instead of minutes
)

// FieldCount is the number of units that are fields of Usage. OtherCount is the number of the others, whose amounts
// are in Usage.Other. UnitCount is the number of all.
const (
	FieldCount = len(fieldUnits)
	OtherCount = len(otherUnits) + len(taggedUnits)
	UnitCount  = FieldCount + OtherCount
)

var (
	units   = slices.Concat(fieldUnits[:], otherUnits[:], taggedUnits[:])
	parents = parentsOf(units)
)

// Units returns all units: first those that are fields of Usage, then those of Usage.Other, in the order of its
// elements. The caller must not change them.
func Units() []Unit { return units }

// OtherUnits returns the units that are not fields of Usage. The caller must not change them.
func OtherUnits() []Unit { return units[FieldCount:] }

// ParentOf returns the index of a unit's parent in Units, or -1.
func ParentOf(unit int) int { return parents[unit] }

func parentsOf(units []Unit) (list [UnitCount]int) {
	for i := range units {
		list[i] = slices.IndexFunc(units, func(u Unit) bool { return u.Name == units[i].Parent })
	}
	return list
}

// TotalOf returns the total of a unit, or of the unit that includes it.
func TotalOf(unit int) Total {
	for parents[unit] >= 0 {
		unit = parents[unit]
	}
	return units[unit].Total
}

// Amounts are the amounts of the units that have no field of their own, in the order of Units.
type Amounts [OtherCount]int64
