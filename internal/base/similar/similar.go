// Package similar finds the known names that a mistyped name may stand for.
package similar

import (
	"cmp"
	"slices"
	"strings"
)

// maxLength is the length of the longest name that is compared. It bounds the work for a
// name that a client chooses.
const maxLength = 64

// Name returns the known name that is most similar to a word, or "" if none is similar.
func Name(word string, known []string) string {
	if found := Names(word, known, 1); len(found) > 0 {
		return found[0]
	}
	return ""
}

// Names returns up to n known names that are similar to a word, the most similar first.
func Names(word string, known []string, n int) []string {
	if len(word) > maxLength {
		return nil
	}
	type candidate struct {
		name     string
		distance int
	}
	least := min(max(2, len(word)/3)+1, len(word)) // at least one letter is shared
	word = strings.ToLower(word)
	var found []candidate
	for _, k := range known {
		if len(k) > maxLength || max(len(k)-len(word), len(word)-len(k)) >= least {
			continue
		}
		if d := distance(word, strings.ToLower(k)); d < least {
			found = append(found, candidate{k, d})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var names []string
	for _, c := range found[:min(n, len(found))] {
		names = append(names, c.name)
	}
	return names
}

// distance counts the letters to insert, delete or replace between two words
// (Levenshtein).
func distance(a, b string) int {
	var buf [maxLength + 1]int
	row := buf[:len(b)+1]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
