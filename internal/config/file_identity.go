package config

// identityFile is the sign-in of people and workloads with tokens of identity providers.
type identityFile struct {
	at
	// Identity providers whose tokens are accepted instead of keys.
	Issuers []issuerFile `key:"issuers"`
}

// issuerFile is an OpenID Connect provider, or another issuer of signed JWTs.
type issuerFile struct {
	at
	// The issuer, exactly as in the claim `iss` of its tokens. Unless jwks is set, the
	// keys are found through its discovery document.
	Issuer string `key:"issuer" example:"https://idp.example.com/realms/main"`
	// Audiences of the gateway. A token must name one of them in `aud`.
	Audiences []string `key:"audiences" example:"[isogloss]"`
	// Applications whose tokens are accepted, by the claim `azp`. The default is all.
	Clients []string `key:"clients" example:"[cli]"`
	// URL or file of the issuer's public keys, if it has no discovery document.
	JWKS string `key:"jwks" example:"https://kubernetes.default.svc/openid/v1/jwks"`
	// File with the CA of the issuer's server. The default is the system's.
	CA string `key:"ca" example:"/etc/isogloss/idp-ca.pem"`
	// Claim that is stored and shown as the name of a person. The default is none: people
	// are shown by an id.
	Name string `key:"name" example:"email"`
	// Management of people by the identity provider with SCIM 2.0. Off unless written;
	// `scim: {}` has the defaults.
	SCIM scimFile `key:"scim"`
	// Who is admitted. The first rule that matches a token holds; a token that none
	// matches is refused.
	Rules []ruleFile `key:"rules"`
}

// scimFile is the management of people by their identity provider, with SCIM 2.0 on the
// admin port. People whom it removes lose access at once. It requires a store.
type scimFile struct {
	at
	// Path of the endpoints. The default is `/scim/v2`. Each issuer needs its own.
	Path string `key:"path" example:"/scim/v2"`
	// Claim of the tokens that names the SCIM user. The default is `sub`.
	Claim string `key:"claim" example:"oid"`
	// Attribute of the SCIM user that has the value of the claim. The default is
	// externalId.
	Attribute scimAttributeName `key:"attribute" example:"userName"`
	// Whether people are admitted only if SCIM has created their user. The default,
	// false, also admits people of whom SCIM does not know.
	Required bool `key:"required" example:"true"`
}

type scimAttributeName string

func (scimAttributeName) options() []string { return []string{"externalId", "userName"} }

// ruleFile is what people get whose claims match.
type ruleFile struct {
	at
	// Claims and their values. A claim that is a list has to contain the value. A dot
	// leads into an object, as in `realm_access.roles`. All of them must match; none
	// admits everybody.
	When map[string]string `key:"when" example:"{groups: llm-search}"`
	// Organisation. The default is `default`.
	Org string `key:"org" example:"acme"`
	// Team. The default is none.
	Team string `key:"team" example:"search"`
	// Models, by name or prefix with `*`. The default is all.
	Models []string `key:"models" example:"[fast, \"claude-*\"]"`
	// Highest priority of the requests under overload. The default is normal.
	Criticality className `key:"criticality" example:"critical"`
	// Requests of each person per minute. The default, 0, is no limit. Limits of people
	// need a store.
	Requests int `key:"requests_per_minute" example:"60"`
	// Tokens of each person per minute. The default, 0, is no limit.
	Tokens int `key:"tokens_per_minute" example:"200000"`
	// Open requests of each person. The default is overload.per_key.
	Concurrency int `key:"concurrency" example:"8"`
	// Dollars that each person may spend per window. The default is no limit.
	Budget decimal `key:"budget" example:"50"`
	// Window of the budget. The default, 0, is all time.
	Window duration `key:"window" example:"720h"`
	// Role in the admin API. The default is none. Roles need a store.
	Role roleName `key:"role" example:"auditor"`
}

type roleName string

func (roleName) options() []string {
	return []string{"owner", "admin", "billing", "auditor", "key-manager"}
}
