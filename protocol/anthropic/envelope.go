package anthropic

import (
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/isogloss-gateway/isogloss/internal/codec"
	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

const (
	betaHeader    = "anthropic-beta"
	countPath     = messagesPath + "/count_tokens"
	versionMember = "anthropic_version"
	betaMember    = "anthropic_beta"
)

// cloud is what the two clouds have in common: the model is in the path, and the version and
// the beta features are members of the body.
type cloud struct {
	version    string // its name for the first version of the protocol; it has the names of the others
	characters string // of model ids, beside letters and digits
}

// wrap moves the version and the beta features from the headers into the body. They take the
// place of the model, or follow it if it stays.
func (c *cloud) wrap(out *protocol.Outgoing, keepModel bool, remove ...string) *llm.Error {
	x, err := wire.IndexObject(out.Body)
	if err != nil {
		return codec.InvalidBody(err)
	}
	version := out.Header.Get(VersionHeader)
	if version == "" || version == Versions()[0].Name {
		version = c.version
	}
	value := wire.Quote(version)
	betas := append(betasOf(out.Header), textsOf(x.Raw(betaMember))...)
	if len(betas) > 0 {
		list, _ := wire.Marshal(betas) // strings cannot fail
		value += `,"` + betaMember + `":` + string(list)
	}
	edits := x.RemoveAll(append(remove, versionMember, betaMember)...)
	if keepModel {
		value = string(x.Raw("model")) + `,"` + versionMember + `":` + value
	} else if rename, ok := rename(&x, "model", versionMember); ok {
		edits = append(edits, rename)
	}
	out.Body = wire.Patch(out.Body, append(edits, x.Set("model", value)))
	out.Header.Del(VersionHeader)
	out.Header.Del(betaHeader)
	return nil
}

// rename returns the edit that renames a member, even if another one has the new name and is
// removed by another edit.
func rename(x *wire.Index, from, to string) (wire.Edit, bool) {
	e, ok := x.Rename(from, from+to) // a name that nothing has
	e.Text = wire.Quote(to)
	return e, ok
}

// open moves the version and the beta features from the body into headers. The model takes
// the place of the version.
func (c *cloud) open(at codec.Location, body []byte) ([]byte, http.Header, *llm.Error) {
	x, err := wire.IndexObject(body, "model", "stream", versionMember, betaMember)
	if err != nil {
		return nil, nil, codec.InvalidBody(err)
	}
	header := http.Header{}
	if version := wire.Unquote(x.Raw(versionMember)); version == c.version {
		header.Set(VersionHeader, Versions()[0].Name)
	} else if version != "" {
		header.Set(VersionHeader, version)
	}
	if betas := textsOf(x.Raw(betaMember)); len(betas) > 0 {
		header.Set(betaHeader, strings.Join(betas, ","))
	}
	remove := []string{betaMember}
	if at.Model == "" { // the body names it
		return wire.Patch(body, x.RemoveAll(append(remove, versionMember)...)), header, nil
	}
	value := wire.Quote(at.Model)
	if at.Stream {
		remove = append(remove, "stream")
		value += `,"stream":true`
	}
	to, ok := rename(&x, versionMember, "model")
	if !ok {
		return wire.Patch(body, append(x.RemoveAll(remove...), x.Set("model", value))), header, nil
	}
	edits := x.RemoveAll(append(remove, "model")...)
	return wire.Patch(body, append(edits, to, x.Set(versionMember, value))), header, nil
}

// betasOf returns the beta features of a request's headers.
func betasOf(h http.Header) []string {
	var list []string
	for _, line := range h.Values(betaHeader) {
		for beta := range strings.SplitSeq(line, ",") {
			if beta = strings.TrimSpace(beta); beta != "" {
				list = append(list, beta)
			}
		}
	}
	return list
}

// textsOf returns the strings of a list.
func textsOf(raw wire.Raw) []string {
	var list []string
	_ = json.Unmarshal(raw, &list, wire.Lenient) // anything else is no list of features
	return list
}

// unwrapError returns an error response of a cloud in the form of the protocol, with the status
// of that form. A model's own errors have it already.
func unwrapError(status int, header http.Header, body []byte) (int, []byte) {
	var own struct {
		Type  string   `json:"type"`
		Error wire.Raw `json:"error"`
	}
	if json.Unmarshal(body, &own, wire.Lenient) == nil && own.Type == "error" && own.Error.Kind() == '{' {
		return status, body
	}
	c := Codec{}
	e := c.DecodeError(status, header, body)
	switch {
	case status == http.StatusForbidden: // it is the gateway's credential that lacks a permission
		e.Kind = llm.Authentication
	case e.Kind != llm.InvalidRequest && codec.ExceptionName(header) != "":
		status = e.HTTPStatus()
	}
	if e.RetryAfter > 0 && codec.RetryAfter(header) == 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	return status, c.EncodeError(e)
}

// vertex is the envelope of Google Cloud.
var vertex = &cloud{version: "vertex-2023-10-16", characters: "-._@"}

// countModel is in the path of token counts on Vertex in place of a model.
const countModel = "count-tokens"

func vertexEnvelope() *codec.Envelope {
	return &codec.Envelope{
		Name: "vertex",
		Wrap: func(out *protocol.Outgoing, place codec.Place, _ *llm.Report) *llm.Error {
			model, err := codec.ModelSegment(place.Model, vertex.characters)
			if err != nil {
				return err
			}
			count, verb := out.Path == countPath, "rawPredict"
			switch {
			case count:
				model = countModel
			case place.Stream:
				verb = "streamRawPredict"
			}
			out.Path = "/v1/projects/" + url.PathEscape(place.Project) + "/locations/" + url.PathEscape(place.Location) + "/publishers/anthropic/models/" + model + ":" + verb
			return vertex.wrap(out, count)
		},
		Unwrap: func(status int, header http.Header, body []byte) (int, []byte) {
			if status < http.StatusBadRequest {
				return status, body
			}
			return unwrapError(status, header, body)
		},
		Open: vertex.open,
	}
}

// vertexPath matches the paths of clients that are configured for Vertex.
var vertexPath = regexp.MustCompile(`^/v1(?:beta1)?/projects/[^/]+/locations/[^/]+/publishers/anthropic/models/([^/]+):(rawPredict|streamRawPredict)$`)

// locator finds the routes of clients that are configured for a cloud.
type locator struct {
	messages, count *codec.Route
	vertex, bedrock *codec.Envelope
}

// locate finds the route of a request by its path.
func (l *locator) locate(req *http.Request) (codec.Location, bool, *llm.Error) {
	path := req.URL.EscapedPath()
	at := codec.Location{Route: l.messages, URLPath: messagesPath}
	var model string
	if m := vertexPath.FindStringSubmatch(path); m != nil {
		at.Envelope, at.Stream, model = l.vertex, m[2] == "streamRawPredict", m[1]
		if model == countModel {
			at.Route, at.URLPath = l.count, countPath
			return at, true, nil
		}
	} else if m := bedrockPath.FindStringSubmatch(path); m != nil {
		at.Envelope, at.Stream, model = l.bedrock, m[2] == bedrockStream, m[1]
		if m[2] == bedrockCount {
			at.Route, at.URLPath = l.count, countPath
		}
	} else {
		return codec.Location{}, false, nil
	}
	var err error
	if at.Model, err = url.PathUnescape(model); err != nil || at.Model == "" {
		return codec.Location{}, true, &llm.Error{Kind: llm.NotFound, Code: "unknown_path", Message: "the path names no model"}
	}
	return at, true, nil
}
