package llm

// Usage holds the amounts that a response has used, mostly numbers of tokens. The counts of the fields do not overlap,
// so each has its own price and they can be added up. A nil *Usage means that the upstream
// reported no usage, which is different from zero.
type Usage struct {
	Input      int64   // input that was neither read from nor written to a cache
	CacheRead  int64   // read from the provider's prompt cache
	CacheWrite int64   // written to the provider's prompt cache
	Output     int64   // visible output
	Reasoning  int64   // output spent on reasoning
	Other      Amounts // of the units without a field; that of a part is also in its parent's
}

// At returns the amount of a unit, by its index in Units.
func (u *Usage) At(unit int) *int64 {
	switch unit {
	case 0:
		return &u.Input
	case 1:
		return &u.CacheRead
	case 2:
		return &u.CacheWrite
	case 3:
		return &u.Output
	case 4:
		return &u.Reasoning
	}
	return &u.Other[unit-FieldCount]
}

// Add returns the sum of two usages.
func (u Usage) Add(other Usage) Usage {
	for i := range UnitCount {
		*u.At(i) += *other.At(i)
	}
	return u
}

// Sub returns the difference of two usages.
func (u Usage) Sub(other Usage) Usage {
	for i := range UnitCount {
		*u.At(i) -= *other.At(i)
	}
	return u
}

// Of returns the amounts of the units of one total, with those that they include.
func (u Usage) Of(t Total) (part Usage) {
	for i := range UnitCount {
		if TotalOf(i) == t {
			*part.At(i) = *u.At(i)
		}
	}
	return part
}

// TotalInput returns the number of all input tokens.
func (u *Usage) TotalInput() int64 { return u.Input + u.CacheRead + u.CacheWrite }

// TotalOutput returns the number of all output tokens.
func (u *Usage) TotalOutput() int64 { return u.Output + u.Reasoning }
