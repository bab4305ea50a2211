package llm

// Usage counts the tokens of one answer in classes that do not overlap, so that
// each can be priced and summed on its own. A nil *Usage means that nothing was
// reported, which is not the same as zero.
type Usage struct {
	Input      int64 // read anew: neither from a cache nor into one
	CacheRead  int64 // read from the provider's prompt cache
	CacheWrite int64 // written to the provider's prompt cache
	Output     int64 // visible output
	Reasoning  int64 // output spent on reasoning
}

// TotalInput is everything the model read.
func (u *Usage) TotalInput() int64 { return u.Input + u.CacheRead + u.CacheWrite }

// TotalOutput is everything the model wrote.
func (u *Usage) TotalOutput() int64 { return u.Output + u.Reasoning }
