package identity

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/secret"
	"github.com/isogloss-gateway/isogloss/internal/base/settings"
)

// Settings is the sign-in of people and workloads with tokens of identity providers.
type Settings struct {
	settings.At
	// Identity providers whose tokens are accepted instead of keys.
	Issuers []issuerSettings `key:"issuers"`
	// Sign-in in the browser, for command-line clients such as Claude Code and
	// `isogloss login`, and for operators. It needs a store.
	SignIn signInSettings `key:"sign_in"`
}

// signInSettings is the gateway as a client of an identity provider.
type signInSettings struct {
	settings.At
	// URL of the client port, as people reach it. The identity provider must accept its
	// path `/oauth/callback` as a redirect address.
	URL string `key:"url" example:"https://gateway.example.com"`
	// URL of the admin port, as operators reach it. The identity provider must accept its
	// path `/login/callback` as a redirect address. Without it operators use keys or
	// tokens.
	Admin string `key:"admin" example:"https://gateway.example.com:8081"`
	// The issuer of identity.issuers at which people sign in. The default is the first.
	Issuer string `key:"issuer" example:"https://idp.example.com/realms/main"`
	// Id of the gateway at the identity provider.
	Client string `key:"client" example:"isogloss"`
	// Secret of the gateway at the identity provider. The default is none: a public
	// client.
	Secret secret.String `key:"secret" example:"${SIGN_IN_SECRET}"`
	// Scopes that are requested. The default is openid and email.
	Scopes []string `key:"scopes" example:"[openid, email, offline_access]"`
	// Which token clients get. The default is access_token. Choose id_token for a
	// provider whose access tokens are not signed JWTs, such as Google.
	Token string `key:"token" enum:"access_token,id_token" example:"id_token"`
	// Text that Claude Code shows before the sign-in, of at most 500 characters.
	Notice string `key:"notice" maxLength:"500" example:"For employees of Example Inc."`
}

// issuerSettings is an OpenID Connect provider, or another issuer of signed JWTs.
type issuerSettings struct {
	settings.At
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
	CA string `key:"ca" is:"file" example:"/etc/isogloss/idp-ca.pem"`
	// Claim that is stored and shown as the name of a person. The default is none: people
	// are shown by an id.
	Name string `key:"name" example:"email"`
	// Management of people by the identity provider with SCIM 2.0. Off unless written;
	// `scim: {}` has the defaults.
	SCIM scimSettings `key:"scim"`
	// Who is admitted. The first rule that matches a token holds; a token that none
	// matches is refused.
	Rules []ruleSettings `key:"rules"`
}

// scimSettings is the management of people by their identity provider, with SCIM 2.0 on the
// admin port. People whom it removes lose access at once. It requires a store.
type scimSettings struct {
	settings.At
	// Path of the endpoints. The default is `/scim/v2`. Each issuer needs its own.
	Path string `key:"path" example:"/scim/v2"`
	// Claim of the tokens that names the SCIM user. The default is `sub`.
	Claim string `key:"claim" example:"oid"`
	// Attribute of the SCIM user that has the value of the claim. The default is
	// externalId.
	Attribute string `key:"attribute" enum:"externalId,userName" example:"userName"`
	// Whether people are admitted only if SCIM has created their user. The default,
	// false, also admits people of whom SCIM does not know.
	Required bool `key:"required" example:"true"`
	// Whether a condition on `groups` in a rule also reads the groups that SCIM has given
	// a person, for providers that leave groups out of tokens. The default is false. The
	// groups count for rules of the organisation whose people the SCIM key manages.
	Groups bool `key:"groups" example:"true"`
	// Attribute of a SCIM group that has the value of the condition. The default is
	// externalId, which a provider does not change when it renames a group.
	GroupAttribute string `key:"group_attribute" enum:"externalId,displayName" example:"displayName"`
}

// ruleSettings is a rule: which claims it needs, and what people with them may use.
type ruleSettings struct {
	settings.At
	// Claims and their values. A claim that is a list has to contain the value. A dot
	// leads into an object, as in `realm_access.roles`. All of them must match; none
	// admits everybody.
	When map[string]string `key:"when" example:"{groups: llm-search}"`
	// Organisation. The default is `default`.
	Org string `key:"org" example:"acme"`
	// Team. The default is none.
	Team string `key:"team" example:"search"`
	// Models, by name or prefix with `*`. The default is all.
	Models []string `key:"models" example:"[fast, \"local/*\"]"`
	// Highest priority of the requests under overload. The default is normal.
	Criticality string `key:"criticality" enum:"critical,normal,sheddable" example:"critical"`
	// Requests of each person per minute. The default, 0, is no limit. Limits of people
	// need a store.
	Requests int `key:"requests_per_minute" minimum:"0" example:"60"`
	// Tokens of each person per minute. The default, 0, is no limit.
	Tokens int `key:"tokens_per_minute" minimum:"0" example:"200000"`
	// Open requests of each person. The default is overload.per_key.
	Concurrency int `key:"concurrency" minimum:"0" example:"8"`
	// Dollars that each person may spend per window. The default is no limit.
	Budget string `key:"budget" pattern:"^[0-9]{1,9}(\\.[0-9]{1,9})?$" form:"an amount of dollars" example:"50"`
	// Window of the budget. The default, 0, is all time.
	Window time.Duration `key:"window" example:"720h"`
	// Several budgets that hold at once, at most four, instead of budget and window.
	Budgets []budgetSettings `key:"budgets"`
	// JSON file with the settings that people's coding agents get, such as the
	// `managed-settings.json` of Claude Code: an object of at most 256 KiB. It is read
	// when the configuration is loaded. The default is none.
	Settings string `key:"settings" example:"settings/search.json"`
	// Keys that people may create for themselves, with `isogloss keys mine` and on the page
	// My usage of the client port. Off unless written; `own_keys: {}` has the defaults.
	// Requests with such a key are the person's: they count for the person's limits and
	// budgets, and end with the account. It requires a store.
	OwnKeys ownKeysSettings `key:"own_keys"`
	// Role in the admin API. The default is none. Roles need a store.
	Role string `key:"role" enum:"owner,admin,billing,auditor,key-manager" example:"auditor"`
	// Whether groups of SCIM may give the role. The default is false: a rule with a role
	// reads groups from the token only.
	RoleByGroups bool `key:"role_by_scim_groups" example:"true"`
}

// ownKeysSettings is which keys people may create for themselves.
type ownKeysSettings struct {
	settings.At
	// Keys of a person that are valid at once. The default is 5.
	Max int `key:"max" minimum:"1" maximum:"100" example:"3"`
	// Time after which a key expires at the latest. The default is 2160h, 90 days.
	Expires time.Duration `key:"expires" minimum:"1h" maximum:"8784h" example:"720h"`
	// Models that a key may have, by name or prefix with `*`, of those of the person. The
	// default is all of them.
	Models []string `key:"models" example:"[fast]"`
}

// budgetSettings is one of several budgets.
type budgetSettings struct {
	settings.At
	// Dollars that each person may spend per window.
	Budget string `key:"budget" pattern:"^[0-9]{1,9}(\\.[0-9]{1,9})?$" form:"an amount of dollars" example:"5"`
	// Window of the budget. The default, 0, is all time.
	Window time.Duration `key:"window" example:"24h"`
}
