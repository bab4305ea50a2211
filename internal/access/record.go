package access

import (
	"crypto/sha256"
	"net/netip"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/quota"
)

// Record is a key as a store keeps it, joined with what its team and its
// organisation may. It holds no secret: digests cannot be turned back, and without
// the pepper they cannot be tried either.
type Record struct {
	ID       string // the public part of the key
	Name     string // the operator's
	Org      string
	Team     string // may be empty
	Role     Role   // empty for clients; the others open the admin API and nothing else
	Digests  []Digest
	Created  time.Time
	Expires  time.Time // zero: never
	Revoked  time.Time // zero: it is not
	Blocked  bool      // its team or its organisation is
	Revision int64     // grows with every change of it, its team or its organisation

	Models      []string       // names, or beginnings that end in "*"; an empty list allows nothing
	Endpoints   []string       // names from the gateway's list; empty allows all
	Networks    []netip.Prefix // where it may be used; empty is everywhere
	Criticality string         // the most that its requests may say of themselves

	Limit     quota.Limit // its own; Limit.Concurrency holds on all nodes together
	TeamLimit quota.Limit
	OrgLimit  quota.Limit
}

// Digest is what is kept of a secret. A key has two while it is being rotated.
type Digest struct {
	Pepper int               // the version of the pepper that it was made with
	Sum    [sha256.Size]byte // HMAC-SHA-256 of the secret
	Until  time.Time         // when it ends; zero: with the key
}

// Role is what an operator may do.
type Role string

// The roles. Each but Owner and Admin is held to its own organisation where the
// key names one.
const (
	Owner      Role = "owner"       // everything, operators' keys too
	Admin      Role = "admin"       // everything but operators' keys
	Billing    Role = "billing"     // usage and budgets
	Auditor    Role = "auditor"     // reads everything
	KeyManager Role = "key-manager" // clients' keys and teams
)
