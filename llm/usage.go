package llm

// Usage holds the token counts of a response. The counts do not overlap, so each has
// its own price and they can be added up. A nil *Usage means that the upstream
// reported no usage, which is different from zero.
type Usage struct {
	Input      int64 // input that was neither read from nor written to a cache
	CacheRead  int64 // read from the provider's prompt cache
	CacheWrite int64 // written to the provider's prompt cache
	Output     int64 // visible output
	Reasoning  int64 // output spent on reasoning
}

// Add returns the sum of two usages.
func (u Usage) Add(other Usage) Usage {
	return Usage{
		Input: u.Input + other.Input, CacheRead: u.CacheRead + other.CacheRead, CacheWrite: u.CacheWrite + other.CacheWrite,
		Output: u.Output + other.Output, Reasoning: u.Reasoning + other.Reasoning,
	}
}

// Sub returns the difference of two usages.
func (u Usage) Sub(other Usage) Usage {
	return u.Add(Usage{
		Input: -other.Input, CacheRead: -other.CacheRead, CacheWrite: -other.CacheWrite,
		Output: -other.Output, Reasoning: -other.Reasoning,
	})
}

// TotalInput returns the number of all input tokens.
func (u *Usage) TotalInput() int64 { return u.Input + u.CacheRead + u.CacheWrite }

// TotalOutput returns the number of all output tokens.
func (u *Usage) TotalOutput() int64 { return u.Output + u.Reasoning }
