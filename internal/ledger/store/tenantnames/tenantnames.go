// Package tenantnames has the queries for the names of organisations and teams.
package tenantnames

import (
	"context"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
)

// ID is the id of an organisation, or of a team of it.
type ID struct{ Org, Team string }

// Read returns the names of organisations and teams. Those that do not exist are left out.
func Read(ctx context.Context, c db.Conn, ids []ID) (map[ID]string, error) {
	texts := make([]string, 0, 3*len(ids))
	for _, id := range ids {
		texts = append(texts, id.Org)
		if id.Team != "" { // the primary key finds org and id, and both together are one of the list
			texts = append(texts, id.Team, id.Org+"/"+id.Team)
		}
	}
	list, err := json.Marshal(texts)
	if err != nil {
		return nil, err
	}
	names := make(map[ID]string, len(ids))
	err = c.Rows(ctx, func(row db.Scan) error {
		var id ID
		var name string
		err := row(&id.Org, &id.Team, &name)
		names[id] = name
		return err
	}, `SELECT id, '', substr(name, 1, 256) FROM orgs WHERE id IN (`+c.List()+`)
		UNION ALL SELECT org, id, substr(name, 1, 256) FROM teams
		WHERE org IN (`+c.List()+`) AND id IN (`+c.List()+`) AND org || '/' || id IN (`+c.List()+`)`, string(list))
	return names, err
}

// Bounds of what Find returns.
const (
	maxFound = 1000
	maxNames = 10_000
)

// Find returns the organisation with an id, or else those with a name, or of the organisation of the filter its teams. If
// there are none, it returns ids and names that the filter selects.
func Find(ctx context.Context, c db.Conn, f Filter, idOrName string) (found, others []string, err error) {
	for _, column := range []string{"id = ", "name = "} {
		table, w := f.where()
		w.Add(column, idOrName)
		if err := read(ctx, c, table, w, maxFound, func(id, _ string) { found = append(found, id) }); err != nil || len(found) > 0 {
			return found, nil, err
		}
	}
	table, w := f.where()
	err = read(ctx, c, table, w, maxNames, func(id, name string) {
		others = append(others, id)
		if name != "" && name != id {
			others = append(others, name)
		}
	})
	return nil, others, err
}

// Filter selects organisations, or the teams of one.
type Filter struct {
	Only    string // the only organisation; empty: all
	TeamsOf string // organisation of teams; empty: organisations
}

func (f Filter) where() (table string, w *db.Where) {
	w = new(db.Where)
	if f.TeamsOf != "" {
		w.Add("org = ", f.TeamsOf)
		return "teams", w
	}
	w.Add("id <> ", "") // operators of the whole gateway are of this one
	w.AddIf(f.Only != "", "id = ", f.Only)
	return "orgs", w
}

func read(ctx context.Context, c db.Conn, table string, w *db.Where, limit int64, each func(id, name string)) error {
	return c.Rows(ctx, func(row db.Scan) error {
		var id, name string
		err := row(&id, &name)
		each(id, name)
		return err
	}, `SELECT substr(id, 1, 256), substr(name, 1, 256) FROM `+table+w.Text()+` ORDER BY id LIMIT `+w.Arg(limit), w.Args...)
}
