package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one mistake in the file.
type Problem struct {
	Line int    // 0 where the file as a whole is meant
	Path string // such as providers.x.base_url
	Text string // what is wrong; what to write
}

// Problems is every mistake that was found, in the order of the file's lines.
type Problems struct {
	List []Problem
	file string
}

// Error gives one line for each problem: FILE:LINE: path: what is wrong; what to
// write.
func (ps *Problems) Error() string {
	lines := make([]string, len(ps.List))
	for i, p := range ps.List {
		var b strings.Builder
		b.WriteString(ps.file)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
		if p.Path != "" {
			b.WriteString(p.Path + ": ")
		}
		b.WriteString(p.Text)
		lines[i] = b.String()
	}
	return strings.Join(lines, "\n")
}

func (ps *Problems) any() bool { return len(ps.List) > 0 }

// err is the list as an error, sorted, or nil where it is empty.
func (ps *Problems) err() error {
	if !ps.any() {
		return nil
	}
	slices.SortStableFunc(ps.List, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return ps
}

// add reports a problem with a node, the first one only.
func (ps *Problems) add(n *node, format string, args ...any) {
	if n == nil {
		ps.List = append(ps.List, Problem{Text: fmt.Sprintf(format, args...)})
		return
	}
	if n.reported {
		return
	}
	n.reported = true
	ps.List = append(ps.List, Problem{Line: n.line, Path: n.path(), Text: fmt.Sprintf(format, args...)})
}

// addKey reports a problem with a key of a struct, which the file may not have.
func (ps *Problems) addKey(a *at, key, format string, args ...any) {
	if c := a.node.child(key); c != nil {
		ps.add(c, format, args...)
		return
	}
	p := Problem{Path: key, Text: fmt.Sprintf(format, args...)}
	if a.node != nil {
		p.Line, p.Path = a.node.line, join(a.node.path(), key)
	}
	ps.List = append(ps.List, p)
}

// nearest is the known word that is most like the given one; empty where none is
// like it.
func nearest(word string, known []string) string {
	const maxWord = 64 // a longer word is no slip of the finger
	if len(word) > maxWord {
		return ""
	}
	best, least := "", min(max(2, len(word)/3)+1, len(word)) // at least one letter is shared
	for _, k := range known {
		if len(k) > maxWord {
			continue
		}
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance counts the letters to insert, delete or replace between two words
// (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
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

// instead says what to write for an unknown word.
func instead(word string, known []string) string {
	if best := nearest(word, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(known) == 0 {
		return "none is known"
	}
	return "known are " + strings.Join(known, ", ")
}
