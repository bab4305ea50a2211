package admin

import (
	"context"
	"errors"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/access"
	"github.com/isogloss-gateway/isogloss/internal/store"
)

// keyStore is what errors call it.
const keyStore = "the store of keys"

type listKeysIn struct {
	Page
	Org  string `query:"org" maxLength:"64" doc:"Only those of an organisation."`
	Team string `query:"team" maxLength:"64" doc:"Only those of a team; needs org."`
}

type keyList struct {
	Keys []keyView `json:"keys" nullable:"false"`
	Next string    `json:"next,omitempty" doc:"The after of the next page. Absent: this is the last."`
}

func (s *server) listKeys(ctx context.Context, c *call, in *listKeysIn) (*answer[keyList], error) {
	org, err := c.org(in.Org)
	if err != nil {
		return nil, err
	}
	if in.Team != "" && org == "" {
		return nil, invalid("query.team", "a team is named by its organisation too; send org")
	}
	filter := store.KeyFilter{Org: org, Team: in.Team, Who: store.Everybody}
	if !c.seesOperators() {
		filter.Who = store.Clients
	}
	records, err := s.Keys.Keys(ctx, filter, in.After, in.Limit)
	if err != nil {
		return nil, unavailable(keyStore, err)
	}
	out := keyList{}
	for _, r := range records {
		if c.sees(r) {
			out.Keys = append(out.Keys, viewKey(r, s.Now()))
		}
	}
	if len(records) == in.Limit {
		out.Next = records[len(records)-1].ID
	}
	return answered(out), nil
}

// org is the organisation that a list is of: the one that was asked for, or the one
// that the operator is held to.
func (c *call) org(asked string) (string, error) {
	own := held(c.operator)
	switch {
	case own == "" || asked == own:
		return asked, nil
	case asked == "":
		return own, nil
	}
	return "", missing("organisation", asked)
}

// key looks a key up, for who may see it.
func (s *server) key(ctx context.Context, c *call, id string) (access.Record, error) {
	r, err := s.Keys.Key(ctx, id)
	switch {
	case errors.Is(err, access.ErrUnknown):
		return r, missing("key", id)
	case err != nil:
		return r, unavailable(keyStore, err)
	case !c.sees(r):
		return r, missing("key", id)
	}
	return r, nil
}

// keyToChange looks a key up, for who may change it.
func (s *server) keyToChange(ctx context.Context, c *call, id string) (access.Record, error) {
	r, err := s.key(ctx, c, id)
	switch {
	case err != nil:
		return r, err
	case !c.changes(r):
		return r, forbidden("owner_only", "this is an operator's key, which only an owner may change")
	case !r.Revoked.IsZero():
		return r, conflict("revoked", "this key is revoked, which is for good; create another one")
	}
	return r, nil
}

func (s *server) getKey(ctx context.Context, c *call, in *KeyPath) (*answer[keyView], error) {
	r, err := s.key(ctx, c, in.Key)
	if err != nil {
		return nil, err
	}
	return answered(viewKey(r, s.Now())), nil
}

func (s *server) getKeyLimits(ctx context.Context, c *call, in *KeyPath) (*answer[useView], error) {
	r, err := s.key(ctx, c, in.Key)
	if err != nil {
		return nil, err
	}
	return s.use(ctx, r.Org, "key:"+r.ID, r.Limit)
}

type createKeyIn struct{ Body keyBody }

func (s *server) createKey(ctx context.Context, c *call, in *createKeyIn) (*answer[keyMade], error) {
	r, err := in.Body.record(s.Now())
	if err != nil {
		return nil, err
	}
	if err := s.place(ctx, c, &r); err != nil {
		return nil, err
	}
	id, sec, text := access.Mint(env(r))
	r.ID, r.Digests = id, []access.Digest{s.Peppers.Digest(id, sec)}
	err = s.change(ctx, c, change{object: "key:" + id, org: r.Org, after: r}, func(ctx context.Context) error {
		return stored(s.Keys.CreateKey(ctx, r), "key", id)
	})
	if err != nil {
		return nil, err
	}
	view, err := s.getKey(ctx, c, &KeyPath{Key: id})
	if err != nil { // it is there all the same, and its text must not be lost
		view = answered(viewKey(r, s.Now()))
	}
	return answered(keyMade{Key: view.Body, Text: text.Reveal()}), nil
}

// env is the part of a key's text that tells operators' from clients'.
func env(r access.Record) string {
	if r.Role != "" {
		return access.EnvAdmin
	}
	return access.EnvLive
}

// place checks where a new key is to belong and whether the operator may make it.
func (s *server) place(ctx context.Context, c *call, r *access.Record) error {
	org, err := c.org(r.Org)
	if err != nil {
		return err
	}
	above := r.Role == access.Owner || r.Role == access.Admin
	switch {
	case !c.changes(*r):
		return forbidden("owner_only", "only an owner may make operators' keys; leave role out for a client's key")
	case above && org != "":
		return invalid("body.org", "owners and admins are above organisations; leave org out, or choose another role")
	case org == "" && r.Role == "":
		return invalid("body.org", "a client's key belongs to an organisation; send its id")
	case org == "" && r.Team != "":
		return invalid("body.team", "a team is named by its organisation too; send org")
	case org == "":
		return nil
	}
	r.Org = org
	if _, err := s.org(ctx, c, org); err != nil {
		return err
	}
	if r.Team != "" {
		_, err = s.team(ctx, c, org, r.Team)
	}
	return err
}

type updateKeyIn struct {
	KeyPath
	Body keyChange
}

func (s *server) updateKey(ctx context.Context, c *call, in *updateKeyIn) (*answer[keyView], error) {
	return s.editKey(ctx, c, in.Key, func(r *access.Record) error { return in.Body.apply(r, s.Now()) })
}

type keyBudgetIn struct {
	KeyPath
	Body budgetBody
}

func (s *server) setKeyBudget(ctx context.Context, c *call, in *keyBudgetIn) (*answer[keyView], error) {
	return s.editKey(ctx, c, in.Key, func(r *access.Record) error { return in.Body.apply(&r.Limit) })
}

func (s *server) editKey(ctx context.Context, c *call, id string, edit func(*access.Record) error) (*answer[keyView], error) {
	before, err := s.keyToChange(ctx, c, id)
	if err != nil {
		return nil, err
	}
	after := before
	if err := edit(&after); err != nil {
		return nil, err
	}
	return s.saveKey(ctx, c, before, after, func(ctx context.Context) (access.Record, error) {
		return s.Keys.UpdateKey(ctx, id, func(r *access.Record) error {
			if r.Revision != before.Revision {
				return changed("key")
			}
			return edit(r)
		})
	})
}

// saveKey writes a change and answers with what the key became.
func (s *server) saveKey(ctx context.Context, c *call, before, after access.Record, save func(context.Context) (access.Record, error)) (*answer[keyView], error) {
	err := s.change(ctx, c, change{object: "key:" + before.ID, org: before.Org, before: before, after: after}, func(ctx context.Context) (err error) {
		after, err = save(ctx)
		return stored(err, "key", before.ID)
	})
	if err != nil {
		return nil, err
	}
	return answered(viewKey(after, s.Now())), nil
}

func (s *server) revokeKey(ctx context.Context, c *call, in *KeyPath) (*answer[keyView], error) {
	before, err := s.keyToChange(ctx, c, in.Key)
	if err != nil {
		return nil, err
	}
	after := before
	after.Revoked = s.Now()
	return s.saveKey(ctx, c, before, after, func(ctx context.Context) (access.Record, error) {
		return s.Keys.RevokeKey(ctx, before.ID, after.Revoked)
	})
}

type rotateKeyIn struct {
	KeyPath
	Body rotation
}

type rotation struct {
	Overlap int64 `json:"overlap_seconds" minimum:"0" maximum:"2592000" doc:"How long the old secret still works. 0: it ends now."`
}

func (s *server) rotateKey(ctx context.Context, c *call, in *rotateKeyIn) (*answer[keyMade], error) {
	before, err := s.keyToChange(ctx, c, in.Key)
	if err != nil {
		return nil, err
	}
	sec, text := access.MintAgain(env(before), before.ID)
	next := s.Peppers.Digest(before.ID, sec)
	until := s.Now().Add(time.Duration(in.Body.Overlap) * time.Second)
	after := before
	after.Digests = append([]access.Digest{next}, before.Digests...)
	view, err := s.saveKey(ctx, c, before, after, func(ctx context.Context) (access.Record, error) {
		return s.Keys.RotateKey(ctx, before.ID, next, until)
	})
	if err != nil {
		return nil, err
	}
	return answered(keyMade{Key: view.Body, Text: text.Reveal()}), nil
}
