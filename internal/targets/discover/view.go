package discover

import (
	"cmp"
	"slices"
	"strings"
)

// view is the sorted list of published workers. Each change creates a new list, because
// the old one is in use.
type view struct {
	list   []Worker
	models map[string]string // model of each id in the list, to find its position
}

func byModel(a, b Worker) int {
	return cmp.Or(strings.Compare(a.Model, b.Model), strings.Compare(a.ID, b.ID))
}

// edit is one difference between two lists.
type edit struct {
	Worker
	gone bool
}

// apply creates the next list. lookup returns the published worker of an id. It returns
// false if nothing has changed. It copies the list once and searches once for each
// change.
func (v *view) apply(ids map[string]struct{}, lookup func(id string) (Worker, bool)) bool {
	edits := v.edits(ids, lookup)
	if len(edits) == 0 {
		return false // for example if many disappeared and all are kept
	}
	slices.SortFunc(edits, func(a, b edit) int { return byModel(a.Worker, b.Worker) })
	next, rest := make([]Worker, 0, len(v.list)+len(edits)), v.list
	for _, e := range edits {
		i, found := slices.BinarySearchFunc(rest, e.Worker, byModel)
		next = append(next, rest[:i]...)
		rest = rest[i:]
		if found {
			rest = rest[1:]
		}
		if !e.gone {
			next = append(next, e.Worker)
		}
	}
	next = append(next, rest...)
	v.list = next
	return true
}

// edits returns the differences and records the new positions.
func (v *view) edits(ids map[string]struct{}, lookup func(id string) (Worker, bool)) []edit {
	var edits []edit
	for id := range ids {
		model, known := v.models[id]
		w, there := lookup(id)
		if known && there && w.Model == model {
			if i, found := slices.BinarySearchFunc(v.list, w, byModel); found && v.list[i] == w {
				continue
			}
		}
		if known && (!there || w.Model != model) {
			edits = append(edits, edit{Worker{ID: id, Model: model}, true})
			delete(v.models, id)
		}
		if there {
			edits = append(edits, edit{w, false})
			v.models[id] = w.Model
		}
	}
	return edits
}
