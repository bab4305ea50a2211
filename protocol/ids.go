package protocol

// UniqueIDs holds the ids of a conversation, so that every call gets one of its own.
type UniqueIDs map[string]int

// Add returns the first of name(1), name(2) and so on that is not in use, and adds it.
func (u UniqueIDs) Add(name func(n int) string) string {
	first := name(1)
	free := first
	for n := max(u[first], 1) + 1; u[free] > 0; n++ { // u[first] is the last number that was tried
		free, u[first] = name(n), n
	}
	u[free] = max(u[free], 1)
	return free
}
