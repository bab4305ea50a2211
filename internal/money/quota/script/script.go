// Package script has the scripts that count in Redis.
package script

import (
	"embed"

	"github.com/isogloss-gateway/isogloss/internal/base/redis"
)

//go:embed lua/*.lua
var scripts embed.FS

// The scripts, in the order of All.
const (
	Reserve = iota
	Settle
	Seed
	Renew
	Members
)

// All returns the scripts.
func All() []string {
	text := func(name string) string {
		b, _ := scripts.ReadFile("lua/" + name + ".lua") // embedded
		return string(b)
	}
	lib := text("lib")
	return []string{lib + text("reserve"), lib + text("settle"), lib + text("seed"), lib + text("renew"), text("members")}
}

// AddAccount appends the keys of an account.
func AddAccount(c *redis.Call, org, id string) {
	key := Key(org, "a:", id)
	c.Keys = append(c.Keys, key, key+":n", key+":b", key+":l")
}

// Key returns a Redis key. The part in braces selects the cluster slot: all keys of an organisation
// share one, so that a script can access them together.
func Key(org, kind, name string) string { return "quota2:{o:" + org + "}:" + kind + name }
