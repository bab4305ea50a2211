package access

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/base/recent"
	"github.com/isogloss-gateway/isogloss/llm"
)

// DisplayName is an attribute by which a rule can name a SCIM group, like ExternalID.
const DisplayName = "displayName"

// SCIMGroup is a group of a SCIM directory, of which a person is a member.
type SCIMGroup struct {
	Org        string // whose people the directory manages; empty: those of all
	ExternalID string
	Name       string // displayName
}

// SCIMGroups are the groups of a person at one moment.
type SCIMGroups struct {
	List  []SCIMGroup
	epoch int64 // when they were read
}

// In returns the attribute of the groups in directories that manage the people of an organisation.
func (g *SCIMGroups) In(org, attribute string) (values []string) {
	if g == nil {
		return nil
	}
	for _, one := range g.List {
		value := one.ExternalID
		if attribute == DisplayName {
			value = one.Name
		}
		if value != "" && (one.Org == "" || one.Org == org) {
			values = append(values, value)
		}
	}
	return values
}

// isLater reports whether groups were read after a change that other groups may not have.
func (g *SCIMGroups) isLater(other *SCIMGroups) bool {
	return g != nil && (other == nil || g.epoch > other.epoch)
}

// groupPeople is the number of people whose groups are in memory, in each generation.
const groupPeople = 16_384

// groupCache has the groups of people. Those of an earlier epoch are read again.
type groupCache struct {
	epoch atomic.Int64 // increases when users or groups of SCIM have changed

	mu    sync.Mutex
	known recent.Map[string, *SCIMGroups] // by SCIM name
}

func (c *groupCache) get(name string) *SCIMGroups {
	c.mu.Lock()
	defer c.mu.Unlock()
	g, _ := c.known.Get(name)
	return g
}

func (c *groupCache) put(name string, g *SCIMGroups) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known.IsZero() {
		c.known = recent.New[string, *SCIMGroups](groupPeople)
	}
	c.known.Put(name, g)
}

// SCIMGroups returns the groups of the person with a SCIM name. known are the groups that the caller has
// read before. They are returned if nothing has changed since; nil is none. Without the store it returns
// what has not changed as far as this node knows.
func (d *Directory) SCIMGroups(ctx context.Context, name string, known *SCIMGroups) (*SCIMGroups, *llm.Error) {
	epoch := d.groups.epoch.Load()
	if known != nil && known.epoch == epoch {
		return known, nil
	}
	if g := d.groups.get(name); g != nil && g.epoch == epoch {
		return g, nil
	}
	answer := d.flights.DoChan("groups "+strconv.FormatInt(epoch, 10)+" "+name, func() (any, error) { return d.readGroups(name, epoch) })
	timer := time.NewTimer(lookupWait)
	defer timer.Stop()
	err := errBusy
	select {
	case got := <-answer:
		if g, ok := got.Val.(*SCIMGroups); ok && got.Err == nil {
			return g, nil
		}
		err = got.Err
	case <-timer.C:
	case <-ctx.Done():
		return nil, &llm.Error{Kind: llm.Cancelled, Message: "the client disconnected", Cause: ctx.Err()}
	}
	return nil, errUnavailable("the gateway's store, which has your groups, is not available; try again", err)
}

// readGroups reads groups from the source when a slot is free, unless another call was faster.
func (d *Directory) readGroups(name string, epoch int64) (*SCIMGroups, error) {
	if g := d.groups.get(name); g != nil && g.epoch == epoch {
		return g, nil
	}
	timer := time.NewTimer(lookupWait)
	defer timer.Stop()
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	case <-timer.C:
		return nil, errBusy
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	list, err := d.o.Source.SCIMGroups(ctx, name)
	if err != nil {
		return nil, err
	}
	g := &SCIMGroups{List: list, epoch: epoch}
	d.groups.put(name, g)
	return g, nil
}
