package scim

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// where reads the filter of a request. columns has the column of each attribute.
func (r *request) where(columns map[string]string) (w db.Where, err error) {
	text := r.URL.Query().Get("filter")
	if text == "" {
		return w, nil
	}
	terms, err := parseFilter(text)
	if err != nil {
		return w, err
	}
	for _, t := range terms {
		column := columns[t.attribute]
		switch column {
		case "":
			return w, invalid(invalidFilter, "the filter names an attribute that cannot be searched")
		case "user_name", "name":
			w.Add(column+" = ", strings.ToLower(t.value))
		case "active":
			w.Add("active = ", strings.EqualFold(t.value, "true"))
		case "member":
			w.Conditions = append(w.Conditions, "id IN (SELECT group_id FROM scim_members WHERE user_id = "+w.Arg(t.value)+")")
		default:
			w.Add(column+" = ", t.value)
		}
	}
	return w, nil
}

// readUsers returns a page of users and the number of all.
func readUsers(ctx context.Context, c db.Conn, d directory, w db.Where, p page) (out []*user, total int, err error) {
	w.Conditions = append(w.Conditions[:len(w.Conditions):len(w.Conditions)], "deleted = 0")
	return readPage[user](ctx, c, "scim_users", d, w, p)
}

// readPage returns a page of resources and the number of all.
func readPage[T any](ctx context.Context, c db.Conn, table string, d directory, w db.Where, p page) (out []*T, total int, err error) {
	w.Add("issuer = ", d.issuer)
	w.Add("org = ", d.org)
	from := ` FROM ` + table + w.Text()
	if err := c.Row(ctx, `SELECT count(*)`+from, w.Args...)(&total); err != nil {
		return nil, 0, err
	}
	err = c.Rows(ctx, func(scan db.Scan) error {
		one, err := readData[T](scan)
		out = append(out, one)
		return err
	}, `SELECT data`+from+` ORDER BY id LIMIT `+strconv.Itoa(p.count)+` OFFSET `+strconv.Itoa(p.start-1), w.Args...)
	return out, total, err
}

// readData reads a resource from the column data.
func readData[T any](scan db.Scan) (*T, error) {
	var text string
	if err := scan(&text); err != nil {
		if errors.Is(err, sql.ErrNoRows) {
			return nil, errMissing
		}
		return nil, err
	}
	one := new(T)
	return one, json.Unmarshal([]byte(text), one)
}

func readUser(ctx context.Context, c db.Conn, d directory, id string) (*user, error) {
	return readData[user](c.Row(ctx, `SELECT data FROM scim_users WHERE id = $1 AND issuer = $2 AND org = $3 AND deleted = 0`, id, d.issuer, d.org))
}

func insertUser(ctx context.Context, c db.Conn, d directory, u *user) error {
	var count int
	if err := c.Row(ctx, `SELECT count(*) FROM scim_users WHERE issuer = $1 AND org = $2 AND deleted = 0`, d.issuer, d.org)(&count); err != nil {
		return err
	}
	if count >= maxUsers {
		return full("a directory may have %d users", maxUsers)
	}
	text, err := json.Marshal(u)
	if err != nil {
		return err
	}
	err = c.Exec(ctx, `INSERT INTO scim_users (id, issuer, org, user_name, external_id, active, deleted, data) VALUES ($1, $2, $3, $4, $5, $6, 0, $7)`,
		u.ID, d.issuer, d.org, strings.ToLower(u.UserName), u.ExternalID, u.Active, string(text))
	if err != nil {
		return err
	}
	return nameUser(ctx, c, d, u)
}

func updateUser(ctx context.Context, c db.Conn, d directory, u *user) error {
	text, err := json.Marshal(u)
	if err != nil {
		return err
	}
	err = c.Exec(ctx, `UPDATE scim_users SET user_name = $2, external_id = $3, active = $4, data = $5 WHERE id = $1`,
		u.ID, strings.ToLower(u.UserName), u.ExternalID, u.Active, string(text))
	if err != nil {
		return err
	}
	return nameUser(ctx, c, d, u)
}

// maxNames is how many names a user may have had.
const maxNames = 1000

// nameUser gives a user its names. Earlier names stay: a token with one of them may still be valid, and
// would admit a removed person if its name were forgotten. So a user cannot be renamed without end.
// A name that another user had moves.
func nameUser(ctx context.Context, c db.Conn, d directory, u *user) error {
	now, known := time.Now().UnixNano(), 0
	if err := c.Row(ctx, `SELECT count(*) FROM scim_names WHERE user_id = $1`, u.ID)(&known); err != nil {
		return err
	}
	for _, n := range []string{access.SCIMName(d.issuer, access.ExternalID, u.ExternalID), access.SCIMName(d.issuer, access.UserName, u.UserName)} {
		if n == "" {
			continue
		}
		if known >= maxNames {
			if mine := 0; c.Row(ctx, `SELECT count(*) FROM scim_names WHERE user_id = $1 AND name = $2`, u.ID, n)(&mine) == nil && mine > 0 {
				continue
			}
			if !u.Active { // a removal must not fail
				continue
			}
			return full("a user may have had %d names", maxNames)
		}
		err := c.Exec(ctx, `INSERT INTO scim_names (name, org, user_id, given) VALUES ($1, $2, $3, $4)
			ON CONFLICT (name, org) DO UPDATE SET user_id = excluded.user_id, given = excluded.given`, n, d.org, u.ID, now)
		if err != nil {
			return err
		}
	}
	return nil
}

// removeUser deletes a user except for its names, which keep the person out. Only the names of the
// last maxUsers deleted users are kept.
func removeUser(ctx context.Context, c db.Conn, d directory, id string) error {
	if _, err := readUser(ctx, c, d, id); err != nil {
		return err
	}
	err := c.Exec(ctx, `UPDATE scim_users SET user_name = '', external_id = '', data = '', active = FALSE, deleted = $2 WHERE id = $1`, id, time.Now().UnixNano())
	if err != nil {
		return err
	}
	if err := c.Exec(ctx, `DELETE FROM scim_members WHERE user_id = $1`, id); err != nil {
		return err
	}
	oldest := `(SELECT id FROM scim_users WHERE issuer = $1 AND org = $2 AND deleted > 0 ORDER BY deleted DESC LIMIT 100 OFFSET ` + strconv.Itoa(maxUsers) + `)`
	for _, statement := range []string{`DELETE FROM scim_names WHERE user_id IN ` + oldest, `DELETE FROM scim_users WHERE id IN ` + oldest} {
		if err := c.Exec(ctx, statement, d.issuer, d.org); err != nil {
			return err
		}
	}
	return nil
}
