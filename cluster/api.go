package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// The admin API, by its documented paths.
const (
	apiDocument = "/api/openapi.json"
	apiKeys     = "/api/v1/keys"
)

// order is a request to the admin API.
type order struct {
	node int
	path string
	body string // empty: it is read
}

// api sends an order as an operator.
func (c *cluster) api(ctx context.Context, operator key, o order) (status int, said []byte, err error) {
	method := http.MethodGet
	if o.body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, c.nodes[o.node].admin+o.path, strings.NewReader(o.body))
	if err != nil {
		return 0, nil, err
	}
	if o.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Authorization", "Bearer "+operator.Key)
	resp, err := c.clients.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	said, err = io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	return resp.StatusCode, said, err
}

// manyKeys makes keys through the admin API: the command line would take a process
// for each.
func (c *cluster) manyKeys(ctx context.Context, n int) ([]key, error) {
	operator, err := c.newKey(ctx, "operator", limits{role: "owner"})
	if err != nil {
		return nil, err
	}
	if _, err := c.newKey(ctx, "first", limits{}); err != nil { // with it comes the organisation of those that name none
		return nil, err
	}
	keys, errs := make([]key, n), make([]error, n)
	each(n, 4, func(i int) { keys[i], errs[i] = c.apiKey(ctx, i%nodes, operator, fmt.Sprintf("key-%d", i)) })
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return keys, nil
}

func (c *cluster) apiKey(ctx context.Context, node int, operator key, name string) (key, error) {
	status, said, err := c.api(ctx, operator, order{node, apiKeys, fmt.Sprintf(`{"name":%q,"org":"default","models":["*"]}`, name)})
	if err != nil {
		return key{}, err
	}
	var made struct {
		Key  struct{ ID string }
		Text string
	}
	if err := json.Unmarshal(said, &made); err != nil || made.Text == "" {
		return key{}, fmt.Errorf("POST %s: status %d: %s", apiKeys, status, clip(string(said), 400))
	}
	return key{ID: made.Key.ID, Key: made.Text}, nil
}

// readable are the paths of the API that can be read without knowing a name.
func (c *cluster) readable(ctx context.Context, operator key) ([]string, error) {
	status, said, err := c.api(ctx, operator, order{path: apiDocument})
	if err != nil {
		return nil, err
	}
	var document struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal(said, &document); err != nil || len(document.Paths) == 0 {
		return nil, fmt.Errorf("GET %s: status %d: %s", apiDocument, status, clip(string(said), 300))
	}
	var paths []string
	for path, methods := range document.Paths {
		if methods["get"] != nil && !strings.Contains(path, "{") {
			if !strings.HasPrefix(path, "/api/") {
				path = "/api/v1" + path
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}
