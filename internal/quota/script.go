package quota

import (
	_ "embed"

	"github.com/isogloss-gateway/isogloss/internal/redis"
)

var (
	//go:embed lua/lib.lua
	libText string
	//go:embed lua/reserve.lua
	reserveText string
	//go:embed lua/settle.lua
	settleText string
	//go:embed lua/seed.lua
	seedText string
	//go:embed lua/renew.lua
	renewText string
	//go:embed lua/members.lua
	membersText string
)

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
	return []string{libText + reserveText, libText + settleText, libText + seedText, libText + renewText, membersText}
}

// addAccount appends the keys of an account.
func addAccount(c *redis.Call, org, id string) {
	key := key(org, "a:", id)
	c.Keys = append(c.Keys, key, key+":n", key+":b", key+":l")
}

// key returns a Redis key. The part in braces selects the cluster slot: all keys of an organisation
// share one, so that a script can access them together.
func key(org, kind, name string) string { return "quota2:{o:" + org + "}:" + kind + name }
