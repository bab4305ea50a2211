package settings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/base/similar"
)

// Problem is one error in the file.
type Problem struct {
	Line   int    // 0: the whole file
	Path   string // such as providers.x.base_url
	Source string // the variable or flag that set the value; empty: the file
	Text   string // the problem and what to write
}

// Problems is the list of all errors in the file, in the order of its lines.
type Problems struct {
	List []Problem
	file string
}

// Error returns one line per problem: FILE:LINE: path: what is wrong; what to write. A
// variable or a flag replaces file, line and path.
func (ps *Problems) Error() string {
	lines := make([]string, len(ps.List))
	for i, p := range ps.List {
		lines[i] = ps.place(p) + p.Text
	}
	return strings.Join(lines, "\n")
}

// place returns where a problem is, as the start of its line.
func (ps *Problems) place(p Problem) string {
	if p.Source != "" {
		return p.Source + ": "
	}
	var b strings.Builder
	if ps.file != "" {
		b.WriteString(ps.file)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	return b.String()
}

func (ps *Problems) any() bool { return len(ps.List) > 0 }

// err returns the sorted list as an error, or nil if it is empty.
func (ps *Problems) err() error {
	if !ps.any() {
		return nil
	}
	slices.SortStableFunc(ps.List, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return ps
}

// add records a problem with a node. Further problems with the same node are ignored.
func (ps *Problems) add(n *Node, format string, args ...any) {
	if n == nil {
		ps.List = append(ps.List, Problem{Text: fmt.Sprintf(format, args...)})
		return
	}
	if n.reported {
		return
	}
	n.reported = true
	ps.List = append(ps.List, Problem{Line: n.Line, Path: n.Path(), Source: n.Source, Text: fmt.Sprintf(format, args...)})
}

// addMissing records a problem with a key that the file does not set, below a node that may be nil.
func (ps *Problems) addMissing(n *Node, key, format string, args ...any) {
	p := Problem{Path: key, Text: fmt.Sprintf(format, args...)}
	if n != nil {
		p.Line, p.Path = n.Line, join(n.Path(), key)
	}
	ps.List = append(ps.List, p)
}

// Instead suggests what to write for an unknown word.
func Instead(word string, known []string) string {
	if best := similar.Name(word, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(known) == 0 {
		return "none is known"
	}
	return "known are " + strings.Join(known, ", ")
}
