package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/ledger/nodes"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
)

// The states of a node.
const (
	nodeRunning = "running"
	nodeSilent  = "silent" // it does not report, and did not say that it stops
	nodeStopped = "stopped"
)

type nodeList struct {
	Nodes   []nodeView `json:"nodes" doc:"By name. Those that stopped are listed for a day, or until the node starts again."`
	Missing string     `json:"missing,omitempty" doc:"Why only this node is listed: the store does not respond."`
}

// nodeView is a gateway process.
type nodeView struct {
	ID         string     `json:"id" doc:"Id of the process."`
	Name       string     `json:"name" doc:"The setting node, or the host's name."`
	This       bool       `json:"this" doc:"The node that responds."`
	State      string     `json:"state" doc:"running; silent: without a report for a minute; or stopped."`
	Version    string     `json:"version"`
	Started    time.Time  `json:"started"`
	Seen       time.Time  `json:"seen" doc:"When it reported last, every 15 seconds. By its own clock."`
	Stopped    time.Time  `json:"stopped,omitzero"`
	Config     string     `json:"config" doc:"Digest of its configuration, without secrets and without the setting node."`
	SameConfig bool       `json:"same_config" doc:"The digest is that of the node that responds."`
	Loaded     time.Time  `json:"loaded" doc:"When its configuration was loaded."`
	Refused    time.Time  `json:"refused,omitzero" doc:"When it refused a reload. Absent: its last reload was not refused."`
	Open       int64      `json:"open" doc:"Requests in flight."`
	Captured   bool       `json:"captured" doc:"A capture is attached: somebody on its machine can read requests."`
	Ledger     ledgerView `json:"ledger"`
}

// ledgerView is what a node has not yet written to the ledger.
type ledgerView struct {
	Rows   int64   `json:"rows" doc:"Requests that ended and are not in the ledger yet. They are on the node's disk."`
	Oldest float64 `json:"oldest_seconds" doc:"Age of the oldest of them."`
}

func viewNode(n, self store.Node, now time.Time) nodeView {
	v := nodeView{
		ID: n.ID, Name: n.Name, This: n.ID == self.ID, State: nodeRunning, Version: n.Version, Started: n.Started, Seen: n.Seen, Stopped: n.Stopped,
		Config: n.Config, SameConfig: n.Config == self.Config, Loaded: n.Loaded, Refused: n.Refused, Open: n.Open, Captured: n.Captured,
		Ledger: ledgerView{Rows: n.Waiting, Oldest: n.Oldest.Seconds()},
	}
	switch {
	case !n.Stopped.IsZero():
		v.State = nodeStopped
	case now.Sub(n.Seen) > nodes.Silence:
		v.State = nodeSilent
	}
	return v
}

// listNodes lists the nodes. Without the store it lists this one, whose state needs no store.
func (s *server) listNodes(ctx context.Context, _ *call, _ *noInput) (*nodeList, error) {
	self, now := s.Self.Node(), s.Now()
	out := nodeList{}
	known, err := s.Nodes.Nodes(ctx)
	if err != nil {
		s.Logger.WarnContext(ctx, "the nodes cannot be listed", "error", err)
		out.Missing = "the store does not respond; only this node is listed"
	}
	at := slices.IndexFunc(known, func(n store.Node) bool { return n.ID == self.ID })
	if at < 0 {
		at, known = len(known), append(known, self)
	}
	known[at] = self
	for _, n := range known {
		out.Nodes = append(out.Nodes, viewNode(n, self, now))
	}
	return new(out), nil
}

type nodePath struct {
	Node string `path:"node" maxLength:"256" doc:"Id of the process."`
}

// comparison is a node's configuration and how it differs.
type comparison struct {
	Node        string             `json:"node" doc:"Id of the process."`
	Digest      string             `json:"digest"`
	Text        string             `json:"text" doc:"Its configuration, one setting per line with its key, without secrets."`
	Differences []nodes.Difference `json:"differences" doc:"From the configuration of the node that responds. Secrets are not compared."`
}

func (s *server) compareNode(ctx context.Context, _ *call, in *nodePath) (*comparison, error) {
	if self := s.Self.Node(); in.Node == self.ID {
		return new(comparison{Node: self.ID, Digest: self.Config, Text: nodes.Text(s.Self.Config())}), nil
	}
	known, err := s.Nodes.Nodes(ctx)
	if err != nil {
		return nil, unavailable(nodeStoreName, err)
	}
	i := slices.IndexFunc(known, func(n store.Node) bool { return n.ID == in.Node })
	if i < 0 {
		return nil, missing("node", in.Node)
	}
	text, err := s.Nodes.NodeConfig(ctx, known[i].Config)
	differences, other := nodes.Compare(s.Self.Config(), text)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, openapi.NewProblem(http.StatusNotFound, "not_kept", "the configuration of this node is not stored: it is longer than 256 KiB, or one of more than 20; ask the node itself for it")
	case err != nil:
		return nil, unavailable(nodeStoreName, err)
	case other != nil:
		return nil, openapi.NewProblem(http.StatusConflict, "other_version", "the node runs version %s, which describes its configuration in another form; update it, or ask the node itself for its configuration", known[i].Version)
	}
	return new(comparison{Node: in.Node, Digest: known[i].Config, Text: nodes.Text(text), Differences: differences}), nil
}

// nodeStoreName names the store in error messages.
const nodeStoreName = "the store of the nodes"
