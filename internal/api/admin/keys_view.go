package admin

import (
	"net/netip"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// keyView is a key without its secret.
type keyView struct {
	ID          string       `json:"id" doc:"The public part of the key."`
	Owner       string       `json:"owner,omitempty" doc:"The person's account to which the key belongs. Its requests are that account's, in usage, limits and budgets."`
	Name        string       `json:"name" doc:"Name for operators."`
	Org         string       `json:"org,omitempty" doc:"Absent: an operator of the whole gateway."`
	OrgName     string       `json:"org_name,omitempty" doc:"Name of the organisation, in list-keys and get-key. Absent: it has none."`
	Team        string       `json:"team,omitempty"`
	TeamName    string       `json:"team_name,omitempty" doc:"Like org_name, of the team."`
	Role        string       `json:"role,omitempty" doc:"Role of an operator. Absent: a client's key."`
	State       string       `json:"state" enum:"active,blocked,expired,removed,revoked" doc:"blocked: its team or organisation is blocked. removed: the identity provider has removed the person."`
	Created     time.Time    `json:"created"`
	Expires     time.Time    `json:"expires,omitzero" doc:"Absent: never."`
	Revoked     time.Time    `json:"revoked,omitzero"`
	Revision    int64        `json:"revision" doc:"Increases with every change of the key, its team or its organisation."`
	Models      []string     `json:"models" doc:"Model names; a name that ends in * is a prefix. Empty allows none."`
	Endpoints   []string     `json:"endpoints" doc:"Empty allows all."`
	Networks    []string     `json:"networks" doc:"Networks from which it may be used. Empty allows all."`
	Criticality string       `json:"criticality,omitempty" doc:"The highest criticality of its requests."`
	Limits      limits       `json:"limits" doc:"Its own limits. Those of its team and organisation apply as well."`
	Secrets     []secretView `json:"secrets" doc:"The valid secrets: two during a rotation."`
	Spent       string       `json:"spent,omitempty" doc:"Dollars that its requests cost in the time that the parameter spent names. Absent: it was not asked for."`
	LastUsed    time.Time    `json:"last_used,omitzero" doc:"Hour of its last request that was not refused. Absent: there was none, or spent was not asked for."`
}

// secretView describes a secret without revealing it.
type secretView struct {
	Pepper int       `json:"pepper" doc:"Version of the pepper of its digest."`
	Until  time.Time `json:"until,omitzero" doc:"When it expires. Absent: with the key."`
}

// keyMade is a key with its text, which only this response has.
type keyMade struct {
	Key  keyView `json:"key"`
	Text string  `json:"text" doc:"The whole key. It is not stored: no other response has it."`
}

func viewKey(r access.Record, now time.Time) keyView {
	v := keyView{
		ID: r.ID, Owner: r.Owner, Name: r.Name, Org: r.Org, Team: r.Team, Role: string(r.Role), State: state(r, now),
		Created: r.Created, Expires: r.Expires, Revoked: r.Revoked, Revision: r.Revision,
		Models: r.Models, Endpoints: r.Endpoints, Criticality: r.Criticality, Limits: viewLimits(r.Limit),
	}
	for _, n := range r.Networks {
		v.Networks = append(v.Networks, n.String())
	}
	for _, d := range r.Digests {
		if d.Until.IsZero() || now.Before(d.Until) {
			v.Secrets = append(v.Secrets, secretView{Pepper: d.Pepper, Until: d.Until})
		}
	}
	return v
}

func state(r access.Record, now time.Time) string {
	switch {
	case !r.Revoked.IsZero():
		return "revoked"
	case !r.Removed.IsZero():
		return "removed"
	case !r.Expires.IsZero() && !now.Before(r.Expires):
		return "expired"
	case r.Blocked():
		return "blocked"
	}
	return "active"
}

// keyBody describes a new key.
type keyBody struct {
	Name        string        `json:"name" minLength:"1" maxLength:"100" pattern:"^[^\\x00-\\x1f\\x7f]+$" doc:"Name for operators."`
	Org         string        `json:"org,omitempty" maxLength:"128" pattern:"^[^/\\x00-\\x1f\\x7f]*[^./\\x00-\\x1f\\x7f][^/\\x00-\\x1f\\x7f]*$" doc:"Default: the one that the operator is bound to. An operator's key without one is not bound."`
	Team        string        `json:"team,omitempty" maxLength:"128" pattern:"^[^/\\x00-\\x1f\\x7f]*[^./\\x00-\\x1f\\x7f][^/\\x00-\\x1f\\x7f]*$"`
	Role        string        `json:"role,omitempty" enum:"owner,admin,billing,auditor,key-manager" doc:"Creates an operator's key, which only owners may. Absent: a client's key."`
	Expires     string        `json:"expires,omitempty" maxLength:"40" doc:"RFC 3339 time, or never. Default: never for clients, 90 days for operators."`
	Models      []string      `json:"models,omitempty" maxItems:"1000" doc:"Model names; a name that ends in * is a prefix. Empty allows none."`
	Endpoints   []string      `json:"endpoints,omitempty" maxItems:"100" doc:"Empty allows all."`
	Networks    []string      `json:"networks,omitempty" maxItems:"100" doc:"Networks from which it may be used, such as 10.0.0.0/8. Empty allows all."`
	Criticality string        `json:"criticality,omitempty" enum:"critical,normal,sheddable" doc:"The highest criticality of its requests."`
	Limits      *limitsChange `json:"limits,omitempty"`
}

// keyChange describes a change of a key. Absent members stay as they are.
type keyChange struct {
	Name        *string       `json:"name,omitzero" minLength:"1" maxLength:"100" pattern:"^[^\\x00-\\x1f\\x7f]+$"`
	Team        *string       `json:"team,omitzero" maxLength:"128" pattern:"^[^/\\x00-\\x1f\\x7f]*$" doc:"Team of its organisation, which must exist. Empty: none."`
	Expires     *string       `json:"expires,omitzero" maxLength:"40" doc:"RFC 3339 time, or never."`
	Models      *[]string     `json:"models,omitzero" maxItems:"1000"`
	Endpoints   *[]string     `json:"endpoints,omitzero" maxItems:"100"`
	Networks    *[]string     `json:"networks,omitzero" maxItems:"100"`
	Criticality *string       `json:"criticality,omitzero" enum:"critical,normal,sheddable"`
	Limits      *limitsChange `json:"limits,omitzero"`
}

// operatorTTL is how long an operator's key is valid by default.
const operatorTTL = 90 * 24 * time.Hour

// record returns the key that the body describes, without id and secret.
func (b *keyBody) record(now time.Time) (access.Record, error) {
	r := access.Record{
		Name: b.Name, Org: b.Org, Role: access.Role(b.Role), Created: now, Criticality: b.Criticality,
	}
	if r.Role != "" && b.Expires == "" {
		r.Expires = now.Add(operatorTTL)
	}
	c := keyChange{Team: &b.Team, Models: &b.Models, Endpoints: &b.Endpoints, Networks: &b.Networks, Limits: b.Limits}
	if b.Expires != "" {
		c.Expires = &b.Expires
	}
	return r, c.apply(&r, now)
}

// apply changes a key.
func (c *keyChange) apply(r *access.Record, now time.Time) error {
	set(&r.Name, c.Name)
	set(&r.Criticality, c.Criticality)
	if c.Team != nil && *c.Team != "" && r.Role != "" {
		return invalid("body.team", "an operator's key belongs to no team; leave team out, or leave role out for a client's key")
	}
	set(&r.Team, c.Team)
	if c.Expires != nil {
		at, err := expiry(*c.Expires, now)
		if err != nil {
			return err
		}
		r.Expires = at
	}
	if err := nameList(&r.Models, c.Models, "body.models"); err != nil {
		return err
	}
	if err := nameList(&r.Endpoints, c.Endpoints, "body.endpoints"); err != nil {
		return err
	}
	if err := networks(&r.Networks, c.Networks); err != nil {
		return err
	}
	return c.Limits.apply(&r.Limit)
}

func expiry(text string, now time.Time) (time.Time, error) {
	if text == "never" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		return at, invalid("body.expires", "expected a time such as 2030-01-31T00:00:00Z, or never")
	case !at.After(now):
		return at, invalid("body.expires", "the time is in the past; revoke the key to end it now")
	}
	return at.UTC(), nil
}

// maxName is the maximum length of a model name in a key.
const maxName = 200

func nameList(to, from *[]string, location string) error {
	if from == nil {
		return nil
	}
	for _, n := range *from {
		if n == "" || len(n) > maxName || !printable(n) {
			return invalid(location, "a name is empty, is longer than %d bytes or has unprintable characters", maxName)
		}
	}
	*to = *from
	return nil
}

func printable(s string) bool {
	for _, c := range s {
		if c < 0x20 || c == 0x7f || c == '\uFFFD' {
			return false
		}
	}
	return true
}

func networks(to *[]netip.Prefix, from *[]string) error {
	if from == nil {
		return nil
	}
	list := make([]netip.Prefix, len(*from))
	for i, text := range *from {
		p, err := netip.ParsePrefix(text)
		if err != nil || p != p.Masked() {
			return invalid("body.networks", "an entry is not a network; write it like 10.0.0.0/8 or 192.0.2.7/32, with zeros after the prefix")
		}
		list[i] = p
	}
	*to = list
	return nil
}
