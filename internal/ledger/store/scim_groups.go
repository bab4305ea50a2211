package store

import (
	"context"
	"crypto/rand"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// groupMark begins the mark of a revision that has changed users or groups of SCIM.
const groupMark = "groups:"

// markGroups notes that a revision changes users or groups of SCIM. It replaces the mark of the revision:
// nodes may not update marks.
func markGroups(ctx context.Context, c db.Conn, revision int64) error {
	if err := c.Exec(ctx, `DELETE FROM marks WHERE revision = $1`, revision); err != nil {
		return err
	}
	return c.Exec(ctx, `INSERT INTO marks (revision, mark) VALUES ($1, $2)`, revision, groupMark+rand.Text())
}

// groupsChanged reports whether users or groups of SCIM have changed after a revision, up to another one.
func groupsChanged(ctx context.Context, c db.Conn, after, last int64) (changed bool, err error) {
	err = c.Row(ctx, `SELECT count(*) > 0 FROM marks WHERE revision > $1 AND revision <= $2 AND substr(mark, 1, 7) = $3`, after, last, groupMark)(&changed)
	return changed, err
}

// SCIMGroups returns the groups of the active users whose present name this is. The names that a user had
// before keep a removed person out, but give nothing: they may belong to somebody else now. A user and a
// group are of the same directory.
func (s *Store) SCIMGroups(ctx context.Context, name string) (list []access.SCIMGroup, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, c db.Conn) error {
		list = nil
		users, err := usersNamed(ctx, c, name)
		for _, id := range users {
			if err == nil {
				list, err = appendGroups(ctx, c, list, id)
			}
		}
		return err
	})
	return list, err
}

// usersNamed returns the ids of active users whose present userName or externalId gives a SCIM
// name.
func usersNamed(ctx context.Context, c db.Conn, name string) (ids []string, err error) {
	err = c.Rows(ctx, func(row db.Scan) error {
		var id, issuer, text string
		if err := row(&id, &issuer, &text); err != nil {
			return err
		}
		var u struct {
			UserName   string `json:"userName"`
			ExternalID string `json:"externalId"`
		}
		if err := json.Unmarshal([]byte(text), &u); err != nil {
			return nil //nolint:nilerr // no gateway has written it; it names nobody
		}
		if name == access.SCIMName(issuer, access.ExternalID, u.ExternalID) || name == access.SCIMName(issuer, access.UserName, u.UserName) {
			ids = append(ids, id)
		}
		return nil
	}, `SELECT u.id, u.issuer, u.data FROM scim_names n JOIN scim_users u ON u.id = n.user_id AND u.org = n.org
		WHERE n.name = $1 AND n.name <> '' AND u.active AND u.deleted = 0`, name)
	return ids, err
}

func appendGroups(ctx context.Context, c db.Conn, list []access.SCIMGroup, user string) ([]access.SCIMGroup, error) {
	err := c.Rows(ctx, func(row db.Scan) error {
		var g access.SCIMGroup
		var text string
		if err := row(&g.Org, &g.ExternalID, &text); err != nil {
			return err
		}
		var data struct {
			Name string `json:"displayName"` // as it was written; the column has it in lower case
		}
		if err := json.Unmarshal([]byte(text), &data); err != nil {
			return nil //nolint:nilerr // no gateway has written it; it gives nothing
		}
		g.Name = data.Name
		list = append(list, g)
		return nil
	}, `SELECT g.org, g.external_id, g.data FROM scim_members m JOIN scim_users u ON u.id = m.user_id
		JOIN scim_groups g ON g.id = m.group_id AND g.issuer = u.issuer AND g.org = u.org WHERE m.user_id = $1`, user)
	return list, err
}
