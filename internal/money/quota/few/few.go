// Package few has a list that is usually short.
package few

// List is a list of a fixed length. Up to three values need no allocation. A copy shares the
// values after the third.
type List[T any] struct {
	first [3]T
	more  []T
}

// Of returns a list of n values.
func Of[T any](n int) (l List[T]) {
	if n > len(l.first) {
		l.more = make([]T, n-len(l.first))
	}
	return l
}

// At returns a pointer to the value with an index.
func (l *List[T]) At(i int) *T {
	if i < len(l.first) {
		return &l.first[i]
	}
	return &l.more[i-len(l.first)]
}
