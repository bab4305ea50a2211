package admin

import (
	"context"
	"errors"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/names"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// keyStoreName names the store of keys in error messages.
const keyStoreName = "the store of keys"

type listKeysIn struct {
	page
	spentIn
	tenantIn
	Name string `query:"name" maxLength:"100" pattern:"^[^\\x00-\\x1f\\x7f]*$" doc:"Only with this name."`
}

// tenantIn selects what belongs to an organisation, or to a team of it.
type tenantIn struct {
	Org  string `query:"org" maxLength:"128" doc:"Only of this organisation: the id or the name."`
	Team string `query:"team" maxLength:"128" doc:"Only of this team: the id or the name; needs org."`
}

type keyList struct {
	Keys []keyView `json:"keys"`
	Next string    `json:"next,omitempty" doc:"The after of the next page. Absent: this is the last."`
}

func (s *server) listKeys(ctx context.Context, c *call, in *listKeysIn) (*keyList, error) {
	if err := s.find(ctx, c, &in.Org, &in.Team, nil); err != nil {
		return nil, err
	}
	records, err := s.Keys.Keys(ctx, store.KeyFilter{Org: in.Org, Team: in.Team, Name: in.Name, Who: c.visible()}, in.After, in.Limit)
	if err != nil {
		return nil, unavailable(keyStoreName, err)
	}
	out := keyList{}
	for _, r := range records {
		if c.canSee(r) {
			out.Keys = append(out.Keys, viewKey(r, s.Now()))
		}
	}
	if len(records) == in.Limit {
		out.Next = records[len(records)-1].ID
	}
	return &out, s.complete(ctx, c, in.spentIn, out.Keys)
}

// visible returns whose keys the operator sees in lists.
func (c *call) visible() store.Who {
	if c.canSeeOperators() {
		return store.Everybody
	}
	return store.Clients
}

// orgFilter returns the organisation that a list is limited to: the requested one, or the one that
// the operator is bound to.
func (c *call) orgFilter(asked string) (string, error) {
	own := boundTo(c.operator)
	switch {
	case own == "" || asked == own:
		return asked, nil
	case asked == "":
		return own, nil
	}
	return "", missing("organisation", asked)
}

// key returns a key that the operator may see.
func (s *server) key(ctx context.Context, c *call, id string) (access.Record, error) {
	r, err := s.Keys.Key(ctx, id)
	switch {
	case errors.Is(err, access.ErrUnknown):
		return r, missing("key", id)
	case err != nil:
		return r, unavailable(keyStoreName, err)
	case !c.canSee(r):
		return r, missing("key", id)
	}
	return r, nil
}

// keyToChange returns a key that the operator may change.
func (s *server) keyToChange(ctx context.Context, c *call, id string) (access.Record, error) {
	r, err := s.key(ctx, c, id)
	switch {
	case err != nil:
		return r, err
	case !c.canChange(r):
		return r, forbidden("owner_only", "only an owner may change an operator's key")
	case !r.Revoked.IsZero():
		return r, conflict("revoked", "this key is revoked permanently; create another one")
	}
	return r, nil
}

type getKeyIn struct {
	keyPath
	spentIn
}

func (s *server) getKey(ctx context.Context, c *call, in *getKeyIn) (*keyView, error) {
	r, err := s.key(ctx, c, in.Key)
	if err != nil {
		return nil, err
	}
	views := []keyView{viewKey(r, s.Now())}
	return &views[0], s.complete(ctx, c, in.spentIn, views)
}

func (s *server) getKeyLimits(ctx context.Context, c *call, in *keyPath) (*useView, error) {
	r, err := s.key(ctx, c, in.Key)
	if err != nil {
		return nil, err
	}
	return s.limitUse(ctx, r.Org, "key:"+r.ID, r.Limit)
}

type createKeyIn struct{ Body keyBody }

func (s *server) createKey(ctx context.Context, c *call, in *createKeyIn) (*keyMade, error) {
	r, err := in.Body.record(s.Now())
	if err != nil {
		return nil, err
	}
	if err := s.checkOwner(ctx, c, &r); err != nil {
		return nil, err
	}
	id, sec, text := access.Mint(access.Env(s.Cell, r.Role))
	r.ID, r.Digests = id, []access.Digest{s.Peppers.Digest(id, sec)}
	err = s.change(ctx, c, change{object: "key:" + id, org: r.Org, after: r}, func(ctx context.Context) error {
		return storeProblem(s.Keys.CreateKey(ctx, r), "key", id)
	})
	if err != nil {
		return nil, err
	}
	view, err := s.getKey(ctx, c, &getKeyIn{keyPath: keyPath{Key: id}})
	if err != nil { // the key exists, and its text cannot be shown again
		view = new(viewKey(r, s.Now()))
	}
	return new(keyMade{Key: *view, Text: text.Reveal()}), nil
}

// checkOwner checks the organisation and team of a new key, and whether the operator may create it.
func (s *server) checkOwner(ctx context.Context, c *call, r *access.Record) error {
	org, err := c.orgFilter(r.Org)
	if err != nil {
		return err
	}
	above := r.Role == access.Owner || r.Role == access.Admin
	switch {
	case !c.canChange(*r):
		return forbidden("owner_only", "only an owner may create operators' keys; leave role out for a client's key")
	case above && org != "":
		return invalid("body.org", "owners and admins have no organisation; leave org out, or choose another role")
	case org == "" && r.Role == "":
		return invalid("body.org", "a client's key needs an organisation; send its id")
	case org == "" && r.Team != "":
		return invalid("body.team", "a team needs its organisation; send org")
	case org == "":
		return nil
	}
	r.Org = org
	if _, err := s.tenant(ctx, c, org, ""); err != nil {
		return err
	}
	if r.Team != "" {
		_, err = s.tenant(ctx, c, org, r.Team)
	}
	return err
}

type updateKeyIn struct {
	keyPath
	Body keyChange
}

func (s *server) updateKey(ctx context.Context, c *call, in *updateKeyIn) (*keyView, error) {
	if err := in.Body.Limits.permit(c.operator); err != nil {
		return nil, err
	}
	return s.editKey(ctx, c, in.Key, func(r *access.Record) error { return in.Body.apply(r, s.Now()) })
}

type keyBudgetIn struct {
	keyPath
	Body budgetsBody
}

func (s *server) setKeyBudget(ctx context.Context, c *call, in *keyBudgetIn) (*keyView, error) {
	return s.editKey(ctx, c, in.Key, func(r *access.Record) error { return in.Body.apply(&r.Limit) })
}

func (s *server) editKey(ctx context.Context, c *call, id string, edit func(*access.Record) error) (*keyView, error) {
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
				return concurrentChange("key")
			}
			return edit(r)
		})
	})
}

// saveKey makes a change of a key and returns the changed key.
func (s *server) saveKey(ctx context.Context, c *call, before, after access.Record, save func(context.Context) (access.Record, error)) (*keyView, error) {
	err := s.change(ctx, c, change{object: "key:" + before.ID, org: before.Org, before: before, after: after}, func(ctx context.Context) (err error) {
		after, err = save(ctx)
		return storeProblem(err, "key", before.ID)
	})
	if err != nil {
		return nil, err
	}
	return new(viewKey(after, s.Now())), nil
}

func (s *server) revokeKey(ctx context.Context, c *call, in *keyPath) (*keyView, error) {
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
	keyPath
	Body rotation
}

type rotation struct {
	Overlap int64 `json:"overlap_seconds" minimum:"0" maximum:"2592000" doc:"How long the old secret stays valid. 0: it expires now."`
}

func (s *server) rotateKey(ctx context.Context, c *call, in *rotateKeyIn) (*keyMade, error) {
	if access.IsPerson(in.Key) {
		return nil, conflict("no_secret", "a person signs in at the identity provider and has no secret; revoke the account to lock the person out")
	}
	before, err := s.keyToChange(ctx, c, in.Key)
	if err != nil {
		return nil, err
	}
	if before.Owner != "" { // an operator with the secret could make requests in the person's name
		return nil, conflict("person_only", "this key belongs to a person, who alone may have its secret; revoke it, and let the person create another one")
	}
	sec, text := access.MintAgain(access.Env(s.Cell, before.Role), before.ID)
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
	return new(keyMade{Key: *view, Text: text.Reveal()}), nil
}

// find replaces the names of an organisation, a team and a key in a filter by their ids, and limits the filter to the
// operator's organisation.
func (s *server) find(ctx context.Context, c *call, org, team, key *string) error {
	id, err := names.FindTenant(ctx, s.Tenants, store.TenantFilter{Only: boundTo(c.operator)}, *org)
	if err != nil {
		return unknownName("query.org", err)
	}
	if *org, err = c.orgFilter(id); err != nil {
		return err
	}
	if *team != "" {
		if *org == "" {
			return invalid("query.team", "a team needs its organisation; send org")
		}
		if *team, err = names.FindTenant(ctx, s.Tenants, store.TenantFilter{TeamsOf: *org}, *team); err != nil {
			return unknownName("query.team", err)
		}
	}
	if key != nil {
		if *key, err = names.FindKey(ctx, s.Keys, store.KeyFilter{Org: *org, Who: c.visible()}, *key); err != nil {
			return unknownName("query.key", err)
		}
	}
	return nil
}

// unknownName returns the problem of a name that was not found.
func unknownName(location string, err error) error {
	if wrong := names.Error(""); errors.As(err, &wrong) {
		return invalid(location, "%s", wrong.Error())
	}
	return unavailable(keyStoreName, err)
}

// names returns the reader of names.
func (s *server) names() names.Reader {
	return names.Reader{Keys: s.Keys, Tenants: s.Tenants, Logger: s.Logger}
}

// spentIn asks for the use of keys.
type spentIn struct {
	Spent string `query:"spent" enum:"30d" doc:"With what each key has spent in this time, and the hour of its last request. Needs a role that may use get-usage."`
}

// spentTime is the only value of spent.
const spentTime = 30 * 24 * time.Hour

// complete adds to keys the names of their organisations and teams, and what the keys have spent if it is asked for. One
// question has all of them.
func (s *server) complete(ctx context.Context, c *call, in spentIn, keys []keyView) error {
	names.Set(ctx, s.names(), keys, func(k *keyView) names.Of {
		return names.Of{Org: k.Org, Team: k.Team, OrgName: &k.OrgName, TeamName: &k.TeamName}
	})
	if in.Spent == "" {
		return nil
	}
	if p := Permit(c.operator, "get-usage"); p != nil {
		return p
	}
	ids := make([]string, len(keys))
	for i := range keys {
		ids[i] = keys[i].ID
	}
	uses, err := s.Keys.KeyUses(ctx, ids, s.Now().Add(-spentTime))
	if err != nil {
		return unavailable(ledgerName, err)
	}
	for i := range keys {
		u := uses[keys[i].ID]
		keys[i].Spent, keys[i].LastUsed = u.Spent.Decimal(), u.Last
	}
	return nil
}
