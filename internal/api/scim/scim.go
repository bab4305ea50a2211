package scim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/isogloss-gateway/isogloss/internal/api/admin"
	"github.com/isogloss-gateway/isogloss/internal/api/openapi"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/people/access"
)

// Limits of requests and directories.
const (
	maxBody       = 1 << 20
	maxDepth      = 16      // of JSON
	maxOperations = 1000    // of a PATCH
	maxText       = 1024    // bytes of a value
	maxUsers      = 100_000 // of a directory
	maxGroups     = 10_000  // of a directory
	maxMembers    = 20_000  // of a group
	maxUserGroups = 1000    // of a user
	maxEmails     = 20      // of a user
	maxPage       = 200     // resources of a response
	maxListed     = 100_000 // members in a list of groups

	bodyTimeout    = 15 * time.Second
	requestTimeout = 30 * time.Second
)

// Store has the users and groups. A *store.Store implements it.
type Store interface {
	Read(ctx context.Context, do func(context.Context, db.Conn) error) error
	Provision(ctx context.Context, do func(context.Context, db.Conn) (user string, err error)) ([]store.Account, error)
}

// Issuer is an identity provider that may manage its people.
type Issuer struct {
	URL  string
	Path string // of its endpoints, such as /scim/v2
}

// Options are the dependencies of the handler.
type Options struct {
	Guard   *admin.Guard
	Store   Store
	Issuers func() []Issuer // those of the configuration in use
}

// directory is what a request may see and change.
type directory struct{ issuer, org string }

// server serves the endpoints.
type server struct{ Options }

// New returns the handler of the paths of all issuers.
func New(o Options) http.Handler {
	s := &server{o}
	return o.Guard.Protect(http.HandlerFunc(s.serve))
}

// request is an authorized request.
type request struct {
	*http.Request
	w      http.ResponseWriter
	call   *admin.Call
	dir    directory
	base   string // path of the issuer
	action string // for the audit log
	id     string // of a user or group; empty: all
}

// serve finds the issuer of a path, authorizes the operator and runs the operation.
func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	i, rest, ok := s.find(r.URL.Path)
	if !ok {
		notFound("there is no SCIM endpoint at this path; the configuration names them").write(w)
		return
	}
	kind, id, _ := strings.Cut(rest, "/")
	action := "scim." + strings.ToLower(r.Method+"-"+kind)
	run := s.operation(r.Method, kind, id)
	if run == nil {
		action = "scim.unknown" // the path is not ours
	}
	c, p := s.Guard.Authorize(r, access.SCIMAPI, action, access.KeyManager)
	if p != nil {
		(&fault{p}).write(w)
		return
	}
	if run == nil {
		openapi.CloseUnread(w, r)
		notFound("there is no such resource, or it does not support this method").write(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
	defer cancel()
	req := &request{Request: r.WithContext(ctx), w: w, call: c, dir: directory{i.URL, c.Org}, base: i.Path, action: action, id: id}
	status, out, err := run(req)
	if err != nil {
		(&fault{s.Guard.Fail(ctx, action, asProblem(err))}).write(w)
		return
	}
	if at, ok := out.(interface{ location() string }); ok && status == http.StatusCreated {
		w.Header().Set("Location", at.location())
	}
	req.write(status, out)
}

// find returns the issuer of a path, and the rest of the path.
func (s *server) find(path string) (Issuer, string, bool) {
	for _, i := range s.Issuers() {
		if rest, ok := strings.CutPrefix(path, i.Path+"/"); ok {
			return i, strings.TrimSuffix(rest, "/"), true
		}
	}
	return Issuer{}, "", false
}

// operation returns the function of a method and a resource, nil if there is none.
func (s *server) operation(method, kind, id string) func(*request) (int, any, error) {
	key := method + " " + kind
	if id != "" {
		key += "/ID"
	}
	return map[string]func(*request) (int, any, error){
		"GET ServiceProviderConfig": s.providerConfig,
		"GET ResourceTypes":         s.resourceTypes,
		"GET ResourceTypes/ID":      s.resourceTypes,
		"GET Schemas":               s.schemas,
		"GET Schemas/ID":            s.schemas,
		"GET Users":                 s.listUsers,
		"POST Users":                s.createUser,
		"GET Users/ID":              s.getUser,
		"PUT Users/ID":              s.putUser,
		"PATCH Users/ID":            s.patchUser,
		"DELETE Users/ID":           s.deleteUser,
		"GET Groups":                s.listGroups,
		"POST Groups":               s.createGroup,
		"GET Groups/ID":             s.getGroup,
		"PUT Groups/ID":             s.putGroup,
		"PATCH Groups/ID":           s.patchGroup,
		"DELETE Groups/ID":          s.deleteGroup,
	}[key]
}

// changes returns the changes that read finds in the body of a request.
func (r *request) changes(read func(map[string]any) ([]change, error)) ([]change, error) {
	body, err := r.body()
	if err != nil {
		return nil, err
	}
	return read(body)
}

// body reads the JSON object of a request.
func (r *request) body() (map[string]any, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/scim+json" && kind != "application/json" || r.Header.Get("Content-Encoding") != "" {
		return nil, openapi.NewProblem(http.StatusUnsupportedMediaType, "content_type", "a body must be JSON; send it with 'Content-Type: application/scim+json'")
	}
	conn := http.NewResponseController(r.w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout)) // a writer without a connection has no deadline
	data, err := io.ReadAll(http.MaxBytesReader(r.w, r.Body, maxBody))
	if err == nil { // otherwise the server would wait for the rest of the body
		_ = conn.SetReadDeadline(time.Time{})
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, tooMuch("the body is larger than %d bytes; send less at once", maxBody)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, openapi.NewProblem(http.StatusRequestTimeout, "too_slow", "the body did not arrive within %v; send it again", bodyTimeout)
	case err != nil:
		return nil, invalid(invalidSyntax, "the body ended early; send it again")
	}
	if !shallow(data) {
		return nil, invalid(invalidSyntax, "the body is not valid JSON, or nested more than %d levels deep", maxDepth)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil || out == nil {
		return nil, invalid(invalidSyntax, "the body is not a JSON object, or has a member twice")
	}
	return out, nil
}

// shallow reports whether a text is JSON of a limited depth.
func shallow(data []byte) bool {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		_, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil || d.StackDepth() > maxDepth {
			return false
		}
	}
}

// write sends a result.
func (r *request) write(status int, out any) {
	if out == nil {
		r.w.WriteHeader(status)
		return
	}
	text, err := json.Marshal(out, json.Deterministic(true))
	if err != nil {
		(&fault{openapi.NewProblem(http.StatusInternalServerError, "internal", "the response cannot be written")}).write(r.w)
		return
	}
	r.w.Header().Set("Content-Type", "application/scim+json")
	r.w.WriteHeader(status)
	_, _ = r.w.Write(text) // the client may have disconnected
}

// excludes reports whether the response is to leave an attribute out.
func (r *request) excludes(attribute string) bool {
	same := func(a string) bool { return strings.EqualFold(strings.TrimSpace(a), attribute) }
	query := r.URL.Query()
	if only := query.Get("attributes"); only != "" {
		return !slices.ContainsFunc(strings.Split(only, ","), same)
	}
	return slices.ContainsFunc(strings.Split(query.Get("excludedAttributes"), ","), same)
}

// page is a part of a list.
type page struct{ start, count int }

// page returns the part of a list that a request names.
func (r *request) page() (p page, err error) {
	p = page{1, 100}
	for name, to := range map[string]*int{"startIndex": &p.start, "count": &p.count} {
		text := r.URL.Query().Get(name)
		if text == "" {
			continue
		}
		if *to, err = strconv.Atoi(text); err != nil {
			return p, invalid(invalidValue, "%s is not a number", name)
		}
	}
	p.start, p.count = max(p.start, 1), min(max(p.count, 0), maxPage)
	return p, nil
}

// list is a response with several resources.
type list struct {
	Schemas   []string `json:"schemas"`
	Total     int      `json:"totalResults"`
	Start     int      `json:"startIndex"`
	PerPage   int      `json:"itemsPerPage"`
	Resources []any    `json:"Resources"`
}

func newList(total, start int, resources []any) *list {
	if resources == nil {
		resources = []any{}
	}
	return &list{[]string{"urn:ietf:params:scim:api:messages:2.0:ListResponse"}, total, start, len(resources), resources}
}

// meta is the part of a resource that the server sets.
type meta struct {
	Type     string    `json:"resourceType"`
	Created  time.Time `json:"created"`
	Modified time.Time `json:"lastModified"`
	Location string    `json:"location"`
}
