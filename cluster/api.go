package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// Documented paths of the admin API.
const (
	apiDocument = "/api/openapi.json"
	apiKeys     = "/api/v1/keys"
)

// apiCall is a request to the admin API of a node: a GET without a body, a POST with one.
type apiCall struct {
	node int
	path string
	body string
}

// api sends a request to the admin API as an operator.
func (c *cluster) api(ctx context.Context, operator key, call apiCall) (status int, body []byte, err error) {
	method := http.MethodGet
	if call.body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, c.nodes[call.node].Admin+call.path, strings.NewReader(call.body))
	if err != nil {
		return 0, nil, err
	}
	if call.body != "" {
		req.Header.Set("Content-Type", testrig.JSONMedia)
	}
	req.Header.Set("Authorization", "Bearer "+operator.Key)
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	return resp.StatusCode, body, err
}

// manyKeys creates keys through the admin API; the command line would need a process
// for each.
func (c *cluster) manyKeys(ctx context.Context, n int) []key {
	operator := c.newKey(ctx, "operator", limits{role: "owner"})
	c.newKey(ctx, "first", limits{}) // it creates the default organisation
	keys, errs := make([]key, n), make([]error, n)
	testrig.Each(n, 4, func(i int) { keys[i], errs[i] = c.apiKey(ctx, i%nodes, operator, fmt.Sprintf("key-%d", i)) })
	testrig.NoError(errors.Join(errs...))
	return keys
}

func (c *cluster) apiKey(ctx context.Context, node int, operator key, name string) (key, error) {
	status, body, err := c.api(ctx, operator, apiCall{node, apiKeys, fmt.Sprintf(`{"name":%q,"org":"default","models":["*"]}`, name)})
	if err != nil {
		return key{}, err
	}
	var created struct {
		Key  struct{ ID string }
		Text string
	}
	if err := json.Unmarshal(body, &created); err != nil || created.Text == "" {
		return key{}, fmt.Errorf("POST %s: status %d: %s", apiKeys, status, testrig.Clip(string(body), 400))
	}
	return key{ID: created.Key.ID, Key: created.Text}, nil
}

// readable returns the paths of the API that can be read without a name in them.
func (c *cluster) readable(ctx context.Context, operator key) (paths []string, err error) {
	status, body, err := c.api(ctx, operator, apiCall{path: apiDocument})
	if err != nil {
		return nil, err
	}
	var document struct {
		Paths map[string]map[string]any
	}
	if err := json.Unmarshal(body, &document); err != nil || len(document.Paths) == 0 {
		return nil, fmt.Errorf("GET %s: status %d: %s", apiDocument, status, testrig.Clip(string(body), 300))
	}
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
