package quota

import (
	"embed"

	"github.com/isogloss-gateway/isogloss/internal/redis"
)

//go:embed lua/*.lua
var scripts embed.FS

// The scripts, in the order of Scripts.
const (
	reserveScript = iota
	settleScript
	seedScript
	renewScript
	membersScript
)

// Scripts returns the scripts that a Limiter calls, for redis.Options.
func Scripts() []string {
	text := func(name string) string {
		b, _ := scripts.ReadFile("lua/" + name + ".lua") // embedded
		return string(b)
	}
	lib := text("lib")
	return []string{lib + text("reserve"), lib + text("settle"), lib + text("seed"), lib + text("renew"), text("members")}
}

// addAccount appends the keys of an account.
func addAccount(c *redis.Call, org, id string) {
	key := key(org, "a:", id)
	c.Keys = append(c.Keys, key, key+":n", key+":b", key+":l")
}

// key returns a Redis key. The part in braces selects the cluster slot: all keys of an organisation
// share one, so that a script can access them together.
func key(org, kind, name string) string { return "quota2:{o:" + org + "}:" + kind + name }
