package codec

import (
	"strings"

	"github.com/isogloss-gateway/isogloss/llm"
	"github.com/isogloss-gateway/isogloss/protocol/wire"
)

// VendorState describes what a dialect's vendor stores under ids: responses, files, caches.
// The vendor lets every request with the same credential use all of it. So the gateway has to
// know which client an id belongs to.
type VendorState struct {
	// References returns the ids that a request refers to. It leaves out ids of items that
	// the request contains itself.
	References func(body *wire.Index) []Reference

	// Keeps reports whether later requests may refer to the response, and to the ids in
	// Kept of its summary. Nil: they may refer only to the ids in Kept.
	Keeps func(body *wire.Index) bool

	// Unknown returns the vendor's error for an id that does not exist.
	Unknown func(Reference) *llm.Error
}

// Reference is the id of an object that the vendor stores.
type Reference struct {
	ID    string
	Param string // the path of the member
}

// FindReferences returns the ids at these paths of a request. FindModels describes the form of
// a path. Lists are searched only if they contain one of the marks.
func FindReferences(body *wire.Index, paths []string, marks ...string) (list []Reference) {
	f := finder{body: body}
	f.find(paths, marks...)
	for _, m := range f.found {
		if m.Name != "" {
			list = append(list, Reference{ID: m.Name, Param: m.Param})
		}
	}
	return list
}

// FindIDs returns the strings that the items of a list have at a path.
func FindIDs(list []byte, path string) (ids []string) {
	f := finder{s: wire.NewScanner(list)}
	f.walk(true, path)
	for _, m := range f.found {
		ids = append(ids, m.Name)
	}
	return ids
}

// CreatedIDs returns the ids of an object that a vendor created, from the response. They are
// its "id", or its "name" and "uri", which may be in a member "file".
func CreatedIDs(response []byte) (ids []string) {
	add := func(s *wire.Scanner, name string) {
		if (name == "id" || name == "name" || name == "uri") && s.Kind() == '"' {
			if id := wire.Unquote(s.Value()); id != "" {
				ids = append(ids, id)
			}
		}
	}
	s := wire.NewScanner(response)
	for name := range s.Members() {
		if string(name) != "file" || s.Kind() != '{' {
			add(&s, string(name))
			continue
		}
		for name := range s.Members() {
			add(&s, string(name))
		}
	}
	if s.End() != nil {
		return nil
	}
	return ids
}

// NotFound is the error of an id that does not exist. The id replaces "ID" in the text.
func NotFound(kind llm.Kind, code string, r Reference, text string) *llm.Error {
	return &llm.Error{Kind: kind, Code: code, Param: r.Param, Message: strings.ReplaceAll(text, "ID", r.ID)}
}
