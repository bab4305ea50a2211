package admin

import (
	"net/netip"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/access"
)

// keyView is a key as it is answered. There is nothing of its secret in it.
type keyView struct {
	ID          string       `json:"id" doc:"The public part of the key."`
	Name        string       `json:"name" doc:"What operators call it."`
	Org         string       `json:"org,omitempty" doc:"Absent: an operator of the whole gateway."`
	Team        string       `json:"team,omitempty"`
	Role        string       `json:"role,omitempty" doc:"Of an operator; clients have none."`
	State       string       `json:"state" enum:"active,blocked,expired,revoked" doc:"Blocked: its team or its organisation is."`
	Created     time.Time    `json:"created"`
	Expires     time.Time    `json:"expires,omitzero" doc:"Absent: never."`
	Revoked     time.Time    `json:"revoked,omitzero"`
	Revision    int64        `json:"revision" doc:"Grows with every change of the key, its team or its organisation."`
	Models      []string     `json:"models" nullable:"false" doc:"Names, or beginnings that end in *. Empty allows nothing."`
	Endpoints   []string     `json:"endpoints" nullable:"false" doc:"Empty allows all."`
	Networks    []string     `json:"networks" nullable:"false" doc:"Where it may be used. Empty is everywhere."`
	Criticality string       `json:"criticality,omitempty" doc:"The most that its requests may say of themselves."`
	Limits      limits       `json:"limits" doc:"Its own; those of its team and organisation hold besides."`
	Secrets     []secretView `json:"secrets" nullable:"false" doc:"The live secrets: two while the key is rotated."`
}

// secretView is all that is told of a secret.
type secretView struct {
	Pepper int       `json:"pepper" doc:"The version of the pepper that its digest was made with."`
	Until  time.Time `json:"until,omitzero" doc:"When it ends. Absent: with the key."`
}

// keyMade is a key with its text, which is shown here and never again.
type keyMade struct {
	Key  keyView `json:"key"`
	Text string  `json:"text" doc:"The whole key. It is not kept: this answer is the only one that has it."`
}

func viewKey(r access.Record, now time.Time) keyView {
	v := keyView{
		ID: r.ID, Name: r.Name, Org: r.Org, Team: r.Team, Role: string(r.Role), State: state(r, now),
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
	case !r.Expires.IsZero() && !now.Before(r.Expires):
		return "expired"
	case r.Blocked:
		return "blocked"
	}
	return "active"
}

// keyBody is what may be said of a new key.
type keyBody struct {
	Name        string        `json:"name" minLength:"1" maxLength:"100" pattern:"^[^\\x00-\\x1f\\x7f]+$" doc:"What operators call it."`
	Org         string        `json:"org,omitempty" maxLength:"64" pattern:"^[a-z0-9][a-z0-9._-]*$" doc:"Default: the one that the operator is held to. An operator's key may name none and is then held to none."`
	Team        string        `json:"team,omitempty" maxLength:"64" pattern:"^[a-z0-9][a-z0-9._-]*$"`
	Role        string        `json:"role,omitempty" enum:"owner,admin,billing,auditor,key-manager" doc:"Makes an operator's key, which only owners may. Clients have none."`
	Expires     string        `json:"expires,omitempty" maxLength:"40" doc:"A time as in RFC 3339, or never. Default: never for clients, 90 days for operators."`
	Models      []string      `json:"models,omitempty" nullable:"false" maxItems:"1000" doc:"Names, or beginnings that end in *. Empty allows nothing."`
	Endpoints   []string      `json:"endpoints,omitempty" nullable:"false" maxItems:"100" doc:"Empty allows all."`
	Networks    []string      `json:"networks,omitempty" nullable:"false" maxItems:"100" doc:"Where it may be used, such as 10.0.0.0/8. Empty is everywhere."`
	Criticality string        `json:"criticality,omitempty" enum:"critical,normal,sheddable" doc:"The most that its requests may say of themselves."`
	Limits      *limitsChange `json:"limits,omitempty"`
}

// keyChange is what may be changed of a key. What is left out stays as it is.
type keyChange struct {
	Name        *string       `json:"name,omitempty" minLength:"1" maxLength:"100" pattern:"^[^\\x00-\\x1f\\x7f]+$"`
	Expires     *string       `json:"expires,omitempty" maxLength:"40" doc:"A time as in RFC 3339, or never."`
	Models      *[]string     `json:"models,omitempty" nullable:"false" maxItems:"1000"`
	Endpoints   *[]string     `json:"endpoints,omitempty" nullable:"false" maxItems:"100"`
	Networks    *[]string     `json:"networks,omitempty" nullable:"false" maxItems:"100"`
	Criticality *string       `json:"criticality,omitempty" enum:"critical,normal,sheddable"`
	Limits      *limitsChange `json:"limits,omitempty"`
}

// operatorLife is how long an operator's key lives where nothing else is said: people
// forget keys.
const operatorLife = 90 * 24 * time.Hour

// record is the key that a body asks for, without its id and its secret.
func (b *keyBody) record(now time.Time) (access.Record, error) {
	r := access.Record{
		Name: b.Name, Org: b.Org, Team: b.Team, Role: access.Role(b.Role), Created: now, Criticality: b.Criticality,
	}
	if r.Role != "" && b.Expires == "" {
		r.Expires = now.Add(operatorLife)
	}
	c := keyChange{Models: &b.Models, Endpoints: &b.Endpoints, Networks: &b.Networks, Limits: b.Limits}
	if b.Expires != "" {
		c.Expires = &b.Expires
	}
	return r, c.apply(&r, now)
}

// apply changes a key.
func (c *keyChange) apply(r *access.Record, now time.Time) error {
	set(&r.Name, c.Name)
	set(&r.Criticality, c.Criticality)
	if c.Expires != nil {
		at, err := expiry(*c.Expires, now)
		if err != nil {
			return err
		}
		r.Expires = at
	}
	if err := names(&r.Models, c.Models, "body.models"); err != nil {
		return err
	}
	if err := names(&r.Endpoints, c.Endpoints, "body.endpoints"); err != nil {
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
		return at, invalid("body.expires", "it is no time; write it like 2030-01-31T00:00:00Z, or never")
	case !at.After(now):
		return at, invalid("body.expires", "it is past; revoke the key to end it now")
	}
	return at.UTC(), nil
}

// maxName is the longest name of a model that a key may have.
const maxName = 200

func names(to, from *[]string, location string) error {
	if from == nil {
		return nil
	}
	for _, n := range *from {
		if n == "" || len(n) > maxName || !printable(n) {
			return invalid(location, "a name is empty, has more than %d bytes or characters that cannot be printed", maxName)
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
			return invalid("body.networks", "one is no network; write it like 10.0.0.0/8 or 192.0.2.7/32, with zeros behind its length")
		}
		list[i] = p
	}
	*to = list
	return nil
}
