package admin

import "net/http"

// allRoutes returns every operation. roles.go says who may use it.
func (s *server) allRoutes() []route {
	const get, post, patch, put = http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodPut
	return []route{
		handle("whoami", get, "/whoami", "Show the operator's own key and permissions", s.whoami),
		s.sessionRoute(),

		handle("list-keys", get, "/keys", "List keys", s.listKeys),
		handle("create-key", post, "/keys", "Create a key; only this response has its text", s.createKey),
		handle("get-key", get, "/keys/{key}", "Show a key", s.getKey),
		handle("update-key", patch, "/keys/{key}", "Change a key's name, scopes, expiry or limits", s.updateKey),
		handle("revoke-key", post, "/keys/{key}/revoke", "Revoke a key permanently", s.revokeKey),
		handle("rotate-key", post, "/keys/{key}/rotate", "Give a key a new secret; only this response has its text", s.rotateKey),
		handle("set-key-budget", put, "/keys/{key}/budget", "Set a key's budget", s.setKeyBudget),
		handle("get-key-limits", get, "/keys/{key}/limits", "Show a key's use of its limits", s.getKeyLimits),
		s.runRoute(),

		handle("list-orgs", get, "/orgs", "List organisations", s.listOrgs),
		handle("create-org", post, "/orgs", "Create an organisation", s.createTenant),
		handle("get-org", get, "/orgs/{org}", "Show an organisation", s.getTenant),
		handle("update-org", patch, "/orgs/{org}", "Change an organisation, or block it", s.updateTenant),
		handle("set-org-budget", put, "/orgs/{org}/budget", "Set an organisation's budget", s.setTenantBudget),
		handle("get-org-limits", get, "/orgs/{org}/limits", "Show an organisation's use of its limits", s.getTenantLimits),

		handle("list-teams", get, "/orgs/{org}/teams", "List an organisation's teams", s.listTeams),
		handle("create-team", post, "/orgs/{org}/teams", "Create a team", s.createTenant),
		handle("get-team", get, "/orgs/{org}/teams/{team}", "Show a team", s.getTenant),
		handle("update-team", patch, "/orgs/{org}/teams/{team}", "Change a team, or block it", s.updateTenant),
		handle("set-team-budget", put, "/orgs/{org}/teams/{team}/budget", "Set a team's budget", s.setTenantBudget),
		handle("get-team-limits", get, "/orgs/{org}/teams/{team}/limits", "Show a team's use of its limits", s.getTenantLimits),

		exported(s, handle("get-usage", get, "/usage", "Sum the usage of requests", s.getUsage), s.exportUsage),
		exported(s, handle("list-requests", get, "/requests", "List requests, newest first", s.listRequests), s.exportRequests),
		handle("list-refusals", get, "/refusals", "Count refused requests by key and reason", s.listRefusals),
		handle("get-request", get, "/requests/{request}", "Show a request with its attempts", s.getRequest),

		handle("list-targets", get, "/targets", "List targets and their state", s.listTargets),
		handle("list-models", get, "/models", "List models with their routes and the state of their targets", s.listModels),
		s.explainRoute(),
		handle("get-config", get, "/config", "Show the configuration in effect, without secrets", s.getConfig),
		handle("reload-config", post, "/config/reload", "Reload the configuration", s.reloadConfig),
		handle("list-nodes", get, "/nodes", "List the nodes that share the store, with version, configuration and ledger backlog", s.listNodes),
		handle("compare-node", get, "/nodes/{node}/config", "Compare a node's configuration with that of this node", s.compareNode),
		s.translateRoute(),
		handle("list-audit", get, "/audit", "List the audit log", s.listAudit),
		handle("verify-audit", get, "/audit/verify", "Verify the audit log", s.verifyAudit),
	}
}
