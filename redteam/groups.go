package main

import (
	"slices"
	"strings"
)

// groups returns all attacks.
func groups() []group {
	all := []group{
		{name: "json", start: controlled(start(tenantStore)), attacks: jsonAttacks()},
		{name: "auth", start: authRig, attacks: authAttacks()},
		{name: "roles", start: roleRig, attacks: roleAttacks()},
		{name: "wire", start: controlled(start(tenantStore)), attacks: slices.Concat(smuggleAttacks(), headerAttacks())},
		{name: "models", start: scoped(start(tenantStore)), attacks: slices.Concat(nameAttacks(), innerAttacks())},
		{name: "browser", start: start(openConfig), attacks: browserAttacks()},
		{name: "cors", start: start(corsConfig), attacks: corsAttacks()},
		{name: "ssrf", start: ssrfRig, attacks: ssrfAttacks()},
		{name: "upstream", start: controlled(start(hostileConfig)), attacks: upstreamAttacks(), atOnce: 8},
		{name: "secrets", start: secretRig, attacks: secretAttacks()},
		{name: "clouds", start: startClouds, attacks: cloudAttacks()},
		{name: "unsafe", start: noGateway, attacks: unsafeAttacks(), atOnce: 2},
		{name: "files", start: umaskRig, attacks: fileAttacks()},
		{name: "slow", start: start(tenantStore), attacks: slowAttacks(), waits: true, atOnce: 200},
		{name: "crowd", start: start(tenantStore), attacks: crowdAttacks()},
		{name: "amplify", start: start(tenantStore), attacks: slices.Concat(amplifyAttacks(), embedAttacks())},
		{name: "exports", start: start(tenantStore), attacks: slices.Concat(formulaAttacks(), pathAttacks())},
		{name: "salts", start: start(saltConfig), attacks: saltAttacks()},
		{name: "tags", start: start(tagConfig), attacks: tagAttacks()},
		{name: "tenants", start: controlled(start(tenantConfig)), attacks: slices.Concat(tenantAttacks(), quotaAttacks())},
		{name: "usage", start: usageRig, attacks: usageAttacks()},
		{name: "static", start: start(staticConfig), attacks: staticAttacks()},
		{name: "loop", start: noGateway, attacks: loopAttacks()},
		{name: "http2", start: floodRig, attacks: floodAttacks()},
		{name: "h2c", start: start(h2cConfig), attacks: clearFloodAttacks()},
		{name: "budget", start: budgetRig, attacks: budgetAttacks()},
		{name: "alerts", start: start(alertConfig), attacks: alertAttacks()},
		{name: "starve", start: start(starveConfig), attacks: starveAttacks(), waits: true},
		{name: "stores", start: storesRig, attacks: storeAttacks(), waits: true},
		{name: "open", start: openRig, attacks: openAttacks()},
		{name: "identity", start: peopleRig, attacks: identityAttacks()},
		{name: "issuers", start: issuersRig, attacks: issuerAttacks(), waits: true, every: 3},
		{name: "signin", start: peopleRig, attacks: signInAttacks()},
		{name: "scim", start: peopleRig, attacks: scimAttacks(), every: 2},
		{name: "terminal", start: noGateway, attacks: terminalAttacks(), waits: true, atOnce: 4, every: 6},
		{name: "records", start: consumerRig, attacks: recordAttacks(), waits: true, atOnce: 20, every: 2},
		{name: "local", start: noGateway, attacks: slices.Concat(placeAttacks(), impostorAttacks(), socketAnswers()), atOnce: 4, every: 6},
		{name: "socket", start: localRig, attacks: socketAttacks(), every: 3},
		{name: "refusals", start: refusalRig, attacks: refusalAttacks()},
		{name: "clickhouse", start: ledgerRig, attacks: clickhouseAttacks()},
	}
	for _, s := range sources() {
		all = append(all, group{name: s.name, start: metadataRig(s), attacks: metadataAttacks(s), waits: true, every: 3})
	}
	for _, g := range all {
		if g.every > 0 { // a short run plays the same attacks each time
			slices.SortFunc(g.attacks, func(a, b attack) int { return strings.Compare(a.name, b.name) })
		}
	}
	return all
}
