package admin

import "github.com/isogloss-gateway/isogloss/internal/api/amounts"

// What operations read and write, for the client in Go.
type (
	// Key is a key without its secret.
	Key = keyView
	// KeyMade is a key with its text.
	KeyMade = keyMade
	// KeyBody describes a new key.
	KeyBody = keyBody
	// KeyChange describes a change of a key.
	KeyChange = keyChange
	// Rotation is how a key gets a new secret.
	Rotation = rotation
	// Tenant is an organisation, or a team of one.
	Tenant = tenantView
	// TenantBody describes a new organisation or team.
	TenantBody = tenantBody
	// TenantChange describes a change of an organisation or a team.
	TenantChange = tenantChange
	// LimitsView has the limits of an account.
	LimitsView = limits
	// LimitsChange describes a change of limits.
	LimitsChange = limitsChange
	// Budget is a budget.
	Budget = budgetBody
	// UseView is an account's current use of its limits.
	UseView = useView
	// UsageView has sums of the usage of requests.
	UsageView = usageView
	// UsageSum is one of them.
	UsageSum = amounts.SumView
	// RefusalList counts refused requests by key and reason.
	RefusalList = refusalList
	// KeyList is a page of keys.
	KeyList = keyList
	// OrgList is a page of organisations.
	OrgList = orgList
	// TeamList is a page of teams.
	TeamList = teamList
)

// Prefix begins the paths of all operations.
const Prefix = prefix
