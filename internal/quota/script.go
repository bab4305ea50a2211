package quota

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	_ "embed"
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/redis/rueidis"
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

// script is a program that Redis runs as one step.
type script struct{ text, sha string }

// scripts are all there are.
type scripts struct{ reserve, settle, seed, renew, members script }

func loadScripts() scripts {
	return scripts{
		reserve: newScript(libText + reserveText), settle: newScript(libText + settleText), seed: newScript(libText + seedText),
		renew: newScript(libText + renewText), members: newScript(membersText),
	}
}

func (s *scripts) all() []script { return []script{s.reserve, s.settle, s.seed, s.renew, s.members} }

func newScript(text string) script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // Redis names scripts by it
	return script{text, hex.EncodeToString(sum[:])}
}

// call is a script with what it is given.
type call struct {
	script     *script
	keys, args []string
}

func (c *call) arg(values ...int64) {
	for _, v := range values {
		c.args = append(c.args, strconv.FormatInt(v, 10))
	}
}

// account adds the keys of one.
func (c *call) account(org, id string) {
	key := key(org, "a:", id)
	c.keys = append(c.keys, key, key+":n", key+":b")
}

// key is a name in Redis. What is in braces decides on the slot in a cluster: all of
// an organisation are in one, so that a script may touch them together.
func key(org, kind, name string) string { return "quota:{o:" + org + "}:" + kind + name }

func (c *call) build(client rueidis.Client) rueidis.Completed {
	return client.B().Evalsha().Sha1(c.script.sha).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
}

// full sends the text along, for a server that has not seen the script yet.
func (c *call) full(client rueidis.Client) rueidis.Completed {
	return client.B().Eval().Script(c.script.text).Numkeys(int64(len(c.keys))).Key(c.keys...).Arg(c.args...).Build()
}

// run sends calls in one round trip and returns each one's answer.
func run(ctx context.Context, client rueidis.Client, calls []call) []answer {
	cmds := make([]rueidis.Completed, len(calls))
	for i := range calls {
		cmds[i] = calls[i].build(client)
	}
	all := make([]answer, len(calls))
	for i, resp := range client.DoMulti(ctx, cmds...) {
		all[i].values, all[i].err = resp.AsIntSlice()
		if isUnseen(all[i].err) {
			all[i].values, all[i].err = client.Do(ctx, calls[i].full(client)).AsIntSlice()
		}
	}
	return all
}

// run sends one.
func (c *call) run(ctx context.Context, client rueidis.Client) ([]int64, error) {
	values, err := client.Do(ctx, c.build(client)).AsIntSlice()
	if isUnseen(err) {
		return client.Do(ctx, c.full(client)).AsIntSlice()
	}
	return values, err
}

type answer struct {
	values []int64
	err    error
}

func isUnseen(err error) bool {
	if err == nil {
		return false
	}
	reply, ok := rueidis.IsRedisErr(err)
	return ok && reply.IsNoScript()
}

// isBroken reports whether there is no connection, as opposed to no answer in time
// or an answer that is an error.
func isBroken(err error) bool {
	if _, ok := rueidis.IsRedisErr(err); ok {
		return false
	}
	return err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
}
