package codec

import "slices"

// efforts lists the levels of reasoning effort in ascending order, with the smallest
// budget of tokens that each stands for.
var efforts = []struct {
	name string
	from int64
}{{"none", 0}, {"minimal", 1}, {"low", 1024}, {"medium", 4096}, {"high", 12288}, {"xhigh", 24576}, {"max", 49152}}

// Efforts returns the levels of reasoning effort in ascending order.
func Efforts() []string {
	names := make([]string, len(efforts))
	for i, e := range efforts {
		names[i] = e.name
	}
	return names
}

// EffortOfBudget returns the level of effort of a budget of reasoning tokens.
func EffortOfBudget(budget int64) string {
	name := efforts[0].name
	for _, e := range efforts {
		if budget >= e.from {
			name = e.name
		}
	}
	return name
}

// NearestEffort returns the level among known that is nearest to effort, the lower one
// of two. It returns effort itself if it is not a level or if known is empty.
func NearestEffort(effort string, known []string) string {
	nearest, distance := effort, len(efforts)
	at := -1
	for i, e := range efforts {
		if e.name == effort {
			at = i
		}
	}
	if at < 0 {
		return effort
	}
	for i, e := range efforts {
		if d := max(i-at, at-i); d < distance && slices.Contains(known, e.name) {
			nearest, distance = e.name, d
		}
	}
	return nearest
}
