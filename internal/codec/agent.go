package codec

// Agent describes the endpoints beside inference that a vendor's own coding agent calls on a
// gateway. All of them take GET.
type Agent struct {
	SettingsPath string // the settings that the caller's organisation sets for its agent
	UsagePath    string // what the caller has spent

	// EncodeSettings writes a settings document with its id and checksum.
	EncodeSettings func(id, checksum string, settings []byte) []byte
	EncodeSpending func(Spending) []byte
}

// Spending is what a caller has spent, in billionths of a dollar.
type Spending struct {
	Budgets []Budget

	// Spent in the current day, week from Monday and month in UTC, if there are no budgets.
	Day, Week, Month int64
}

// Fullest returns the index of the budget of which the largest part is spent, -1 without
// budgets.
func (s *Spending) Fullest() int {
	fullest := -1
	for i := range s.Budgets {
		if fullest < 0 || s.Budgets[i].Used() > s.Budgets[fullest].Used() {
			fullest = i
		}
	}
	return fullest
}
