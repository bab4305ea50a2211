package access

import (
	"crypto/sha256"
	"net/netip"
	"slices"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/money/quota"
	"github.com/isogloss-gateway/isogloss/llm"
)

// Record is a key in the store, with the limits of its team and organisation. It contains no
// secret: digests cannot be reversed, nor tested without the pepper.
type Record struct {
	ID       string // public part of the key
	Owner    string // account of the person to whom the key belongs and whose requests are made with it; empty: none
	Name     string // for operators
	Org      string
	Team     string // may be empty
	Role     Role   // empty for clients; other roles are for the admin API only
	Digests  []Digest
	Created  time.Time
	Expires  time.Time // zero: never
	Revoked  time.Time // zero: not revoked
	Removed  time.Time // when the identity provider removed the person by SCIM; zero: it did not
	Invalid  bool      // the store has values that no gateway writes; it is rejected
	Revision int64     // increases with every change of the key, its team or its organisation

	Models      []string       // names, or prefixes that end in "*"; empty allows none
	Endpoints   []string       // names from the gateway's list, or APIs of the admin port; empty allows all
	Networks    []netip.Prefix // from which it may be used; empty allows all
	Criticality string         // highest criticality of its requests

	SCIMName     string // by which the account of a person finds its SCIM user; empty: none
	SCIMRequired bool   // the person is admitted only if there is such a user

	Limit                   quota.Limit // its own; Concurrency applies to all nodes together
	TeamLimit, OrgLimit     quota.Limit
	TeamBlocked, OrgBlocked bool
}

// Blocked reports whether the key is rejected because of its team or organisation, or because it
// is invalid.
func (r *Record) Blocked() bool { return r.Invalid || r.TeamBlocked || r.OrgBlocked }

// APIs of the admin port, as an operator's key may name them in its endpoints.
const (
	AdminAPI = "admin"
	SCIMAPI  = "scim"
)

// MayOperate returns nil if an operator may use an API of the admin port. A key without endpoints
// may use all.
func (r *Record) MayOperate(api string) *llm.Error {
	if len(r.Endpoints) == 0 || slices.Contains(r.Endpoints, api) {
		return nil
	}
	return errEndpoint()
}

// Tenant is a changed team or organisation.
type Tenant struct {
	Org, Team string // Team is empty for an organisation
	Blocked   bool
	Limit     quota.Limit
	Revision  int64
}

// apply changes a record to the state of its team or organisation.
func (t *Tenant) apply(r *Record) {
	if t.Team == "" {
		r.OrgLimit, r.OrgBlocked = t.Limit, t.Blocked
	} else {
		r.TeamLimit, r.TeamBlocked = t.Limit, t.Blocked
	}
}

// Digest is the digest of a secret. A key has two during a rotation.
type Digest struct {
	Pepper int               // version of the pepper
	Sum    [sha256.Size]byte // HMAC-SHA-256 of the secret
	Until  time.Time         // when it expires; zero: with the key
}

// Role is the role of an operator.
type Role string

// The roles. Roles other than Owner and Admin are bound to the key's organisation, if it has
// one.
const (
	Owner      Role = "owner"       // everything, including operators' keys
	Admin      Role = "admin"       // everything except operators' keys
	Billing    Role = "billing"     // usage and budgets
	Auditor    Role = "auditor"     // reads everything
	KeyManager Role = "key-manager" // clients' keys and teams
)
